"""Run a training that has one checkpoint on the disk when a call to the disk fails, or the disk is full.

fail_at.py CALL:N:ERROR SCRIPT ARGS...    the N-th CALL of `os` after the first save fails with ERROR; N = 0: none
fail_at.py bytes:LEFT SCRIPT ARGS...      after the first save the folder's disk is filled, but for LEFT bytes
fail_at.py inodes:0 SCRIPT ARGS...        it has no inodes any more
Prints how many such calls there were. For a folder that another process has locked it does not wait long.
"""

import errno
import os
import runpy
import sys

from sojourn.train.saving import folder

call, number, *error = sys.argv[1].split(":")
number, count, is_saved = int(number), 0, False
folder.LOCK_WAIT_S = 0.3


def fill(path: str) -> None:
    try:
        if call == "bytes":
            with open(path, "wb", buffering=0) as f:
                try:
                    while f.write(bytes(4096)):
                        pass
                finally:
                    f.truncate(f.tell() - number)
        for index in range(1 << 20):
            os.mkdir("%s%d" % (path, index))
    except OSError:
        pass


def watch(name: str) -> None:
    real = getattr(os, name)

    def effect(*args, **kwargs):
        global count, is_saved
        if is_saved and name == call and (name != "open" or args[1] & os.O_CREAT):
            count += 1
            if count == number:
                code = getattr(errno, error[0])
                raise OSError(code, os.strerror(code))
        done = real(*args, **kwargs)
        if name == "rename" and os.path.basename(args[1]) == "latest.json" and not is_saved:
            is_saved = True
            if not error:
                fill(os.path.join(os.path.dirname(args[1]), os.pardir, "ballast"))
        return done

    setattr(os, name, effect)


sys.argv = sys.argv[2:]
for name in {"rename", *([call] if error else [])}:
    watch(name)
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    print("calls", count, flush=True)
