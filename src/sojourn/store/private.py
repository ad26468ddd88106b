"""Our folders and files, readable by nobody else whatever the umask; those of an older version are closed."""

from __future__ import annotations

import os
import stat


def folder(path: str) -> str:
    """Create this folder and its missing parents, accessible only to us; returns `path`. Raises: OSError."""
    if not os.path.isdir(path):
        above = os.path.dirname(path)
        if above and above != path:
            folder(above)
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            if not os.path.isdir(path):
                raise
    return path


def file(path: str) -> None:
    """Create a file there that is ours alone, before another party (SQLite) opens it by name. Raises: OSError."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def mend(top: str) -> None:
    """Remove others' access to `top` and everything in it. One stat if it is closed already; never an error.

    `top` comes last: while it is open to others, the next command tries again.
    """
    try:
        seen = os.lstat(top)
        if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.geteuid() or not seen.st_mode & 0o077:
            return
        for place, folders, files in os.walk(top):
            for path in (os.path.join(place, name) for name in (*folders, *files)):
                _close(path)
        _close(top)
    except OSError:
        return


def _close(path: str) -> None:
    mode = os.lstat(path).st_mode
    if (stat.S_ISDIR(mode) or stat.S_ISREG(mode)) and mode & 0o077:
        os.chmod(path, stat.S_IMODE(mode) & 0o700)
