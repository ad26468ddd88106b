"""What we write is ours alone, whatever umask we were started with; what a job writes has the umask of its user.

A keeper takes its own umask when it starts and remembers the one that it had. Whatever is started for the user, and
the working copy that is made for the job, gets that one back.
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
    """From now on nobody but us may read what this process makes. Once, at its start."""
    global _theirs
    _theirs = os.umask(OURS)


def give_back() -> None:
    """In a child that is about to become the user's: the umask that we were started with."""
    if _theirs >= 0:
        os.umask(_theirs)


class Theirs:
    """`with Theirs():` what is made, and what is started, has the user's umask."""

    def __enter__(self) -> None:
        give_back()

    def __exit__(self, *_: object) -> None:
        if _theirs >= 0:
            os.umask(OURS)


def close_root(path: str, folders: Iterable[str]) -> None:
    """Take from everybody else what earlier keepers, and shells that began a log for us, left open in a root and in
    the folder that holds it. Not what is in the job's own folders, which nobody else can reach any more."""
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
    """Of a folder (with 0600: a file), take the rights of everybody else, as far as it is ours."""
    try:
        seen = os.lstat(path).st_mode
        is_folder, is_file = (seen & 0o170000) == 0o040000, (seen & 0o170000) == 0o100000
        if seen & 0o077 and (is_folder if mode == 0o700 else is_file):
            os.chmod(path, seen & mode)
    except OSError:
        return  # somebody else's: that one keeps it
