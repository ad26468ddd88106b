"""Names the code of this program, so that what another version of it has kept is not taken for what this one says."""

from __future__ import annotations

import os

from sojourn.wire import names

_ROOMS = ("core", "store", "verbs", "wire")  # all that decides what is said of a run


def read_code() -> str:
    """A digest of where the files of these rooms are, and of their names, sizes and times, by which Python itself knows
    that one was changed. "" where they are no files of their own (a zip).
    """
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    found = []
    try:
        for room in _ROOMS:
            with os.scandir(os.path.join(package, room)) as entries:
                for entry in entries:
                    if entry.name.endswith(".py"):
                        stat = entry.stat()
                        found.append((room, entry.name, stat.st_size, stat.st_mtime_ns))
    except OSError:
        return ""
    return names.digest([package, sorted(found)])
