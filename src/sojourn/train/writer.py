"""The writer process: takes a finished copy of a checkpoint from shared memory and does all that is slow.

A fresh Python (never a fork of the training) with the standard library alone. It ignores the signals the training gets,
and dies with it: by the kernel's word where Linux gives it, else because its socket ends; and before anything becomes
visible it looks whether the training still lives. Messages are JSON, one a packet:

    {"op": "reserve", "bytes"}                                -> {"ok": true}
    {"op": "save", "path", "token", "keep", "damaged", "step", "at_s", "bytes", "outline": [offset, bytes], "best"}
                                                              -> {"ok": true, "name", "direct", "cpu_s", "said": [...]}
    where it did not go well                                  -> {"ok": false, "errno", "detail", "file"}
                                                              or {"ok": false, "superseded": token}
"""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import resource
import select
import signal
import socket
import sys
import threading
import time
import traceback
from typing import Any, Callable

from sojourn.train.shelf import Orphaned, Shelf, Superseded
from sojourn.wire import torch_write

START = "import sys; sys.path.insert(0, sys.argv[1]); from sojourn.train.writer import main; main(sys.argv[2:])"
PACKET_BYTES = 128 << 10
_BLOCK = 4096
_CHUNK = 32 << 20
_LARGE = 64 << 20  # from here on O_DIRECT is worth a probe, and hashing goes on beside writing
_DIRECT = getattr(os, "O_DIRECT", 0)
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG, linux/prctl.h


def main(argv: list[str]) -> None:
    """`argv`: descriptor of the socket, descriptor of the memory, pid of the training, "1" if its main thread starts
    this.
    """
    channel, memory, parent = socket.socket(fileno=int(argv[0])), int(argv[1]), int(argv[2])
    if sys.platform == "linux":
        if argv[3] == "1":  # the kernel sends it when the *thread* ends that made the child
            ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)
        try:
            with open("/proc/self/oom_score_adj", "w") as f:
                f.write("500")  # a save can be lost, the training not
        except OSError:
            pass
    Writer(channel, memory, parent).serve()


class Writer:
    """Answers requests from `channel` until it ends. `memory` is the shared memory; `parent` the training's pid."""

    def __init__(self, channel: socket.socket, memory: int, parent: int) -> None:
        self.channel, self.memory, self.parent = channel, memory, parent
        self.image = memoryview(b"")
        self.is_direct: bool | None = None  # unknown until probed

    def serve(self) -> None:
        """Until the training ends."""
        while os.getppid() == self.parent:
            packet = self.channel.recv(PACKET_BYTES)
            if not packet:
                return
            try:
                answer = self.answer(json.loads(packet.decode("utf-8")))
            except Orphaned:
                return
            text = json.dumps(answer).encode("utf-8")
            try:
                self.channel.send(text)
            except OSError:
                return

    def answer(self, job: dict[str, Any]) -> dict[str, Any]:
        """What came of one request.   Raises: Orphaned."""
        try:
            return self.reserve(int(job["bytes"])) if job["op"] == "reserve" else self.save(job)
        except Superseded as e:
            return {"ok": False, "superseded": e.fields["theirs"]}
        except OSError as e:
            return {"ok": False, "errno": e.errno, "detail": e.strerror or str(e), "file": e.filename}
        except (ValueError, KeyError, MemoryError):
            return {"ok": False, "errno": None, "detail": traceback.format_exc()[-2000:], "file": None}

    def reserve(self, size_bytes: int) -> dict[str, Any]:
        """Get the pages now: what is not to be had is an error here, and not a SIGBUS in the training."""
        os.ftruncate(self.memory, size_bytes)
        os.posix_fallocate(self.memory, 0, size_bytes)
        return {"ok": True}

    def save(self, job: dict[str, Any]) -> dict[str, Any]:
        """Seal the image, write it, publish it; `best`: let best.pt be it."""
        size = os.fstat(self.memory).st_size
        if len(self.image) != size:
            self.image = memoryview(mmap.mmap(self.memory, size))
        at, length = job["outline"]
        plan = torch_write.again(bytes(self.image[at : at + length]))
        if plan.bytes != job["bytes"]:
            raise ValueError(f"the outline says {plan.bytes} bytes, the request {job['bytes']}")
        said: list[str] = []
        shelf = Shelf(job["path"], job["token"], job["keep"], said.append, set(job["damaged"]), self.check)

        def write(aside: str) -> str:
            put(plan, self.image, aside, self.choose(aside, plan.bytes), self.check)
            return plan.sums_sha256

        name = shelf.commit(write, plan.bytes, job["step"], job["at_s"])
        if job["best"]:
            try:
                shelf.make_best(name)
            except OSError as e:
                said.append(f"best.pt is NOT brought up to date: {e.strerror}; {name} holds the best state")
        used = resource.getrusage(resource.RUSAGE_SELF)
        cpu_s = used.ru_utime + used.ru_stime
        return {"ok": True, "name": name, "direct": bool(self.is_direct), "cpu_s": cpu_s, "said": said}

    def check(self) -> None:
        """Raises: Orphaned where the training is gone."""
        if os.getppid() != self.parent:
            raise Orphaned
        if select.select([self.channel], [], [], 0)[0] and not self.channel.recv(1, socket.MSG_PEEK):
            raise Orphaned

    def choose(self, aside: str, size_bytes: int) -> int:
        """The flags to open with: O_DIRECT where the disk proves faster so, asked once by writing both ways."""
        if size_bytes < _LARGE or not _DIRECT:
            return 0
        if self.is_direct is None:
            try:
                direct_s = _timed(aside, self.image[:_CHUNK], _DIRECT)
                self.is_direct = direct_s < _timed(aside, self.image[:_CHUNK], 0)
            except OSError as e:
                if e.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                    raise
                self.is_direct = False
        return _DIRECT if self.is_direct else 0


