"""What `run` should do about a name that may be taken: pure, so that `plan` says exactly what `run` would do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sojourn.core.values import State
from sojourn.store.records import OTHER
from sojourn.verbs.observe.view import RunView

if TYPE_CHECKING:
    from sojourn.wire.documents import Spec

# The parts of run.json that the identity covers, and how each is called when it differs.
IDENTITY = {
    "name": "name",
    "argv": "run",
    "setup": "setup",
    "setup_digest": "files that setup names",
    "envs": "envs",
    "secrets": "secrets",
    "outputs": "outputs",
    "scratch": "scratch",
    "persist": "persist",
    "resume_argv": "resume",
    "protect": "protect",
    "code": "code",
    "mounts": "file_mounts",
    "num_nodes": "num_nodes",
    "resources": "resources",
}


@dataclass(frozen=True)
class Decision:
    """`do`: new, replace, continue, adopt, next-attempt, nothing, refuse or unknown (the box did not answer).

    again = the next attempt on another machine, because its own is gone, from what is home; replace = new, in the place
    of a run of this name that left nothing; continue = an attempt that was requested and
    has not started; adopt = the process lives and its keeper does not.
    """

    do: str
    attempt: int
    why: str
    differs: tuple[str, ...] = ()
    left: str = ""  # of a refusal: what the run left, for the end of a sentence

    def as_json(self) -> dict[str, Any]:
        """`decision` of the plan document."""
        return {"do": self.do, "attempt": self.attempt, "why": self.why, "differs": list(self.differs)}


def decide(view: RunView | None, spec: Spec, site: str, first: int = 1) -> Decision:
    """What the identical `run` should do now. `view`: the run of this name as it is now; None if there is none.
    `first`: the number of the first attempt of a new run.
    """
    if view is None or view.record.attempt == 0:
        return Decision("new", first, "no run with this name was ever launched")
    record, status = view.record, view.status
    differs = differing(record.run.spec, spec)
    if view.is_other:
        return Decision("refuse", record.attempt, OTHER, differs or ("the run that another client put on the box",))
    if differs:
        return Decision("refuse", record.attempt, "the name belongs to a run with a different specification", differs)
    if status.state is State.SUCCEEDED:
        return Decision("nothing", status.attempt, "it has succeeded")
    if status.state is State.CANCELLED:
        return Decision("refuse", status.attempt, "it was stopped; only `resume` continues it")
    if record.has_vanished:
        number = max(record.attempt, record.heard.attempt) + 1
        return Decision("again", number, f"{status.reason or 'its machine is gone'}")
    if view.reach.ok is False:
        return Decision("unknown", record.attempt, f"its site does not answer ({view.reach.error})")
    if record.phase == "cleaned":
        return Decision("refuse", record.attempt, "its root was removed from its box by `clean`")
    if record.site_name != site:
        return _elsewhere(view)
    if view.reach.ok and not view.has_root and record.heard.attempt > 0:
        return Decision("refuse", record.attempt, "its root is no longer on the box, and anything not home is lost")
    if record.attempt > record.heard.attempt:
        if status.state is State.QUEUED and view.queue.get("place"):
            return Decision("nothing", record.attempt, f"attempt {record.attempt} waits: {status.reason}")
        if view.keeper == "alive":
            return Decision("nothing", record.attempt, f"attempt {record.attempt} is starting")
        if view.keeper == "queued":
            return Decision("nothing", record.attempt, f"attempt {record.attempt} is queued: {status.reason}")
        return Decision("continue", record.attempt, f"attempt {record.attempt} was requested and has not started")
    if status.state.is_dead:
        return Decision("next-attempt", status.attempt + 1, f"attempt {status.attempt} ended: {status.state.value}")
    if view.keeper in ("gone", "none"):
        return Decision("adopt", status.attempt, "its process is running, but its keeper is gone")
    return Decision("nothing", status.attempt, f"attempt {status.attempt} is {status.state.value}")


def differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, ...]:
    """Which parts of the identity differ between two run.json, in the words of the job file."""
    if old.get("identity") == new.get("identity"):
        return ()
    parts = tuple(word for key, word in IDENTITY.items() if (old.get(key) or None) != (new.get(key) or None))
    return parts or ("identity",)


def _elsewhere(view: RunView) -> Decision:
    record, status = view.record, view.status
    if status.state.is_alive:
        return Decision(
            "nothing", status.attempt, f"attempt {status.attempt} is {status.state.value} on {record.site_name}"
        )
    why = f"it is on site {record.site_name} ({status.state.value}); its checkpoints are there"
    return Decision("refuse", record.attempt, why, ("site",))
