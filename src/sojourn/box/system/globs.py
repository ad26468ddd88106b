"""Globs below a folder, as job files mean them: `*` within a name, `**` across folders, a folder means all its content.

Not the standard library's: it takes a folder that it may not list for an empty one, never ends where links lead in
circles, and before Python 3.10 cannot start from a folder.
"""

from __future__ import annotations

import errno
import os
import stat

from sojourn.wire import globs, manifest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, FrozenSet, Iterator, List, Optional, Tuple

_ABSENT = (errno.ENOENT, errno.ENOTDIR)
_OTHER, _FOLDER, _OUTSIDE = "not a folder", "a folder", "a link to a folder outside"


def hits(
    root: str,
    glob: str,
    hidden: FrozenSet[str] = frozenset(),
    within: str = "",
    unseen: Optional[Dict[str, str]] = None,
) -> Iterator[str]:
    """Paths below `root` of all non-folders that match `glob`, in no order, possibly repeated.

    Links to folders that lie in `within` (else `root`) are followed: by each name that matches a part of the glob;
    under `**` and in a matched folder, only to what these do not contain anyway. Of a link to a folder elsewhere the
    link itself matches, if the glob leads through it. `hidden`: names directly in `within` to ignore. A leading dot
    must be matched explicitly; in a matched folder, everything counts. `unseen` gets the paths that may match or
    contain matches but cannot be looked at, with the reason.
    """
    parts = globs.split(glob)
    if ".." in parts:
        return
    if parts and parts[-1] == "*":
        parts[-1] = "**"  # the same there: a folder matches with everything in it
    parts = [part for index, part in enumerate(parts) if part != "**" or parts[index + 1 : index + 2] != ["**"]]
    yield from _Look(root, hidden, within or root, {} if unseen is None else unseen).match("", parts)


class _Look:
    """One glob below one folder. `walked`: (parts left, real folder) -> its first name."""

    def __init__(self, root: str, hidden: FrozenSet[str], within: str, unseen: Dict[str, str]) -> None:
        self.root, self.hidden, self.unseen = root, hidden, unseen
        self.top, self.within = os.path.realpath(root), os.path.realpath(within)
        self.walked: Dict[Tuple[int, str], str] = {}

    def match(self, at: str, parts: List[str]) -> Iterator[str]:
        if not parts:
            yield from self._below(at)
            return
        head, rest = parts[0], parts[1:]
        if head == "**" and not rest:
            for _, others in self._folders(at, 0, dots="below"):
                yield from others
            return
        if head == "**":
            for folder, others in self._folders(at, len(parts), dots="nowhere"):
                yield from self.match(folder, rest)
                yield from (path for path in others if self._kind(path) == _OUTSIDE)
            return
        for path in self._fitting(at, head):
            kind = self._kind(path) if rest else _FOLDER
            if kind == _FOLDER:
                yield from self.match(path, rest)
            elif kind == _OUTSIDE and ("**" in rest or self._leads_to_a_hit(path, rest)):
                yield path

    def _leads_to_a_hit(self, path: str, rest: List[str]) -> bool:
        return any(True for _ in _Look(self.root, self.hidden, self.within, self.unseen).match(path, rest))

    def _fitting(self, at: str, head: str) -> List[str]:
        if any(letter in head for letter in "*?["):
            return [path for path in self._in(at) if globs.fits(head, path.rpartition("/")[2])]
        path = at + "/" + head if at else head
        if head in self.hidden and os.path.realpath(os.path.join(self.root, at)) == self.within:
            return []
        try:
            os.lstat(os.path.join(self.root, path))
        except OSError as error:
            self._missed(path, error)
            return []
        return [path]

    def _below(self, at: str) -> Iterator[str]:
        """The thing itself, or everything in it if it is a folder."""
        if at and self._kind(at) != _FOLDER:
            yield at
            return
        for _, others in self._folders(at, 0, dots="everywhere"):
            yield from others

    def _folders(self, top: str, left: int, *, dots: str) -> Iterator[Tuple[str, List[str]]]:
        """(folder, what else is in it) of `top` and all folders below, those behind links last and only if they were
        not there yet. dots: where names that begin with one count: "everywhere", "below" those in `top`, "nowhere".
        """
        real: List[str] = [top]
        linked: List[str] = []
        while real or linked:
            folder = real.pop() if real else linked.pop(0)
            if not self._is_new(folder, left):
                continue
            others = []
            for path in self._in(folder):
                is_hidden = dots == "nowhere" or (dots == "below" and folder == top)
                if is_hidden and path.rpartition("/")[2].startswith("."):
                    continue
                if self._kind(path) != _FOLDER:
                    others.append(path)
                else:
                    (linked if os.path.islink(os.path.join(self.root, path)) else real).append(path)
            yield folder, others

    def _is_new(self, folder: str, left: int) -> bool:
        """Under its own name a folder is always walked once, whatever link led there before."""
        at = os.path.realpath(os.path.join(self.root, folder))
        is_linked = at != os.path.normpath(os.path.join(self.top, folder))
        before = self.walked.get((left, at))
        if before is None or not is_linked:
            self.walked[left, at] = folder
        return before is None or not (is_linked or before == folder)

    def _in(self, at: str) -> List[str]:
        """Paths of all that is in a folder."""
        full = os.path.join(self.root, at)
        try:
            names = sorted(os.listdir(full))
        except OSError as error:
            self._missed(at or ".", error)
            return []
        if self.hidden and os.path.realpath(full) == self.within:
            names = [name for name in names if name not in self.hidden]
        return [at + "/" + name if at else name for name in names]

    def _kind(self, path: str) -> str:
        full = os.path.join(self.root, path)
        try:
            if not stat.S_ISDIR(os.stat(full).st_mode):
                return _OTHER
        except OSError as error:
            is_circular = error.errno == errno.ELOOP and os.path.islink(os.path.realpath(full))
            if not is_circular:
                self._missed(path, error)
            return _OTHER
        if not os.path.islink(full):
            return _FOLDER
        real = os.path.realpath(full)
        return _FOLDER if (real + os.sep).startswith(self.within + os.sep) else _OUTSIDE

    def _missed(self, path: str, error: OSError) -> None:
        if error.errno not in _ABSENT:
            self.unseen.setdefault(path, manifest.UNSEEN + (error.strerror or str(error)))
