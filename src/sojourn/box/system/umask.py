"""What we write is ours alone, whatever our initial umask; what a job writes has its user's umask.

A keeper sets its own umask at its start and remembers the initial one. Everything started for the user, and the job's
working copy, gets that one back.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable

OURS = 0o077
_OURS_INSIDE = ("logs", "exits", "evidence")
_theirs = -1


def keep_private() -> None:
    """From now on only we may read what this process makes. Once, at its start."""
    global _theirs
    _theirs = os.umask(OURS)


def give_back() -> None:
    """In a child about to become the user's: our initial umask."""
    if _theirs >= 0:
        os.umask(_theirs)


class Theirs:
    """`with Theirs():` files made and processes started inside have the user's umask."""

    def __enter__(self) -> None:
        give_back()

    def __exit__(self, *_: object) -> None:
        if _theirs >= 0:
            os.umask(OURS)


def close_root(path: str, folders: Iterable[str]) -> None:
    """Revoke access by others that earlier keepers, and shells that began a log for us, left in a root and in its
    parent folder. Not in the job's own folders, which nobody else can reach any more."""
    for folder in (os.path.dirname(path), path, *folders):
        close(folder)
    for folder in (path, *(os.path.join(path, name) for name in _OURS_INSIDE)):
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            if folder != path or name.partition(".")[2] in ("json", "jsonl", "lock", "json.room", "json.new", "sh"):
                close(os.path.join(folder, name), 0o600)


def close(path: str, mode: int = 0o700) -> None:
    """Remove others' rights to a folder (with 0600: a file), if it is ours."""
    try:
        seen = os.lstat(path).st_mode
        is_folder, is_file = (seen & 0o170000) == 0o040000, (seen & 0o170000) == 0o100000
        if seen & 0o077 and (is_folder if mode == 0o700 else is_file):
            os.chmod(path, seen & mode)
    except OSError:
        return  # somebody else's: left alone