def put(
    plan: torch_write.Plan, image: memoryview, aside: str, flags: int, check: Callable[[], None] = lambda: None
) -> None:
    """Seal the image and write it as the file `aside`, fsynced. Hashing and writing of a large one go side by side.

    `image` reaches at least to the next whole block behind the plan's bytes.   Raises: OSError, and what `check` does.
    """
    state, moved = {"final": 0}, threading.Condition()

    def final(count: int) -> None:
        with moved:
            state["final"] = count
            moved.notify()

    late: list[tuple[int, int]] = []

    def seal() -> None:
        try:
            late.extend(plan.seal(image, final))
        finally:
            final(len(image) + 1)

    thread = threading.Thread(target=seal, daemon=True)
    thread.start()
    if plan.bytes < _LARGE:
        thread.join()
    end = -(-plan.bytes // _BLOCK) * _BLOCK
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | flags, 0o644)
    try:
        for at in range(0, end, _CHUNK):
            stop = min(at + _CHUNK, end)
            with moved:
                while state["final"] < min(stop, plan.bytes):
                    moved.wait()
            _pwrite(fd, image, at, stop)
            check()
        thread.join()
        if not plan.sums_sha256:
            raise ValueError("the image could not be sealed")
        for start, stop in late:
            _pwrite(fd, image, start // _BLOCK * _BLOCK, -(-stop // _BLOCK) * _BLOCK)
        os.ftruncate(fd, plan.bytes)
        os.fsync(fd)
    finally:
        thread.join()
        os.close(fd)


def _pwrite(fd: int, image: memoryview, at: int, stop: int) -> None:
    while at < stop:
        at += os.pwrite(fd, image[at:stop], at)


def _timed(aside: str, data: memoryview, flags: int) -> float:
    """Seconds to write and fsync `data` as a new file, which is gone afterwards.   Raises: OSError."""
    began_s = time.monotonic()
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | flags, 0o644)
    try:
        _pwrite(fd, data, 0, len(data))
        os.fsync(fd)
        return time.monotonic() - began_s
    finally:
        os.close(fd)
        os.unlink(aside)
