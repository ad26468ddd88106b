"""Folders of the working copy that outlive their attempt (`persist:`), and what is saved for a script that never
heard of us: the newest checkpoint goes along into the next attempt, and `resume:` takes the place of `run:`.

The folders are real ones in the working copy of the attempt that runs. Between two attempts they lie in
ROOT/persist/kept; `lent.json` beside it names the attempt that has them. Each is moved by one rename, so a keeper that
is killed at any point leaves it in one of the two places.
"""

from __future__ import annotations

import os

from sojourn.box.run import copying, saved_files, shelved, tree
from sojourn.box.run.ledger import complain
from sojourn.box.run.root import Root, attempts_made, read_fields
from sojourn.box.supervise import spares
from sojourn.box.supervise.keeper import Keeper
from sojourn.box.system import machine, umask
from sojourn.wire import atomic, manifest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Sequence

    from sojourn.box.run.saved_files import Saved
    from sojourn.wire.documents import Spec

_TOGETHER_NS = 60 * 1_000_000_000  # files of one folder that were written within a minute belong to one save


def park(root: Root, spec: Spec) -> None:
    """Take the persisted folders back from the attempt that has them. Idempotent. Raises: OSError.

    Moved, where nothing of that attempt can be alive any more: it ran on this machine, whose processes hold no lock,
    or its end is on record. Else copied: a node that is cut off may still write there.
    """
    lent = read_fields(root.lent)
    number = lent.get("to")
    if not isinstance(number, int):
        return
    is_over = lent.get("host") == machine.host() or bool(read_fields(root.exit(number)))
    for path in spec.get("persist") or ():
        mine, theirs = os.path.join(root.kept, path), os.path.join(root.attempt(number), path)
        if os.path.lexists(mine) or not os.path.lexists(theirs):
            continue  # never lent, or removed by the payload
        os.makedirs(os.path.dirname(mine), exist_ok=True)
        if not is_over:
            coming = os.path.join(root.persist, "coming")
            _remove(coming)
            copying.copy(theirs, coming)
            theirs = coming
        os.rename(theirs, mine)
    os.unlink(root.lent)


def lend(root: Root, spec: Spec, number: int) -> List[str]:
    """Put the persisted folders into the working copy of attempt `number`; those that were kept. Raises: OSError.

    What was pushed into such a folder is there too, as far as no attempt wrote a file of that name.
    """
    wanted = [str(path) for path in spec.get("persist") or ()]
    if not wanted:
        return []
    os.makedirs(root.persist, mode=0o700, exist_ok=True)
    for path in wanted:
        _merge(os.path.join(root.attempt(number), path), os.path.join(root.kept, path))
    atomic.write_json(root.lent, {"to": number, "host": machine.host()})
    found = []
    for path in wanted:
        mine, theirs = os.path.join(root.kept, path), os.path.join(root.attempt(number), path)
        if os.path.lexists(mine):
            os.makedirs(os.path.dirname(theirs), exist_ok=True)
            _remove(theirs)
            os.rename(mine, theirs)
            found.append(path)
    return found


def carry(root: Root, spec: Spec, number: int) -> List[str]:
    """Copy the newest whole checkpoint that the last attempts left outside the persisted folders, and what was saved
    beside it at that time, into attempt `number`; the paths. Raises: OSError.

    A job that has checkpoints of its own, or persisted ones, needs none of this.
    """
    if shelved.committed(root.checkpoints) or checkpoint(root, spec, number):
        return []
    there = pushed(root, spec)
    for earlier in sorted((n for n in attempts_made(root) if n < number), reverse=True):
        folder = root.attempt(earlier)
        found = [one for one in saved_files.find(folder) if _is_made(folder, one, there)]
        newest = next((one for one in found if saved_files.is_whole(os.path.join(folder, one.path))), None)
        if newest is None:  # torn, and its keeper could not mend it
            folder = root.spares(earlier)
            found = saved_files.find(folder)
            newest = found[0] if found else None
        if newest is not None:
            return _copied(folder, root.attempt(number), _saved_with(newest, found, folder))
    return []


def checkpoint(root: Root, spec: Spec, number: int, carried: Sequence[str] = ()) -> str:
    """What attempt `number` can resume from, as an absolute path; "" where there is nothing yet.

    The newest of the run's own checkpoints, else the newest whole one in a persisted folder or among the `carried`.
    """
    own = shelved.committed(root.checkpoints)
    if own:
        return os.path.join(root.checkpoints, own[0])
    folder, there = root.attempt(number), pushed(root, spec)
    for one in saved_files.find(folder, [*(spec.get("persist") or ()), *carried]):
        full = os.path.join(folder, one.path)
        if _is_made(folder, one, there) and saved_files.is_whole(full):
            return full
    return ""


