"""Room on a file system, in bytes and inodes: running out of either one means full."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict


def room(path: str) -> Dict[str, int] | None:
    """{"free_bytes","total_bytes","free_inodes","total_inodes"} for an unprivileged user; None if unknown.

    total_inodes is 0 on file systems without a fixed number (btrfs).
    """
    try:
        s = os.statvfs(path)
    except OSError:
        return None
    return {
        "free_bytes": s.f_bavail * s.f_frsize,
        "total_bytes": s.f_blocks * s.f_frsize,
        "free_inodes": s.f_favail,
        "total_inodes": s.f_files,
    }
