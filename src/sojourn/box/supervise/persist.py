"""Folders of the working copy that outlive their attempt (`persist:`), and what is saved for a script unaware of us:
the next attempt gets the newest checkpoint, and `resume:` replaces `run:`.

The folders are real ones in the running attempt's working copy. Between attempts they are in ROOT/persist/kept;
`lent.json` beside it names the attempt that has them. Each is moved by one rename, so a keeper killed at any point
leaves it in one of the two places.
"""

from __future__ import annotations

import os
import re

from sojourn.box.run import copying, roster, saved_files, shelved
from sojourn.box.run.ledger import complain
from sojourn.box.run.root import Root, attempts_made, read_fields
from sojourn.box.supervise import prepare, spares
from sojourn.box.supervise.keeper import Keeper
from sojourn.box.system import machine, umask
from sojourn.wire import atomic, manifest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Sequence

    from sojourn.box.run.saved_files import Saved
    from sojourn.wire.documents import Spec

_PART = re.compile(r"optim|sched|rng|random|scaler|sampler|args", re.I)
_MERE = re.compile(r"best|final|ema|weights|^(?:pytorch_|adapter_)?model\b", re.I)
_TOGETHER_NS = 60 * 1_000_000_000  # files of one folder written within a minute belong to one save


def park(root: Root, spec: Spec) -> None:
    """Take the persisted folders back from the attempt that has them. Idempotent. Raises: OSError.

    By moving, if nothing of that attempt can be alive any more: it ran on this machine, whose processes hold no lock,
    or its end is on record. Else by copying: a disconnected node may still write there.
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

    Files pushed into such a folder are there too, unless an attempt wrote one of that name.
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
            saved_files.remove_unfinished(theirs)  # by `park`, their writers are dead, or write elsewhere
            found.append(path)
    return found


def carry(root: Root, spec: Spec, number: int) -> List[str]:
    """Copy the newest complete checkpoint that the last attempts left outside the persisted folders, with what was
    saved beside it then, into attempt `number`; returns the paths. Raises: OSError.

    A job with its own checkpoints, or persisted ones, needs none of this.
    """
    if shelved.committed(root.checkpoints) or checkpoint(root, spec, number):
        return []
    there = prepare.pushed(root, spec)
    for earlier in sorted((n for n in attempts_made(root) if n < number), reverse=True):
        folder = root.attempt(earlier)
        found = [one for one in saved_files.find(folder) if _is_made(folder, one, there)]
        newest = next((one for one in found if saved_files.is_whole(os.path.join(folder, one.path))), None)
        if newest is None:  # torn, and its keeper could not repair it
            folder = root.spares(earlier)
            found = saved_files.find(folder)
            newest = found[0] if found else None
        if newest is not None:
            return _copied(folder, root.attempt(number), _saved_with(newest, found, folder))
    return []


def checkpoint(root: Root, spec: Spec, number: int, carried: Sequence[str] = ()) -> str:
    """What attempt `number` can resume from, as an absolute path; "" if there is nothing yet.

    The newest of the run's own checkpoints, else the newest complete one in a persisted folder or among the `carried`.
    The best or final model, or bare weights, often lack the optimizer: preferred is what else the same save wrote, or a
    folder beside it, such as the Trainer's checkpoint-400 beside its model.safetensors.
    """
    own = shelved.committed(root.checkpoints)
    if own:
        return os.path.join(root.checkpoints, own[0])
    folder, there = root.attempt(number), prepare.pushed(root, spec)
    newest: Saved | None = None
    for one in saved_files.find(folder, [*(spec.get("persist") or ()), *carried]):
        if newest is None or _goes_before(one, newest):
            if _is_made(folder, one, there) and saved_files.is_whole(os.path.join(folder, one.path)):
                newest = one
    return os.path.join(folder, newest.path) if newest is not None else ""


def has_saved(root: Root, spec: Spec, number: int, since_s: float) -> bool:
    """Whether attempt `number` has written a complete checkpoint in its working copy since then, by the box's clock."""
    folder, there = root.attempt(number), prepare.pushed(root, spec)
    found = [one for one in saved_files.find(folder) if one.mtime_ns >= since_s * 1e9 and _is_made(folder, one, there)]
    return any(saved_files.is_whole(os.path.join(folder, one.path)) for one in found)


