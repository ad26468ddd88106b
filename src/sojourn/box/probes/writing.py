"""Whether the run's root accepts a file: created, written, synced and removed.

Decides when statvfs shows the host's room but a quota or a read-only remount intervenes.
"""

from __future__ import annotations

import contextlib
import os

from sojourn.box.run.attempt_context import AttemptContext
from sojourn.box.run.root import Root
from sojourn.box.system import machine, raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict

NAME = "write probe"
_BYTES = 4096
_FILE = ".write-probe"  # and the machine: on a shared disk, machines would remove each other's file


def collect(context: AttemptContext) -> Dict[str, raw.Entry]:
    """NAME: "ok", or the error's name. The file is among the exit records, which no glob of outputs covers."""
    said = why_not(context.root)
    if said:
        return {NAME: raw.text("", 1, said, path=context.root.path)}
    return {NAME: raw.text("ok\n", path=context.root.path)}


def why_not(root: Root) -> str:
    """The error's name; "" if the root accepts a file. May hang."""
    path = os.path.join(root.exits, "%s.%s" % (_FILE, machine.host().replace("/", "-")))
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            left = _BYTES
            while left:
                left -= os.write(fd, b"\0" * left)
            os.fsync(fd)
        finally:
            os.close(fd)
            with contextlib.suppress(FileNotFoundError):  # another call's probe may have been quicker
                os.unlink(path)
    except OSError as error:
        return raw.said(error)
    return ""
