"""What lies below a path that somebody named: the files to verify, and what is passed over, and why.

One tree in one file system. A link that leads out of the named tree is never followed; one that stays inside shows
what is found where it lies. Other file systems that are mounted inside are read only where that was asked for; those
whose files the kernel generates (/proc, /sys) never.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from sojourn.backends.proof import regular
from sojourn.core.artifact import printable
from sojourn.verbs.retrieve.fetch import ROSTER


@dataclass(frozen=True)
class Below:
    """`found`: names of all that is no folder, relative, sorted; `closed`: (name, problem, why) of what is not read."""

    found: tuple[str, ...]
    closed: tuple[tuple[str, str, str], ...]


def refused(path: str) -> tuple[str, str]:
    """(problem, why) where a path that was named must not be read: a link that leads out of its own folder, a folder or
    file that the kernel makes up, a pipe, a device; ("", "") where it may be. Raises: OSError.
    """
    here = os.path.realpath(os.path.dirname(os.path.abspath(path)))
    real = os.path.realpath(path)
    if os.path.islink(path.rstrip("/") or "/") and os.path.commonpath((here, real)) != here:
        return "escapes-root", f"a link that leads out of its folder, to {printable(real)}: name that path itself"
    seen = os.stat(real)
    if stat.S_ISDIR(seen.st_mode):
        kind = regular.made_up(seen.st_dev)
        return ("escapes-root", f"a folder of {kind}, whose files the kernel generates") if kind else ("", "")
    what = regular.what_else(seen)
    return ("escapes-root", f"not a file but {what}") if what else ("", "")


def below(root: str, *, is_across: bool = False) -> Below:
    """Everything below the folder `root`, each folder once. `is_across`: also what is mounted inside it."""
    found, closed = [], []
    folders = [""]
    top = os.path.realpath(root)
    home = os.stat(top).st_dev
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(os.path.join(top, folder)) as entries:
                for entry in entries:
                    name = os.path.join(folder, entry.name)
                    if entry.is_dir(follow_symlinks=False):
                        why = _other(entry.stat(follow_symlinks=False).st_dev, home, is_across)
                        if why:
                            closed.append((name, "unsupported", why))
                        else:
                            folders.append(name)
                    elif name != ROSTER and not _leads_to_a_folder_below(entry, top):
                        found.append(name)
        except OSError as error:
            closed.append((folder or ".", "unsupported", f"the folder cannot be listed: {error.strerror or error}"))
    return Below(tuple(sorted(found)), tuple(closed))


def _other(device: int, home: int, is_across: bool) -> str:
    """Why a folder of the file system `device` is passed over, "" where it is not."""
    if device == home:
        return ""
    kind = regular.made_up(device)
    if kind:
        return f"{kind} is mounted here, whose files the kernel generates: not read"
    return "" if is_across else "another file system is mounted here: --cross-mounts reads it too"


def _leads_to_a_folder_below(entry: os.DirEntry[str], top: str) -> bool:
    try:
        return entry.is_symlink() and entry.is_dir() and os.path.realpath(entry.path).startswith(top.rstrip("/") + "/")
    except OSError:  # a circular link
        return False
