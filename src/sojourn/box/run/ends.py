"""How every attempt of a run ended, by its events: whose files count, and whether the run has succeeded."""

from __future__ import annotations

from sojourn.box.system import opening
from sojourn.wire import events

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Set

_KINDS = (b'"kind":"ended"', b'"kind":"started"', b'"kind":"prepared"')


class Ends:
    """`states`: attempt -> the state on record. `started`: attempts with a started payload. `vanished`: attempt -> what
    was gone when it was prepared, of what the last seal had in places that attempts share.
    """

    def __init__(self, path: str) -> None:
        """Read events.jsonl at `path`; if unreadable, nothing has succeeded, so nothing is given up."""
        self.states: Dict[int, str] = {}
        self.started: Set[int] = set()
        self.vanished: Dict[int, List[str]] = {}
        try:
            with opening.open_plain(path) as f:
                for line in f:
                    if any(kind in line[:200] for kind in _KINDS):
                        self._add(line)
        except OSError:
            return

    def _add(self, line: bytes) -> None:
        event: Any = events.parse_line(line) or {}
        number = event.get("attempt")
        if not isinstance(number, int):
            return
        if event["kind"] == "started":
            self.started.add(number)
        elif event["kind"] == "prepared":
            if isinstance(event.get("vanished"), list):
                self.vanished[number] = event["vanished"]
        else:
            self.states[number] = str(event.get("state") or "")

    @property
    def succeeded(self) -> int:
        """The attempt that succeeded, unless a later one was started; 0 if there is none."""
        done = max([number for number, state in self.states.items() if state == "succeeded"] or [0])
        return done if done >= max(self.started or {0}) else 0

    def first_after(self, attempt: int) -> int:
        """The first attempt after `attempt` whose payload was started; 0 if there is none."""
        return min((number for number in self.started if number > attempt), default=0)