def hand_over(root: Root, spec: Spec, number: int) -> Dict[str, Any]:
    """Give attempt `number` what earlier ones left, and report it as fields of the `prepared` event: `persisted`
    folders, files that were `carried` along, `mended` from a spare or set aside because `torn` (paths in the working
    copy), what `vanished` of the last seal while no attempt lived, and what it `resumes` from (a path in the root).
    Empty ones are left out, but for `vanished`: that nothing did is known then.

    Raises: OSError.
    """
    with umask.Theirs():
        handed: Dict[str, Any] = {"persisted": lend(root, spec, number)}
        if number > 1:
            handed["vanished"] = roster.vanished(root, spec, number)
            if handed["persisted"]:
                handed["mended"] = spares.mend(root, number, number - 1)
                handed["torn"] = _torn(root, spec, number)
                spares.take_over(root, number)
            handed["carried"] = carry(root, spec, number)
            resumes = checkpoint(root, spec, number, handed["carried"])
            handed["resumes"] = os.path.relpath(resumes, root.path) if resumes else ""
            spares.drop_older(root, number)
    return {name: value for name, value in handed.items() if value or name == "vanished"}


def mend_after(keeper: Keeper) -> None:
    """After the end of the last attempt: a file it was killed while overwriting gets its spare back."""
    history, root = keeper.ledger.history, keeper.root
    if not history.ended or history.begun.get("host") != machine.host():
        return
    try:
        if history.state == "succeeded":
            spares.drop_older(root, history.attempt + 1)
        else:
            spares.mend(root, history.attempt, history.attempt)
    except OSError as error:
        complain("a torn checkpoint cannot be repaired: %s" % error)


def _torn(root: Root, spec: Spec, number: int) -> List[str]:
    """Set aside torn files in the persisted folders: a script that resumes by itself would fail on them."""
    folder, there = root.attempt(number), prepare.pushed(root, spec)
    found = saved_files.find(folder, spec.get("persist") or ())
    torn = [one.path for one in found if not saved_files.is_whole(os.path.join(folder, one.path))]
    torn = [path for path in torn if _differs(folder, path, there)]
    for path in torn:
        spares.set_aside(os.path.join(folder, path))
    return torn


def _is_made(folder: str, one: Saved, there: Dict[str, Any]) -> bool:
    """Whether a run made it: a file unchanged since the push is nobody's work."""
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
    """A folder stands alone; a file takes along what the same save wrote beside it."""
    if newest.is_folder:
        return [newest.path]
    beside = [one.path for one in found if _is_beside(one, newest)]
    return sorted(path for path in beside if saved_files.is_whole(os.path.join(folder, path)))


def _is_beside(one: Saved, newest: Saved) -> bool:
    """Whether the same save wrote a file."""
    is_near = os.path.dirname(one.path) == os.path.dirname(newest.path)
    return is_near and not one.is_folder and newest.mtime_ns - one.mtime_ns < _TOGETHER_NS


def _goes_before(older: Saved, newest: Saved) -> bool:
    if _rank(older) >= _rank(newest):
        return False
    is_near = os.path.dirname(older.path) == os.path.dirname(newest.path)
    return _is_beside(older, newest) or (older.is_folder and is_near)


def _rank(one: Saved) -> int:
    """0 what a script resumes from, 1 what often lacks the optimizer, 2 a part such as the optimizer alone."""
    name = os.path.basename(one.path)
    if one.is_folder:
        return 0
    return 2 if _PART.search(name) else 1 if _MERE.search(name) else 0


def _copied(source: str, goal: str, paths: Sequence[str]) -> List[str]:
    for path in paths:
        target = os.path.join(goal, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        _remove(target)
        copying.copy(os.path.join(source, path), target)
    return list(paths)


def _merge(fresh: str, kept: str) -> None:
    """Move pushed files not yet kept from `fresh` into `kept`."""
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
