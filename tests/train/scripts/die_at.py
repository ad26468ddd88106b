"""Run a training that ends by SIGKILL at the N-th thing it does to the disk; a write is cut in its middle.

die_at.py N SCRIPT ARGS...        N = 0: never; prints how many there were
die_at.py RANK:N SCRIPT ARGS...   only the process of that rank, and not when torchrun has started it again
"""

import os
import runpy
import signal
import sys

rank, _, number = sys.argv[1].rpartition(":")
is_mine = rank == os.environ.get("RANK", "") and os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
wanted, count = int(number) if is_mine else 0, 0


def watch(name: str) -> None:
    real = getattr(os, name)

    def effect(*args, **kwargs):
        global count
        is_ours = name != "open" or bool(args[1] & os.O_CREAT)
        count += is_ours
        if is_ours and count == wanted:
            if name in ("write", "pwrite"):
                real(args[0], bytes(args[1])[: len(args[1]) // 2], *args[2:])
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)

    setattr(os, name, effect)


sys.argv = sys.argv[2:]
for name in ("open", "write", "pwrite", "fsync", "rename", "link", "unlink", "mkdir"):
    watch(name)
runpy.run_path(sys.argv[0], run_name="__main__")
print("effects", count)
