"""Opening files named by others: only regular files, and never one whose reading may not end.

A pipe, a socket, a device, a file that the kernel generates while it is read (/proc/kmsg) and a link in place of a file
are refused before any of it is read; opening never waits for another process.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import os
import stat

# File systems whose files are generated while read: their size says nothing, and reading may never end.
# Source: Documentation/filesystems of Linux 6.18, 2026-11.
_MADE_UP = frozenset(
    """
    proc sysfs devtmpfs devpts cgroup cgroup2 debugfs tracefs securityfs pstore bpf configfs fusectl mqueue efivarfs
    binfmt_misc rpc_pipefs nsfs autofs selinuxfs smackfs hugetlbfs functionfs sockfs pipefs
    """.split()
)


def what_else(seen: os.stat_result) -> str:
    """What `path` is, if not a disk file: "a pipe", "a file of proc, which the kernel makes up"; "" for a disk file."""
    if not stat.S_ISREG(seen.st_mode):
        kinds = {stat.S_IFDIR: "folder", stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}
        return f"a {kinds.get(stat.S_IFMT(seen.st_mode), 'device')}"
    kind = made_up(seen.st_dev)
    return f"a file of {kind}, which the kernel generates as it is read" if kind else ""


def made_up(device: int) -> str:
    """The type of the file system `device` if its files are not stored anywhere; else ""."""
    return _made_up().get((os.major(device), os.minor(device)), "")


@functools.cache
def _made_up() -> dict[tuple[int, int], str]:
    """(major, minor) -> type, for everything mounted here; {} if the system has no such list."""
    found = {}
    try:
        with open("/proc/self/mountinfo", "rb") as f:
            rows = f.read(16 << 20).decode("utf-8", "replace").splitlines()
    except OSError:
        return {}
    for row in rows:
        parts, _, more = row.partition(" - ")
        fields, kind = parts.split(), more.split()
        if len(fields) > 2 and kind and kind[0] in _MADE_UP and ":" in fields[2]:
            major, minor = fields[2].split(":", 1)
            found[int(major), int(minor)] = kind[0]
    return found


def open_file(path: str, *, follow: bool = True) -> int:
    """A descriptor of the regular file at `path`, for reading. `follow`: a link as its last part is followed.

    Never waits: a pipe without a writer is refused at once. Raises: OSError (EINVAL for anything but a disk file, ELOOP
    for a link that is not followed).
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | (0 if follow else os.O_NOFOLLOW)
    fd = os.open(path, flags)
    try:
        what = what_else(os.fstat(fd))
        if what:
            raise OSError(errno.EINVAL, f"not a file but {what}", path)
        os.set_blocking(fd, True)
    except BaseException:
        os.close(fd)
        raise
    return fd


def hashed(path: str, size_bytes: int) -> tuple[int, str]:
    """(bytes, sha256) of the regular file at `path`, which had `size_bytes`; of a grown one, one byte more than that.

    Raises: OSError.
    """
    total, sums = 0, hashlib.sha256()
    with os.fdopen(open_file(path), "rb", buffering=0) as f:
        while total <= size_bytes:
            piece = f.read(min(1 << 20, size_bytes + 1 - total))
            if not piece:
                break
            total += len(piece)
            sums.update(piece)
    return total, sums.hexdigest()


def read_regular(path: str, limit_bytes: int) -> bytes:
    """At most `limit_bytes` + 1 bytes of the regular file at `path`. Raises: OSError."""
    with os.fdopen(open_file(path), "rb") as f:
        return f.read(limit_bytes + 1)
