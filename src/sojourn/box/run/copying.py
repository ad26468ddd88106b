"""Copies of files that another process may change: shared blocks where the file system can, never a hard link."""

from __future__ import annotations

import fcntl
import os

_FICLONE = 0x40049409  # linux/fs.h
_CHUNK = 4 << 20


def copy(source: str, goal: str) -> None:
    """Copy a file, or a folder with all that is below it, to `goal`, where nothing is yet. Times and modes are kept,
    links stay links; sockets and pipes are left out. Raises: OSError; what was made so far stays.
    """
    if os.path.islink(source):
        os.symlink(os.readlink(source), goal)
    elif os.path.isdir(source):
        os.makedirs(goal)
        for entry in list(os.scandir(source)):
            copy(entry.path, os.path.join(goal, entry.name))
        _like(source, goal)
    elif os.path.isfile(source):
        _copy_file(source, goal)
        _like(source, goal)


def _copy_file(source: str, goal: str) -> None:
    with open(source, "rb", buffering=0) as f:
        fd = os.open(goal, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(fd, "wb", buffering=0) as out:
            try:
                fcntl.ioctl(out.fileno(), _FICLONE, f.fileno())
            except OSError:
                while True:
                    view = memoryview(f.read(_CHUNK) or b"")
                    if not view:
                        break
                    while view:
                        view = view[out.write(view) :]
            os.fsync(out.fileno())


def _like(source: str, goal: str) -> None:
    found = os.stat(source)
    os.chmod(goal, found.st_mode & 0o7777)
    os.utime(goal, ns=(found.st_atime_ns, found.st_mtime_ns))
