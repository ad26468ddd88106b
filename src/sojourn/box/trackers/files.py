"""The tracker files that one attempt writes: found by their names, and what they report together.

Searching and reading take at most a share of processor and time: a working copy of a hundred thousand files is searched
rarely, and so is one on a slow disk.
"""

from __future__ import annotations

import os
import time

from sojourn.box.system import opening
from sojourn.box.trackers import naming
from sojourn.wire import units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Sequence, Tuple

_SEEK_CPU, _READ_CPU = 5000, 2500  # searching for files, and reading them, take at most this part of a processor
_TIME = 100  # and both together this part of the time
_MOST_ENTRIES, _DEEPEST = 5000, 8
_MOST_FILES = 8  # the newest
_PASSED = frozenset("__pycache__ node_modules site-packages".split())
_CSV = frozenset(
    "metrics.csv results.csv summary.csv progress.csv history.csv log.csv train_log.csv training_log.csv training.csv"
    " training.log".split()
)
_LINES = frozenset(
    "metrics.jsonl log.jsonl trainer_log.jsonl train_log.jsonl training_log.jsonl history.jsonl scalars.json"
    " metrics.json log.txt".split()
)
# If several count steps, this order decides: frequent logs before files written only with checkpoints.
_ORDER = ("tensorboard", "jsonl", "csv", "wandb", "trainer_state")


class Files:
    """Of one attempt. `folders`: where it may write them. `since`: a file as old as the attempt: anything older came
    with the code or from an earlier attempt.
    """

    def __init__(self, folders: Sequence[str], since: str) -> None:
        self.value: Dict[str, Any] | None = None
        self._folders = folders
        self._since = since
        self._known: Dict[str, Any] = {}  # path -> reader
        self._marks: Dict[str, Tuple[int, ...]] = {}
        self._seek_s = self._read_s = 0.0  # when to do it again

    def look(self, is_last: bool = False) -> bool:
        """Read what is new in them, if due or if it `is_last`; True if `value` is new."""
        began = _clocks()
        if is_last or began[0] >= self._seek_s:
            self._seek()
            self._seek_s = _again_s(began, _SEEK_CPU)
            began = _clocks()
        if not self._known or not (is_last or began[0] >= self._read_s):
            return False
        is_new = sum(self._read(path) for path in list(self._known)) > 0
        self._read_s = _again_s(began, _READ_CPU)
        found = _together(self._known.values()) if is_new else {}
        before = {name: value for name, value in (self.value or {}).items() if name != "at"}
        if not found or found == before:
            return False
        self.value = dict(found, at=units.stamp(time.time()))
        return True

    def _seek(self) -> None:
        try:
            since_ns = os.stat(self._since).st_mtime_ns
        except OSError:
            return  # it has not started
        found = [hit for folder in self._folders for hit in _walk(folder) if hit[0] >= since_ns]
        for _, path, kind in sorted(found)[-_MOST_FILES:]:
            if path not in self._known:
                self._known[path] = _reader(kind)
        if len(self._known) > _MOST_FILES:
            newest = {path for _, path, _ in sorted(found)[-_MOST_FILES:]}
            self._known = {path: reader for path, reader in self._known.items() if path in newest}
            self._marks = {path: mark for path, mark in self._marks.items() if path in newest}

    def _read(self, path: str) -> bool:
        """True if it was read."""
        try:
            found = os.stat(path)
            mark = (found.st_size, found.st_mtime_ns, found.st_ino)
            before = self._marks.get(path, mark[:0])
            if mark == before:
                return False
            with opening.open_plain(path) as f:
                if before and (mark[0] < before[0] or mark[2] != before[2]):
                    self._known[path] = type(self._known[path])()  # it was rewritten
                self._marks[path] = mark
                self._known[path].read(f, mark[0])
        except OSError:
            return False
        return True


def _clocks() -> Tuple[float, float]:
    return time.monotonic(), time.process_time()


def _again_s(began: Tuple[float, float], share: int) -> float:
    """When an action begun then is due again, by the monotonic clock."""
    took_s, cpu_s = (now - before for now, before in zip(_clocks(), began))
    return began[0] + max(share * cpu_s, _TIME * took_s)


def _walk(top: str) -> Iterator[Tuple[int, str, str]]:
    """(mtime in ns, path, kind) of every file in `top` with a tracker's file name; upper folders first."""
    waiting, left = [(top, 0)], _MOST_ENTRIES
    for folder, depth in waiting:
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    left -= 1
                    if left < 0:
                        return
                    if entry.name.startswith(".") or entry.is_symlink():
                        continue
                    if entry.is_dir():
                        if depth < _DEEPEST and entry.name not in _PASSED:
                            waiting.append((entry.path, depth + 1))
                        continue
                    kind = _kind(entry.name)
                    if kind and entry.is_file():
                        yield entry.stat().st_mtime_ns, entry.path, kind
        except OSError:
            continue  # removed meanwhile, or not ours to read


def _kind(name: str) -> str:
    if ".tfevents." in name:
        return "tensorboard"
    if name.endswith(".wandb"):
        return "wandb"
    if name == "trainer_state.json":
        return "trainer_state"
    return "csv" if name in _CSV else "jsonl" if name in _LINES else ""


def _reader(kind: str) -> Any:
    """A reader of that kind; imported only if there is such a file."""
    if kind == "tensorboard":
        from sojourn.box.trackers.tensorboard import Events

        return Events()
    if kind == "wandb":
        from sojourn.box.trackers.wandb import Run

        return Run()
    from sojourn.box.trackers import tables

    return {"csv": tables.Csv, "jsonl": tables.Lines, "trainer_state": tables.TrainerState}[kind]()


def _together(readers: Any) -> Dict[str, Any]:
    """One place from several files: the leading one gives the step, the others what it lacks."""
    told: List[Tuple[int, int, Dict[str, Any], str]] = [
        (_ORDER.index(reader.kind), -reader.value.get("step", -1), reader.value, reader.kind)
        for reader in readers
        if reader.value
    ]
    told.sort(key=lambda one: one[:2])
    placed = [(value, kind) for _, _, value, kind in told if "step" in value]
    if not placed:
        return {}
    first, kind = placed[0]
    out: Dict[str, Any] = {"step": first["step"], "source": kind, "metrics": {}}
    for value, _ in placed:
        if "total" in value and "total" not in out and value["step"] <= first["step"] <= value["total"]:
            out["total"] = value["total"]
        if "epoch" in value:
            out.setdefault("epoch", value["epoch"])
        out["metrics"] = naming.added(out["metrics"], value["metrics"])
    return out
