"""Two locks of a root: the payload lock, held by the shim, the payload and any inheritor of its descriptor, while one
of them lives; and one held briefly by whoever changes the requests to the run.
"""

from __future__ import annotations

import fcntl
import os
import time

from sojourn.box.run.root import Root


class Held:
    """`with Held(root):` nobody else changes the requests to this run or its secrets. Raises: OSError."""

    def __init__(self, root: Root) -> None:
        self._path = root.path
        self._folder = -1

    def __enter__(self) -> None:
        self._folder = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._folder, fcntl.LOCK_EX)
        except BaseException:
            os.close(self._folder)
            raise

    def __exit__(self, *_: object) -> None:
        os.close(self._folder)


def take_lock(root: Root) -> int:
    """The payload lock on an inheritable descriptor, or -1 while part of an attempt holds it.

    Raises: OSError.
    """
    fd = os.open(root.payload_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    for _ in range(20):  # `since` holds it briefly when it looks
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return fd
        except BlockingIOError:
            time.sleep(0.005)
    os.close(fd)
    return -1


def is_held(root: Root) -> bool:
    """Whether part of an attempt lives, by its inherited lock."""
    return is_taken(root.payload_lock)


def is_taken(path: str) -> bool:
    """Whether anybody has the lock file `path` for himself. False where there is none."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
