"""A run that ended and left nothing makes room for a new one of its name: its root becomes NAME@1, NAME@2 ..."""

from __future__ import annotations

import fcntl
import os

from sojourn.box.call import Box, Refused
from sojourn.box.ops.clean import lives
from sojourn.box.run import locks
from sojourn.box.run.remains import remains
from sojourn.box.run.root import Root, spec_fields
from sojourn.box.run.want import find_root, last_attempt, revisions
from sojourn.wire import atomic, names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict


def left(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    """`run`, and the `identity` of the intended one. Answer: `root`: its current name, NAME or NAME@N, or "" if it is
    not here; `last`: the highest attempt of this name; `left`: paths of some of its leftovers.

    Changes nothing. Refused: alive, bad-name.
    """
    root = _place(box, request)
    answer = {"root": "" if root is None else root.id, "last": _last(box, str(request["run"])), "left": []}
    if root is not None and root.id == request["run"]:
        _refuse_living(root)
        answer["left"] = remains(root, last_attempt(root))
    return answer


def revise(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    """`run` and `identity` as in `left`: the existing run becomes a revision. Idempotent. Answer: as `left`.

    Refused: alive, work-left (with what it `left`), other-run (that run is not here), bad-name.
    """
    root = _place(box, request)
    if root is None:
        raise Refused("other-run", "the run named %s here is another one" % request["run"])
    if root.id == request["run"]:
        root = _renamed(box, root)
    return {"root": root.id, "last": _last(box, str(request["run"])), "left": []}


def _renamed(box: Box, root: Root) -> Root:
    lock = os.open(root.keeper_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused("alive", "%s: a keeper is in charge of it" % root.id) from None
        with locks.Held(root):  # nobody requests an attempt meanwhile
            _refuse_living(root)
            work = remains(root, last_attempt(root))
            if work:
                raise Refused("work-left", "%s left %s" % (root.id, work[0]), left=work)
            number = 1 + max([names.revision_of(one.id) for one in revisions(box, root.id)] or [0])
            kept = Root(box.under("runs", "%s@%d" % (root.id, number)))
            os.rename(root.path, kept.path)
            atomic.sync_folder(box.under("runs"))
    finally:
        os.close(lock)
    return kept


def _place(box: Box, request: Dict[str, Any]) -> Root | None:
    """The current place of the run with this identity: under its name, or its newest revision; None if it has none."""
    name = str(request["run"])
    if not names.is_name(name):
        raise Refused("bad-name", "not a run's name: %r" % name)
    for root in [find_root(box, name, must_exist=False), *revisions(box, name)]:
        if os.path.isfile(root.run) and spec_fields(root).get("identity") == request.get("identity"):
            return root
    return None


def _last(box: Box, name: str) -> int:
    roots = [find_root(box, name, must_exist=False), *revisions(box, name)]
    return max(last_attempt(root) for root in roots)


def _refuse_living(root: Root) -> None:
    why = lives(root)
    if why:
        raise Refused("alive", "%s: %s" % (root.id, why))
