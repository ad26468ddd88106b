"""Identifies this program's code, so that what another version cached is not used by this one."""

from __future__ import annotations

import os
from collections.abc import Iterator

from sojourn.wire import names

_ROOMS = ("core", "store", "verbs", "wire")  # everything that decides what is said about a run


def read_code() -> str:
    """A digest of the location of these rooms' files and of their names, sizes and times, by which Python itself
    notices a change. "" if they are not separate files (a zip).
    """
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    try:
        found = [row for room in _ROOMS for row in _files(os.path.join(package, room))]
    except OSError:
        return ""
    return names.digest([package, sorted(found)])


def _files(folder: str) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                stat = entry.stat()
                yield entry.path, stat.st_size, stat.st_mtime_ns
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from _files(entry.path)
