"""A line for each call to a provider, in `providers.log` of the state folder: what was asked when, and the answer.

Bodies of requests are not in it; of an error's body the first characters are. Keys are masked.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping

from sojourn.store import places, private
from sojourn.wire import units
from sojourn.wire.mask import Mask

MOST_BYTES = 1 << 20  # then it becomes providers.log.1, in the place of the one before


def path() -> str:
    """Where the log lies."""
    return os.path.join(places.state_dir(), "providers.log")


def write(fields: Mapping[str, object], mask: Mask) -> None:
    """Append one line. A log that cannot be written is no reason not to release a machine: then there is none."""
    file = path()
    line = json.dumps({"at": units.stamp(time.time()), **fields}, ensure_ascii=True).encode() + b"\n"
    try:
        private.folder(os.path.dirname(file))
        if os.path.exists(file) and os.path.getsize(file) > MOST_BYTES:
            os.replace(file, file + ".1")
        fd = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, mask.over(line))
        finally:
            os.close(fd)
    except OSError:
        return
