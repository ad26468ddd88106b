"""Globs below a folder, as job files mean them: `*` within a name, `**` across folders, a folder means all its content.

Not the standard library's: before Python 3.10 it cannot start from a folder, and it follows symlinks out of it.
"""

from __future__ import annotations

import os

from sojourn.wire import globs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import FrozenSet, Iterator, List


def hits(root: str, glob: str, hidden: FrozenSet[str] = frozenset()) -> Iterator[str]:
    """Paths below `root` of all non-folders that match `glob`, in no order, possibly repeated.

    `hidden`: names directly below `root` to ignore. Symlinked folders are not entered: the link itself matches. A
    leading dot must be matched explicitly; in a matched folder, everything counts.
    """
    parts = globs.split(glob)
    if ".." in parts:
        return
    yield from _match(root, "", parts, hidden)


def _match(root: str, at: str, parts: List[str], hidden: FrozenSet[str]) -> Iterator[str]:
    if not parts:
        yield from _below(root, at, hidden)
        return
    head, rest = parts[0], parts[1:]
    if head == "**":
        yield from _match(root, at, rest or ["*"], hidden)
        for name in _folders(root, at, hidden):
            yield from _match(root, name, parts, hidden)
        return
    if not any(letter in head for letter in "*?["):
        names = [head] if os.path.lexists(os.path.join(root, at, head)) else []
    else:
        names = [name for name in _names(root, at) if globs.fits(head, name)]
    for name in names:
        if at or name not in hidden:
            path = at + "/" + name if at else name
            if not rest or _is_folder(os.path.join(root, path)):
                yield from _match(root, path, rest, hidden)


def _below(root: str, at: str, hidden: FrozenSet[str]) -> Iterator[str]:
    """The thing itself, or everything in it if it is a folder."""
    if at and not _is_folder(os.path.join(root, at)):
        yield at
        return
    for name in _names(root, at):
        if at or name not in hidden:
            yield from _below(root, at + "/" + name if at else name, hidden)


def _folders(root: str, at: str, hidden: FrozenSet[str]) -> Iterator[str]:
    for name in _names(root, at):
        path = at + "/" + name if at else name
        if (at or name not in hidden) and not name.startswith(".") and _is_folder(os.path.join(root, path)):
            yield path


def _names(root: str, at: str) -> List[str]:
    try:
        return os.listdir(os.path.join(root, at))
    except OSError:
        return []


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)