def hand_over(root: Root, spec: Spec, number: int) -> Dict[str, Any]:
    """Give attempt `number` what those before it left, and say what that was, as fields of the `prepared` event:
    `persisted` folders, files that were `carried` along, `mended` from a spare or put aside because they are `torn`
    (paths in the working copy), and what it `resumes` from (a path in the root). Empty ones are left out.

    Raises: OSError.
    """
    with umask.Theirs():
        handed: Dict[str, Any] = {"persisted": lend(root, spec, number)}
        if number > 1:
            if handed["persisted"]:
                handed["mended"] = spares.mend(root, number, number - 1)
                handed["torn"] = _torn(root, spec, number)
            handed["carried"] = carry(root, spec, number)
            resumes = checkpoint(root, spec, number, handed["carried"])
            handed["resumes"] = os.path.relpath(resumes, root.path) if resumes else ""
            spares.drop_older(root, number)
    return {name: value for name, value in handed.items() if value}


def mend_after(keeper: Keeper) -> None:
    """After the end of the last attempt: what it was killed in the middle of writing over gets its spare back."""
    history, root = keeper.ledger.history, keeper.root
    if not history.ended or history.begun.get("host") != machine.host():
        return
    try:
        if history.state == "succeeded":
            spares.drop_older(root, history.attempt + 1)
        else:
            spares.mend(root, history.attempt, history.attempt)
    except OSError as error:
        complain("a torn checkpoint cannot be mended: %s" % error)


def pushed(root: Root, spec: Spec) -> Dict[str, Any]:
    """The rows of the code by path; empty where they cannot be read."""
    try:
        rows = tree.read_roster(root.base, str(spec["code"])) if spec.get("code") else []
    except (OSError, tree.Damaged):
        return {}
    return {str(row.get("path")): row for row in rows}


def _torn(root: Root, spec: Spec, number: int) -> List[str]:
    """Put aside what is torn in the persisted folders: a script that resumes by itself would stumble over it."""
    folder, there = root.attempt(number), pushed(root, spec)
    found = saved_files.find(folder, spec.get("persist") or ())
    torn = [one.path for one in found if not saved_files.is_whole(os.path.join(folder, one.path))]
    torn = [path for path in torn if _differs(folder, path, there)]
    for path in torn:
        spares.set_aside(os.path.join(folder, path))
    return torn


def _is_made(folder: str, one: Saved, there: Dict[str, Any]) -> bool:
    """Whether a run made it: what is as it was pushed is nobody's work."""
    if one.is_folder:
        inside = [path for path in there if path.startswith(one.path + "/")]
        return not inside or any(_differs(folder, path, there) for path in inside)
    return _differs(folder, one.path, there)


def _differs(folder: str, path: str, there: Dict[str, Any]) -> bool:
    row = there.get(path)
    full = os.path.join(folder, path)
    try:
        if row is None or os.stat(full).st_size != row["bytes"]:
            return True
        return manifest.sha256_file(full) != (row["bytes"], row["sha256"])
    except OSError:
        return True


def _saved_with(newest: Saved, found: Sequence[Saved], folder: str) -> List[str]:
    """A folder stands alone; a file takes along what was written beside it in the same save."""
    if newest.is_folder:
        return [newest.path]
    beside = [
        one.path
        for one in found
        if not one.is_folder
        and os.path.dirname(one.path) == os.path.dirname(newest.path)
        and newest.mtime_ns - one.mtime_ns < _TOGETHER_NS
        and saved_files.is_whole(os.path.join(folder, one.path))
    ]
    return sorted(beside)


def _copied(source: str, goal: str, paths: Sequence[str]) -> List[str]:
    for path in paths:
        target = os.path.join(goal, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        _remove(target)
        copying.copy(os.path.join(source, path), target)
    return list(paths)


def _merge(fresh: str, kept: str) -> None:
    """Move what was pushed and is not kept yet from `fresh` into `kept`."""
    if os.path.islink(fresh) or os.path.islink(kept) or not (os.path.isdir(fresh) and os.path.isdir(kept)):
        return
    for entry in list(os.scandir(fresh)):
        goal = os.path.join(kept, entry.name)
        if not os.path.lexists(goal):
            os.rename(entry.path, goal)
        else:
            _merge(entry.path, goal)


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        import shutil  # 1 MiB, and hardly ever needed

        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)
