"""Many files made durable at once: one sync of the file system instead of one per file."""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Sequence

FEW = 8  # files and folders: up to this many are synced one by one, without waiting for others' writes
TICK_NS = 50_000_000  # more than the clock tick by which the kernel stamps changes
# File systems where `syncfs` writes out everything and reports write errors. A network's or a process's file system is
# synced file by file.
_LOCAL = frozenset(("ext4", "xfs", "btrfs", "overlay", "tmpfs", "f2fs"))
# syncfs reports write-back errors from this kernel on. Source: man 2 syncfs, 2026-11.
_REPORTS = (5, 8)


class Settling:
    """Syncs files before they are hashed: from then on every change through a memory mapping updates the file's times.

    After a few files of a file system, syncs all of it at once: that covers each file last changed before.
    """

    def __init__(self) -> None:
        self._counts: Dict[int, int] = {}
        self._synced_ns: Dict[int, int] = {}  # device -> just before it was synced as a whole; 0 if it cannot be

    def sync(self, fd: int, path: str) -> None:
        """Sync the open file at `path` unless its file system was synced since its last change. Raises: OSError."""
        seen = os.fstat(fd)
        count = self._counts[seen.st_dev] = self._counts.get(seen.st_dev, 0) + 1
        if count > FEW and seen.st_dev not in self._synced_ns:
            now_ns = time.time_ns() - TICK_NS
            self._synced_ns[seen.st_dev] = now_ns if _is_synced(path) else 0
        if seen.st_ctime_ns >= self._synced_ns.get(seen.st_dev, 0):
            os.fsync(fd)


def sync(paths: Sequence[str], folders: Sequence[str], *, is_one_disk: bool = False) -> None:
    """Return when the content of these files and the entries of these folders are durable.

    `is_one_disk`: all are known to be on one file system. Raises: OSError if something could not be written, or is
    missing.
    """
    if is_one_disk and len(paths) + len(folders) > FEW and _is_synced(folders[0]):
        return
    synced: Dict[int, bool] = {}
    for path in (*paths, *folders):
        device = os.lstat(path).st_dev
        if device not in synced:
            synced[device] = len(paths) + len(folders) > FEW and _is_synced(path)
        if not synced[device]:
            _fsync(path)


def _fsync(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _is_synced(path: str) -> bool:
    """Sync the whole file system of `path`; False if that is not reliable. Raises: OSError."""
    if not _reports_errors() or _kind_of(os.lstat(path).st_dev) not in _LOCAL:
        return False
    try:
        import ctypes

        syncfs = ctypes.CDLL(None, use_errno=True).syncfs
    except (ImportError, OSError, AttributeError):  # a Python without ctypes, a system without the call
        return False
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if syncfs(fd) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)
    finally:
        os.close(fd)
    return True


def _reports_errors() -> bool:
    if os.uname().sysname != "Linux":
        return False
    try:
        major, minor = os.uname().release.split("-")[0].split(".")[:2]
        return (int(major), int(minor)) >= _REPORTS
    except ValueError:
        return False


def _kind_of(device: int) -> str:
    """The type of a file system by its device number; "" if unknown."""
    number = "%d:%d" % (os.major(device), os.minor(device))
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                before, _, after = line.partition(" - ")
                if before.split(" ")[2] == number:
                    return after.split(" ")[0]
    except (OSError, IndexError):
        pass
    return ""
