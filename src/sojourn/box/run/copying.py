"""Copies of files that another process may change: shared blocks where the file system can, never a hard link."""

from __future__ import annotations

import fcntl
import os

_FICLONE = 0x40049409  # linux/fs.h
_CHUNK = 4 << 20


def copy(source: str, goal: str) -> None:
    """Copy a file, or a folder with everything below it, to `goal`, which must not exist. Keeps times and modes; links
    stay links; skips sockets and pipes. Raises: OSError; a partial copy stays.
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


def clone(source_fd: int, goal_fd: int) -> bool:
    """Let an empty file share the blocks of another; False if the file system cannot."""
    try:
        fcntl.ioctl(goal_fd, _FICLONE, source_fd)
    except OSError:
        return False
    return True


def can_clone(folder: str) -> bool:
    """Whether files in this folder can share blocks. Leaves nothing behind."""
    name = os.path.join(folder, ".clone-%s" % os.urandom(8).hex())
    try:
        with open(name, "xb+", buffering=0) as source:
            os.unlink(name)
            with open(name, "xb") as goal:
                os.unlink(name)
                source.write(bytes(1 << 12))
                return clone(source.fileno(), goal.fileno())
    except OSError:
        return False


def _copy_file(source: str, goal: str) -> None:
    with open(source, "rb", buffering=0) as f:
        fd = os.open(goal, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(fd, "wb", buffering=0) as out:
            if not clone(f.fileno(), out.fileno()):
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
