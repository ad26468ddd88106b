"""What became of one cell of a sweep."""

from __future__ import annotations

from dataclasses import dataclass

from sojourn.core.values import State
from sojourn.verbs.observe.view import RunView

LOADED, PRESENT, MISSING, FAILED = "loaded", "present", "missing", "failed"
NEVER, WAITING, RUNNING, STOPPED, UNKNOWN = "never_started", "waiting", "running", "stopped", "unknown"
PRUNED = "pruned"  # by `early_stop`: as planned


# Themes of the catalog whose causes lie in the program or its environment; any other may be gone the next time.
_OWN = frozenset(
    "ablation checkpoint config convergence dataloader diffusion env llm memory precision process rl secrets throughput"
    " tracker verify vision vlm".split()
)


@dataclass(frozen=True)
class Fate:
    """The outcome of one cell, and the reason."""

    view: RunView
    what: str
    why: str = ""
    cause: str = ""  # id of the gotcha that its end is, where it is a known one

    @property
    def id(self) -> str:
        """The id of its run."""
        return self.view.record.id


def is_own_error(one: Fate) -> bool:
    """The program failed by itself, of a cause that its log names and that is not the machine's, the network's or the
    platform's: unchanged it would fail again. Where a rule of the user's fits the end, that decides.
    """
    status = one.view.status
    end = status.ends[-1] if status.ends else {}
    if status.state is not State.FAILED or end.get("by") == "keeper":
        return False
    if end.get("rule"):
        return end.get("action") != "retry"
    if not one.cause:
        return bool(status.cause)
    from sojourn.store.gotchas import gotchas

    return all(known.theme in _OWN for known in gotchas() if known.id == one.cause)
