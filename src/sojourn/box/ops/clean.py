"""What we left on this box, with sizes; and removing it, without touching anything that lives or that a run refers to.

The client must verify that a run's outputs are home; it names the manifest it verified, which must still be the one
here.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import time
import uuid

from sojourn.box.call import Box, Refused
from sojourn.box.ops import queue
from sojourn.box.ops.roots import all_runs
from sojourn.box.ops.since import payload_pulse
from sojourn.box.run import locks, roster
from sojourn.box.run.history import History
from sojourn.box.run.root import Root, all_specs, closed, names_in, read_fields, read_number, spec_fields
from sojourn.box.run.want import find_root, last_attempt, pulse
from sojourn.box.supervise import environment, prepare
from sojourn.box.system import opening
from sojourn.wire import atomic, events, names, units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Tuple

KINDS = ("snapshots", "envs", "keepers", "train", "staging", "queues")
# Younger things may belong to a run about to be placed: a push comes before its run.
YOUNG_S = 3600.0
_ANY = "anything"  # what a run uses that cannot be looked into
_ASIDE = ".removed-"  # not a valid name of a run, snapshot or environment


def usage(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    """Everything of ours. Reads only names and sizes; a large box takes minutes.

    Answer: `runs`: {"id","identity","attempt","bytes","inodes","lives"}; `things`: {"kind","name","bytes","inodes",
    "used_by": [run ids],"keep"}. `lives`, `keep`: why it must stay, or "". Bytes as allocated on disk.
    """
    used = _used(box)
    runs = []
    for run in all_runs(box):
        root = Root(box.under("runs", run))
        why = closed(root.path)
        alive = "it cannot be looked into: %s" % why if why else lives(root)
        row: Dict[str, Any] = {"id": run, "identity": spec_fields(root).get("identity"), "lives": alive}
        row.update(_size(root.path), attempt=last_attempt(root))
        runs.append(row)
    things = []
    for kind in KINDS:
        for name in _names(box.under(kind)):
            if kind == "envs" and name.endswith(".lock"):
                continue
            row = {
                "kind": kind,
                "name": name,
                "used_by": _users(used, kind, name),
                "keep": _why_keep(box, used, kind, name),
            }
            row.update(_size(box.under(kind, name)))
            things.append(row)
    return {"runs": runs, "things": things}


def remove(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    """`kind` runs: `name`, its `identity`, and the digest of the `manifest` at home ("" if it was abandoned),
    which has the outputs `also`.

    Other kinds: `names`. Answer: `removed`: {"name","bytes","inodes"} each, `kept`: {"name","why"} each. What does not
    exist counts as removed, so the next removal completes one that was interrupted. Refused for a run: other-run,
    alive, changed, unsafe-path, bad-name.
    """
    kind = str(request["kind"])
    if kind == "runs":
        return {"removed": [_remove_run(box, request)], "kept": []}
    if kind not in KINDS:
        raise Refused("bad-request", "kind is runs or one of %s, not %r" % (", ".join(KINDS), kind))
    removed: List[Dict[str, Any]] = []
    kept: List[Dict[str, Any]] = []
    for name in request["names"]:
        if os.path.basename(str(name)) != name or name in ("", ".", ".."):
            raise Refused("unsafe-path", "not a name: %r" % name)
        path, why = box.under(kind, name), _why_keep(box, _used(box), kind, name)
        if why:
            kept.append({"name": name, "why": why})
            continue
        row = dict(_size(path), name=name)
        _put_aside(path)
        if kind == "envs":
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path + ".lock")
        removed.append(row)
    for kind in ("runs",) + KINDS:
        _sweep(box.under(kind))
    return {"removed": removed, "kept": kept}


def _remove_run(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    root = find_root(box, str(request["name"]), must_exist=False)
    _sweep(box.under("runs"))
    if not os.path.lexists(root.path):
        return {"name": root.id, "bytes": 0, "inodes": 0}
    if os.path.islink(root.path):
        raise Refused("unsafe-path", "%s is a symlink" % root.path)
    spec: Any = spec_fields(root)
    if spec.get("identity") != request.get("identity"):
        raise Refused("other-run", "the run named %s here is another one" % root.id, identity=spec.get("identity"))
    row = dict(_size(root.path), name=root.id)
    lock = os.open(root.keeper_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        with locks.Held(root):  # nobody requests an attempt meanwhile
            why = _lock_of_keeper(lock) or lives(root)
            if why:
                raise Refused("alive", "%s: %s" % (root.id, why))
            given = str(request.get("manifest") or "")
            if given and _digest(root, spec, [str(path) for path in request.get("also") or ()]) != given:
                raise Refused("changed", "the outputs of %s differ from those at home" % root.id)
            _put_aside(root.path)
    finally:
        os.close(lock)
    prepare.drop_scratch(root, is_needed=False)
    _sweep(box.under("runs"))
    return row


def _digest(root: Root, spec: Any, also: List[str]) -> str:
    at = units.stamp(time.time())
    return str(roster.take_manifest(root, spec, last_attempt(root), at, also=also)["digest"])


def _lock_of_keeper(lock: int) -> str:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return "a keeper is in charge of it"
    return ""


def lives(root: Root) -> str:
    """Why a run must be considered alive; "" if nothing of it lives, or is about to."""
    last, asked = last_attempt(root), read_number(root.want, "attempt")
    if asked > last and not _is_over(root, last, "succeeded"):  # no keeper starts one after that
        return "attempt %d was requested and has not started" % asked
    keeper, payload = pulse(root), payload_pulse(root, last)
    if payload == "alive" or locks.is_held(root):
        return "attempt %d is alive" % last
    if keeper == "alive":
        return "its keeper is alive"
    # Its last keeper was elsewhere: a machine that shares this disk, or this one under another name. Its own record of
    # the end suffices.
    if "unknown" in (keeper, payload) and not _is_over(root, last):
        return "it was last seen on %s, and its end is not on record" % read_fields(root.keeper).get("host")
    return ""


def _is_over(root: Root, last: int, state: str = "") -> bool:
    """Whether the run's events show the end of its last attempt, in this `state` if given."""
    history = History()
    try:
        with opening.open_plain(root.events) as f:
            for line in f:
                event = events.parse_line(line)
                if event is not None:
                    history.add(event)
    except OSError:
        return False
    return history.is_over and history.attempt >= last and state in ("", history.state)


