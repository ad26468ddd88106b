"""A queue on this box, of a sweep or of plain runs: what should run here, what was withdrawn, how far it has come.

Two append-only files in the queue's root. `queue.jsonl` holds requests, of clients and of the keeper that promotes a
cell; `said.jsonl` the queue keeper's actions. Every decision about a cell, by a client that withdraws it or the keeper
that starts it, is made inside `held`: so the answer to a withdrawal is the box's word that the cell never was, and
never will be, started from here.
"""

from __future__ import annotations

import os

from sojourn.box.call import Box, Refused
from sojourn.box.run.root import Root, read_fields
from sojourn.wire import atomic, lean_json, names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Sequence

SCHEMA = "sojourn/queue/v1"
PROMOTED = "promoted"  # `by` of a line that the queue's keeper requested: a pruned cell is among the best by now


def find_queue(box: Box, name: str, must_exist: bool = True) -> Root:
    """The root of a sweep's queue, or that of plain runs (`names.RUNS_QUEUE`). Refused: bad-name, no-such-queue."""
    if not names.is_name(name) and name != names.RUNS_QUEUE:
        raise Refused("bad-name", "not a sweep's name: %r" % name)
    root = Root(box.under("queues", name))
    if must_exist and not os.path.isfile(root.run):
        raise Refused("no-such-queue", "no queue of a sweep named %s is on this box" % name)
    return root


def is_queue(root: Root) -> bool:
    """Whether this is the root of a queue rather than a run."""
    return bool(read_fields(root.run).get("schema") == SCHEMA)


def line_id(run: str, attempt: int, identity: str) -> str:
    """Identifies a line by its content: the same cell requested again is the same line."""
    return names.digest([run, attempt, identity])[:32]


class Book:
    """Both files as read so far; `read` resumes from there. Torn or unknown lines are skipped.

    `cells`: id -> {"run","attempt","token"}, in order, for a plain run also `cards`, as in `beside.slots_for`, for a
    promoted one also `by`. `lanes`: what each slot has, "" or GPUs.
    """

    def __init__(self, root: Root) -> None:
        self._asked = _Lines(os.path.join(root.path, "queue.jsonl"))
        self._said = _Lines(os.path.join(root.path, "said.jsonl"))
        self.cells: Dict[str, Dict[str, Any]] = {}
        self.lanes: List[str] = [""]
        self.taken: Dict[str, str] = {}  # id -> why
        self.rests = False  # a client stopped the sweep: nothing is promoted until more is requested
        self.began: Dict[str, Dict[str, Any]] = {}
        self.done: Dict[str, Dict[str, Any]] = {}
        self.read()

    def read(self) -> None:
        """Take in what was added since. Raises: OSError."""
        for line in self._asked.news():
            name, kind = str(line.get("id")), line.get("kind")
            if kind == "cell" and isinstance(line.get("run"), str):
                self.cells.setdefault(name, line)
                self.rests = False
            elif kind == "rest":
                self.rests = True
            elif kind == "take" and name not in self.began:
                self.taken.setdefault(name, str(line.get("why")))
            elif kind == "lanes" and isinstance(line.get("lanes"), list) and line["lanes"]:
                self.lanes = [str(lane) for lane in line["lanes"]]
        for line in self._said.news():
            name, kind = str(line.get("id")), line.get("kind")
            if kind == "began":
                self.began[name] = line
                self.done.pop(name, None)
            elif kind == "done":
                self.done[name] = line

    def waiting(self) -> List[str]:
        """Ids of the cells still to be started, in order: promoted ones first."""
        found = [name for name in self.cells if name not in self.began and name not in self.taken]
        return sorted(found, key=lambda name: self.cells[name].get("by") != PROMOTED)

    def pruned(self) -> List[str]:
        """Runs whose last line here ended by `early_stop`."""
        last = {str(line["run"]): name for name, line in self.cells.items()}
        return [run for run, name in last.items() if self.done.get(name, {}).get("pruned")]

    def living(self) -> List[str]:
        """Ids of the cells started and not known to be done."""
        return [name for name in self.began if name in self.cells and name not in self.done]

    def ask(self, lines: Sequence[Dict[str, Any]]) -> None:
        """Append a request, durably. Only inside `held`. Raises: OSError; the file is then unchanged."""
        self._asked.append(lines)
        self.read()

    def say(self, **fields: Any) -> None:
        """Append the queue keeper's action, durably. Raises: OSError."""
        self._said.append([fields])
        self.read()


class _Lines:
    """One append-only file of JSON lines."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._at = 0

    def news(self) -> List[Dict[str, Any]]:
        try:
            with open(self._path, "rb") as f:
                f.seek(self._at)
                data = f.read()
        except FileNotFoundError:
            return []
        data = data[: data.rfind(b"\n") + 1]
        self._at += len(data)
        found = []
        for raw in data.split(b"\n"):
            try:
                line = lean_json.loads(raw.decode("utf-8"))
            except (ValueError, RecursionError):
                continue  # torn by a crash, before a restart
            if isinstance(line, dict):
                found.append(line)
        return found

    def append(self, lines: Sequence[Dict[str, Any]]) -> None:
        if not lines:
            return
        data = b"".join(lean_json.dumps(line, separators=(",", ":")).encode("ascii") + b"\n" for line in lines)
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            size = os.fstat(fd).st_size
            if size and os.pread(fd, 1, size - 1) != b"\n":
                data = b"\n" + data  # a torn tail costs only itself
            try:
                left = memoryview(data)
                while left:
                    left = left[os.write(fd, left) :]
                os.fsync(fd)
            except OSError:
                os.ftruncate(fd, size)
                raise
            if not size:
                atomic.sync_folder(os.path.dirname(self._path))
        finally:
            os.close(fd)
