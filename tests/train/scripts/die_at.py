"""Run a training that ends by SIGKILL at the N-th thing it does to the disk; a write is cut in its middle.

die_at.py N SCRIPT ARGS...        N = 0: never; prints how many there were
"""

import os
import runpy
import signal
import sys

wanted, count = int(sys.argv[1]), 0


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
