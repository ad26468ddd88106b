"""How every attempt of a run ended, by its events: whose files count, and whether the run has succeeded."""

from __future__ import annotations

from sojourn.box.system import opening
from sojourn.wire import events

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Set


class Ends:
    """`states`: attempt -> the state on record. `started`: attempts with a started payload."""

    def __init__(self, path: str) -> None:
        """Read events.jsonl at `path`; if unreadable, nothing has succeeded, so nothing is given up."""
        self.states: Dict[int, str] = {}
        self.started: Set[int] = set()
        try:
            with opening.open_plain(path) as f:
                for line in f:
                    if b'"kind":"ended"' in line[:200] or b'"kind":"started"' in line[:200]:
                        self._add(line)
        except OSError:
            return

    def _add(self, line: bytes) -> None:
        event = events.parse_line(line) or {}
        number = event.get("attempt")
        if not isinstance(number, int):
            return
        if event["kind"] == "started":
            self.started.add(number)
        else:
            self.states[number] = str(event.get("state") or "")

    @property
    def succeeded(self) -> int:
        """The attempt that succeeded, unless a later one was started; 0 if there is none."""
        done = max([number for number, state in self.states.items() if state == "succeeded"] or [0])
        return done if done >= max(self.started or {0}) else 0

    def has_started_since(self, attempt: int) -> bool:
        """Whether the payload of an attempt after `attempt` was started."""
        return any(number > attempt for number in self.started)
