"""The writer process where memory, threads, descriptors or addresses are short: an answer, and never the end."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sojourn.formats.torch import write as torch_write
from sojourn.formats.torch import zip as torch_zip
from sojourn.train.saving import shared_memory, writer
from sojourn.train.saving.background import Background
from tests.train.killing import environment
from tests.train.lives import names

pytestmark = pytest.mark.skipif(not shared_memory.is_possible(), reason="only Linux has memfd")


def test_a_piece_that_cannot_be_hashed_is_the_answer_to_a_save_and_the_memory_can_grow_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer's work, done here; the pieces are large enough for the threads that hash."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    shared = shared_memory.Arena()
    worker = writer.Writer(theirs, shared.fd, os.getppid())

    def answer(size: int) -> dict[str, Any]:
        tree = {"a": bytearray(b"a" * size), "b": bytearray(b"b" * size)}
        storages = {name: torch_write.Storage(size, lambda data=data: memoryview(data)) for name, data in tree.items()}
        plan = torch_write.plan({n: torch_zip.Tensor("uint8", (size,), (1,), 0, s) for n, s in storages.items()}, {})
        assert worker.answer({"op": "reserve", "bytes": shared_memory.wanted_bytes(plan)})["ok"]
        shared.adopt(shared_memory.wanted_bytes(plan))
        job = {"op": "save", "path": str(tmp_path), "token": 1, "keep": 1, "damaged": [], "step": 1, "at_s": 0.0}
        job.update(bytes=plan.bytes, outline=shared.outline(plan), best=False)
        shared.fill(plan, lambda count: ours.send(json.dumps({"copied": count}).encode()) and None)
        return worker.answer(job)

    real = torch_write.crc32

    def crc32(data: Any, before: int = 0) -> int:
        if len(data) > 1 << 20:
            raise MemoryError("no hash")
        return real(data, before)

    monkeypatch.setattr(torch_write, "crc32", crc32)
    said = answer(2 << 20)
    assert said["ok"] is False and "no hash" in said["detail"] and list(tmp_path.iterdir()) == []
    monkeypatch.setattr(torch_write, "crc32", real)
    for size in (40 << 20, 50 << 20):
        assert answer(size)["ok"]
        assert torch_zip.walk(str(tmp_path / "ckpt-t000001-s00000001.pt")).problems == ()
    shared.close()
    ours.close()
    theirs.close()


def test_memory_that_is_not_to_be_had_is_an_answer_and_not_the_end_of_the_writer() -> None:
    background = Background()
    background.reserve(-1)
    answer = background.receive(60.0)
    assert answer is not None and answer["ok"] is False and answer["errno"]
    background.reserve(1 << 20)
    assert background.receive(60.0) == {"ok": True}
    background.close()


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("what", ["descriptors", "threads", "addresses"])
def test_a_training_that_is_short_of_something_else_saves_all_the_same(what: str, tmp_path: Path) -> None:
    """It has more than a thousand files open; no thread is to be had; or no place to map the memory to."""
    code = (
        "import os, resource, sys, threading\n"
        "import numpy as np\n"
        "from sojourn.train import Checkpointer\n"
        "def none(self): raise RuntimeError('no thread')\n"
        "many = {}\n"
        "if sys.argv[2] == 'descriptors':\n"
        "    resource.setrlimit(resource.RLIMIT_NOFILE, (1200, 1200))\n"
        "    many = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]\n"
        "state = {'array': np.zeros(1 << 20)}\n"
        "if sys.argv[2] == 'threads':\n"
        "    threading.Thread.start = none\n"
        "if sys.argv[2] == 'addresses':\n"
        "    used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "    resource.setrlimit(resource.RLIMIT_AS, (used + (4 << 20),) * 2)\n"
        "ckpt = Checkpointer(folder=sys.argv[1], state=state, every_steps=1)\n"
        "ckpt.step()\n"
        "assert ckpt.wait()\n"
    )
    argv = [sys.executable, "-c", code, str(tmp_path), what]
    done = subprocess.run(argv, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    said = done.stdout.decode()
    assert done.returncode == 0 and names(tmp_path) == ["ckpt-t000001-s00000001.pt"], said
    assert ("saves are made by the training itself" in said) == (what == "addresses"), said


def test_the_room_left_is_that_of_the_machine_or_of_the_cgroup() -> None:
    assert 0 < shared_memory.room_bytes() <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
