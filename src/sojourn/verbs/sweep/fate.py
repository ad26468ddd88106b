"""What became of one cell of a sweep."""

from __future__ import annotations

from dataclasses import dataclass

from sojourn.verbs.observe.view import RunView

LOADED, PRESENT, MISSING, FAILED = "loaded", "present", "missing", "failed"
NEVER, WAITING, RUNNING, STOPPED, UNKNOWN = "never_started", "waiting", "running", "stopped", "unknown"


@dataclass(frozen=True)
class Fate:
    """One cell: what became of it, and why that is said."""

    view: RunView
    what: str
    why: str = ""
    cause: str = ""  # id of the gotcha that its end is, where it is a known one

    @property
    def id(self) -> str:
        """The id of its run."""
        return self.view.record.id
