"""Remembers the sha256 of unchanged files, so that a second look at the code reads only names.

A cache: it may be deleted at any time, and if it cannot be written the files are read again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from sojourn.store import places, private
from sojourn.wire import atomic, manifest, names

# A file rewritten within the clock's granularity keeps its time stamp, so anything younger than this is not remembered.
_SETTLED_NS = 2_000_000_000


class Hashes:
    """The known hashes of one tree. `root` names the tree; "" remembers nothing."""

    def __init__(self, root: str, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._path = os.path.join(places.cache_dir(), "hashes", names.digest(os.fsencode(root).hex())) if root else ""
        self._now_ns = now_ns
        kept = _kept(self._path)
        self._known: dict[str, list[object]] = kept
        self._fresh: dict[str, list[object]] = {}

    def of(self, full: str, relative: str, seen: os.stat_result) -> tuple[int, str]:
        """(bytes, sha256) of the file at `full`, whose status is `seen`. Raises: OSError."""
        mark = [seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino, seen.st_dev]
        known = self._known.get(relative)
        if isinstance(known, list) and known[:5] == mark and len(known) == 6:
            self._fresh[relative] = known
            return seen.st_size, str(known[5])
        size, sha256 = manifest.sha256_file(full)
        if size == seen.st_size and self._now_ns() - max(seen.st_mtime_ns, seen.st_ctime_ns) > _SETTLED_NS:
            self._fresh[relative] = [*mark, sha256]
        return size, sha256

    def keep(self) -> None:
        """Write down what was seen this time, if anything is new."""
        if not self._path or self._fresh == self._known:
            return
        try:
            private.folder(os.path.dirname(self._path))
            atomic.write_json(self._path, self._fresh, durable=False, mode=0o600)
        except OSError:
            return  # only slower next time


def _kept(path: str) -> dict[str, list[object]]:
    try:
        kept = atomic.read_json(path) if path else None
    except OSError:
        return {}
    return kept if isinstance(kept, dict) else {}
