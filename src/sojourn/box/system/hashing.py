"""Hashing the files of a run's root, each once, and not again where its times prove that it is unchanged."""

from __future__ import annotations

import os
import time

from sojourn.box.system import opening, raw
from sojourn.wire import manifest, syncing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Mapping, Optional, Set

    from sojourn.wire.documents import FileRow

_COARSE_TICK_NS = 2_500_000_000  # if times have no fraction: FAT ticks every 2 s
_TELLING = frozenset(("ext2", "ext3", "ext4", "xfs", "overlay", "f2fs"))


class Hashing:
    """`rows`: what was hashed, by real path. `known`: see `roster.take_manifest`."""

    def __init__(self, root: str, known: Mapping[str, Any]) -> None:
        self.rows: Dict[str, FileRow] = {}
        self._root, self._known = root, known
        self._top = os.path.realpath(root)
        self._devices: Optional[Set[int]] = None
        self._settling = syncing.Settling()

    def row(self, real: str) -> FileRow:
        """A new row of the file that `opening.below` found, without its name and role. Raises: OSError."""
        if real not in self.rows:
            fd = opening.open_below(self._root, real)
            with open(fd, "rb", buffering=0) as f:
                self.rows[real] = self._read(f, real)
        return self.rows[real].copy()

    def _read(self, f: Any, real: str) -> FileRow:
        """Up to its current size: a growing file is not followed."""
        source = os.path.relpath(real, self._top)
        before = self._settled(f.fileno(), real)
        row: FileRow = {"from": source, "stat": _stat_row(before)}
        known = self._known.get(source)
        if (
            isinstance(known, dict)
            and self._tells_changes(before)
            and known.get("stat") == row["stat"]
            and known.get("bytes") == before.st_size
            and manifest.is_digest(known.get("sha256"))
        ):
            row["bytes"], row["sha256"] = before.st_size, known["sha256"]
            return row
        size, digest = manifest.sha256_stream(f, limit_bytes=before.st_size)
        if _stat_row(os.fstat(f.fileno())) != row["stat"]:
            row["changed"] = True
        row["bytes"], row["sha256"] = size, digest
        return row

    def _tells_changes(self, found: os.stat_result) -> bool:
        """The file's times are reliable: its device records changes, finely, and its clock is not ahead of ours."""
        if self._devices is None:
            self._devices = _telling_devices()
        now_ns = time.time_ns()
        newest = max(found.st_mtime_ns, found.st_ctime_ns)
        is_fine = newest % 1_000_000_000 != 0 or now_ns - newest > _COARSE_TICK_NS
        return found.st_dev in self._devices and newest <= now_ns and is_fine

    def _settled(self, fd: int, path: str) -> os.stat_result:
        """Its stat, once the tick of its last change is over: any later change gives another time."""
        try:
            self._settling.sync(fd, path)
        except OSError:
            pass  # not syncable, so not on a reliable device
        now = os.fstat(fd)
        young_ns = time.time_ns() - now.st_ctime_ns
        if 0 <= young_ns < syncing.TICK_NS:
            time.sleep((syncing.TICK_NS - young_ns) / 1e9)
            now = os.fstat(fd)
        return now


def _telling_devices() -> Set[int]:
    """Devices that change a file's time with each change, after a sync also for one through a memory mapping.

    Measured on ext4 and on tmpfs, which needs no such sync (2026-11).
    """
    found = set()
    for line in raw.read_entry("/proc/self/mountinfo", 4 << 20)["stdout"].splitlines():
        left, dash, right = line.partition(" - ")
        words = left.split(" ")
        if dash and len(words) > 2 and right.split(" ")[0] in _TELLING:
            major, _, minor = words[2].partition(":")
            if major.isdigit() and minor.isdigit():
                found.add(os.makedev(int(major), int(minor)))
    return found


def _stat_row(found: os.stat_result) -> List[int]:
    return [found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]