def _used(box: Box) -> Dict[str, Dict[str, List[str]]]:
    """kind -> name -> ids of the runs that refer to it. An environment is identified by the start of its name. A run
    that cannot be looked into may refer to anything.
    """
    used: Dict[str, Dict[str, List[str]]] = {kind: {} for kind in (*KINDS, _ANY)}
    waiting = sorted(queue.waiting(box, names.RUNS_QUEUE))
    if waiting:
        used["queues"][names.RUNS_QUEUE] = waiting
    for run in all_runs(box):
        if closed(box.under("runs", run)):
            used[_ANY].setdefault("", []).append(run)
        for kind, name in {one for spec in all_specs(Root(box.under("runs", run))) for one in _wanted(box, spec)}:
            used[kind].setdefault(name, []).append(run)
    return used


def _wanted(box: Box, spec: Any) -> Iterator[Tuple[str, str]]:
    """(kind, name) of everything a run.json refers to."""
    named = [("queues", spec.get("sweep")), ("keepers", spec.get("keeper")), ("train", spec.get("train"))]
    named += [("snapshots", spec.get("code"))]
    named += [("snapshots", str(what).partition("/")[0]) for what in (spec.get("mounts") or {}).values()]
    if spec.get("setup"):
        named.append(("envs", os.path.basename(environment.setup_folder(box.base, spec)).partition("-")[0]))
    yield from ((kind, str(name)) for kind, name in named if name)


def _users(used: Dict[str, Dict[str, List[str]]], kind: str, name: str) -> List[str]:
    return used[kind].get(name.partition("-")[0] if kind == "envs" else _whole(kind, name), [])


def _whole(kind: str, name: str) -> str:
    """The keeper that byte code (`compiled`) belongs to; any other name unchanged."""
    return name.partition(".")[0] + ".pyz" if kind == "keepers" else name


def _why_keep(box: Box, used: Dict[str, Dict[str, List[str]]], kind: str, name: str) -> str:
    if used[_ANY]:
        return "%s cannot be looked into, and may use it" % used[_ANY][""][0]
    users = _users(used, kind, name)
    if users:
        return "used by %s%s" % (", ".join(users[:3]), " and others" if len(users) > 3 else "")
    if kind == "keepers" and _whole(kind, name) == os.path.basename(box.keeper):
        return "it is in use right now"
    path = box.under(kind, name)
    unseen = _unseen(path)
    if unseen:
        return unseen
    if kind == "queues" and pulse(Root(path)) == "alive":
        return "its keeper is alive"
    if kind == "envs":
        lock = environment.lock(path)
        if lock < 0:
            return "it is being created"
        os.close(lock)
    try:
        age_s = time.time() - os.lstat(path).st_mtime
    except OSError:
        return ""
    if age_s < YOUNG_S:
        return "put here %d min ago: it may be for a run that is about to start" % (max(0.0, age_s) // 60)
    return ""


def _put_aside(path: str) -> None:
    """Hide it in one step: something half removed must not look whole. Raises: OSError."""
    folder = os.path.dirname(path)
    try:
        os.rename(path, os.path.join(folder, _ASIDE + uuid.uuid4().hex))
    except FileNotFoundError:
        return
    atomic.sync_folder(folder)


def _sweep(folder: str) -> None:
    """Delete what was set aside, including by an interrupted removal. Raises: OSError."""
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        path = os.path.join(folder, name)
        if not name.startswith(_ASIDE):
            continue
        if os.path.islink(path) or not os.path.isdir(path):
            os.unlink(path)
            continue
        for at, folders, _ in os.walk(path):
            for one in folders:  # a folder without write permission keeps its content
                inner = os.path.join(at, one)
                if not os.path.islink(inner):
                    os.chmod(inner, 0o700)
        shutil.rmtree(path)


def _unseen(path: str) -> str:
    """The first folder in it that cannot be looked into, with the reason; "" if all can."""
    missed: List[OSError] = []
    for _ in os.walk(path, onerror=missed.append):
        if missed:
            break
    known = [one for one in missed if not isinstance(one, (FileNotFoundError, NotADirectoryError))]
    return "%s cannot be looked into: %s" % (known[0].filename, known[0].strerror) if known else ""


def _names(folder: str) -> List[str]:
    """Raises: OSError for a folder that cannot be listed: it is not empty."""
    return [name for name in names_in(folder) if not name.startswith(_ASIDE)]


def _size(path: str) -> Dict[str, int]:
    """{"bytes","inodes"} of a file, or of everything in a folder, each inode once, as far as readable."""
    seen = set()
    size = 0
    for one in _walk(path):
        if (one.st_dev, one.st_ino) not in seen:
            seen.add((one.st_dev, one.st_ino))
            size += one.st_blocks * 512
    return {"bytes": size, "inodes": len(seen)}


def _walk(path: str) -> Iterator[os.stat_result]:
    try:
        top = os.lstat(path)
    except OSError:
        return
    yield top
    if not stat.S_ISDIR(top.st_mode):
        return
    for at, folders, files in os.walk(path):
        for name in folders + files:
            with contextlib.suppress(OSError):
                yield os.lstat(os.path.join(at, name))
