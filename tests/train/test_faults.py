"""Every call of the writer process that can go wrong goes wrong: the previous good state is loaded, and it was said.

The errors are put into real system calls by strace, so what is tried is the whole way: writer, socket, training.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sojourn.formats.torch import zip as torch_zip
from sojourn.train import Checkpointer, preempt
from sojourn.train.saving import shared_memory
from tests.train.killing import environment

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(
        shutil.which("strace") is None or not shared_memory.is_possible(), reason="strace is not installed"
    ),
]
# Saves step 1, then step 2; the fault is to hit the second. What is left ends without any farewell.
SCRIPT = """
import os, sys
from sojourn.train import Checkpointer
state = {"count": 0, "bytes": bytearray(2 << 20)}
ckpt = Checkpointer(folder=sys.argv[1], state=state, every_steps=1, background=True, keep=1)
for count in (1, 2):
    state["count"] = count
    ckpt.step()
    print("saved", count, ckpt.wait(), flush=True)
os._exit(0)
"""
# (call, which of them in the writer process, error or signal, steps that may be loaded then, what is said)
# A save calls fsync four times (file, folder, pointer, folder) and rename twice; the memory is truncated once.
FAULTS = [
    ("pwrite64", 2, "error=EDQUOT", {1}, "step 2 is NOT SAVED: Disk quota exceeded"),
    ("pwrite64", 2, "error=ENOSPC", {1}, "step 2 is NOT SAVED: No space left on device"),
    ("pwrite64", 2, "error=EIO", {1}, "step 2 is NOT SAVED: Input/output error"),
    ("ftruncate", 3, "error=EIO", {1}, "step 2 is NOT SAVED: Input/output error"),
    ("fsync", 5, "error=EIO", {1}, "step 2 is NOT SAVED: Input/output error"),
    ("fsync", 5, "error=EDQUOT", {1}, "step 2 is NOT SAVED: Disk quota exceeded"),
    ("fsync", 6, "error=EIO", {1, 2}, "step 2 is NOT SAVED: Input/output error"),
    ("fsync", 7, "error=EIO", {2}, "latest.json could not be brought up to date: Input/output error"),
    ("rename", 3, "error=EIO", {1}, "step 2 is NOT SAVED: Input/output error"),
    ("rename", 4, "error=ENOSPC", {2}, "latest.json could not be brought up to date: No space left on device"),
    ("unlink", 1, "error=EPERM", {2}, "saved 2 True"),
    ("pwrite64", 2, "signal=SIGKILL", {1}, "step 2 is NOT SAVED: the process that writes ended (signal 9)"),
    ("fsync", 5, "signal=SIGKILL", {1}, "step 2 is NOT SAVED: the process that writes ended (signal 9)"),
    ("rename", 3, "signal=SIGKILL", {1, 2}, "step 2 is NOT SAVED: the process that writes ended (signal 9)"),
    ("fsync", 6, "signal=SIGKILL", {1, 2}, "step 2 is NOT SAVED: the process that writes ended (signal 9)"),
]


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("call, which, fault, may_load, says", FAULTS, ids=["%s-%d-%s" % row[:3] for row in FAULTS])
def test_a_call_of_the_writer_that_goes_wrong(
    call: str, which: int, fault: str, may_load: set[int], says: str, tmp_path: Path
) -> None:
    argv = ["strace", "-f", "-qq", "-o", os.devnull, "-e", "trace=" + call]
    argv += ["-e", "inject=%s:%s:when=%d" % (call, fault, which), sys.executable, "-c", SCRIPT, str(tmp_path)]
    done = subprocess.run(argv, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    said = done.stdout.decode()
    assert done.returncode == 0 and "saved 1 True" in said, said
    assert says in said, said
    if may_load == {1}:
        assert "ckpt-t000001-s00000001.pt stands, training continues" in said
    assert [torch_zip.walk(str(path)).problems for path in tmp_path.glob("*.pt")] in ([()], [(), ()])
    state = {"count": 0, "bytes": bytearray(2 << 20)}
    again = Checkpointer(folder=tmp_path, state=state)
    assert state["count"] in may_load
    assert again.save()
    assert list(tmp_path.glob(".*.tmp")) == []
    again.close()
    preempt.forget()
