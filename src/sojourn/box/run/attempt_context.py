"""The subject of the probes: one attempt of a run, by its own records, and whether it ran on this machine."""

from __future__ import annotations

from sojourn.box.run.history import History
from sojourn.box.run.root import Root, attempts_made, read_fields, spec_fields
from sojourn.box.system import cgroup, machine, process
from sojourn.wire import events

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

    from sojourn.wire.documents import Event

_BEATS = 40  # the last ones of each stretch: a run of days has a hundred thousand


class AttemptContext:
    """One attempt. `pid` and `start`: its payload's first process, 0 if not on record; `launch`: what was recorded at
    its start. `log_bytes`: how much of the log's end is wanted."""

    def __init__(self, root: Root, attempt: int, log_bytes: int) -> None:
        self.root = root
        self.spec = spec_fields(root)
        self.lines = _read_lines(root.events)
        rows = [event for event in map(events.parse_line, self.lines) if event is not None]
        self.attempt = attempt or max([0, *_numbers(rows), *attempts_made(root)])
        self.log_bytes = log_bytes
        self.history = History()
        for event in rows:
            if isinstance(event.get("attempt"), int) and event["attempt"] <= self.attempt:
                self.history.add(event)
        begun: Any = read_fields(root.begun(self.attempt)) or self.history.started
        self.pid, self.start = _whole(begun.get("pid")), _whole(begun.get("start"))
        self.shim: Dict[str, Any] = begun.get("shim") or {}
        self.keeper = read_fields(root.keeper)
        self.host = machine.host()
        self.is_here = self.history.begun.get("host") in (None, self.host)
        self.launch = self._launch()

    @property
    def is_alive(self) -> bool:
        """The payload's first process lives here."""
        return self.is_here and bool(self.pid) and process.is_alive(self.pid, self.start)

    @property
    def ended_badly(self) -> bool:
        """The attempt has a bad end on record."""
        return bool(self.history.ended) and self.history.state != "succeeded"

    def top(self) -> int:
        """The process above everything of the attempt that still lives: its shim, else its payload."""
        for one in (self.shim, {"pid": self.pid, "start": self.start}):
            if self.is_here and process.is_alive(_whole(one.get("pid")), _whole(one.get("start"))):
                return int(one["pid"])
        return 0

    def groups(self) -> cgroup.Groups:
        """The control groups of the attempt: the payload's while it lives, else its keeper's, else those recorded."""
        if self.is_alive:
            return cgroup.Groups("/proc/%d" % self.pid)
        pid = _whole(self.keeper.get("pid"))
        is_its = self.is_here and self.keeper.get("attempt") == self.attempt
        if is_its and process.is_alive(pid, _whole(self.keeper.get("start"))):
            return cgroup.Groups("/proc/%d" % pid)
        folders = self.launch.get("groups")
        return cgroup.Groups(folders=folders if isinstance(folders, dict) else None)

    def _launch(self) -> Dict[str, Any]:
        root, spec, begun = self.root, self.spec, self.history.begun
        kept = {name: value for name, value in begun.items() if name not in ("v", "seq", "kind", "keeper", "token")}
        kept.update(
            root=root.path,
            base=root.base,
            hostname=begun.get("host"),
            **{"cpu.stat": begun.get("cpu_stat")},
            pid=self.pid or None,
            start=self.start or None,
            pgid=self.history.started.get("pgid"),
            shim=self.shim or None,
            argv=spec.get("argv"),
            code=spec.get("code"),
            identity=spec.get("identity"),
            rules=spec.get("rules"),
            stall_after_s=spec.get("stall_after_s"),
            max_duration_s=spec.get("max_duration_s"),
        )
        return {name: value for name, value in kept.items() if value is not None}


def _read_lines(path: str) -> List[bytes]:
    """Every line of events.jsonl, but only the last of consecutive beats."""
    kept: List[bytes] = []
    beats: List[bytes] = []
    try:
        with open(path, "rb") as f:
            for line in f:
                if b'"kind":"beat"' not in line[:200]:
                    kept += beats[-_BEATS:] + [line]
                    beats = []
                elif len(beats) < 2 * _BEATS:
                    beats.append(line)
                else:
                    beats = beats[-_BEATS:] + [line]
    except OSError:
        return kept
    return kept + beats[-_BEATS:]


def _numbers(rows: List[Event]) -> List[int]:
    return [row["attempt"] for row in rows if isinstance(row.get("attempt"), int)]


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
