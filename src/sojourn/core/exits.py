"""The exit status of `status --exit-status` and `watch`: a table of its own; of several runs the worst wins."""

from __future__ import annotations

from collections.abc import Iterable

from sojourn.core.values import State

NOT_FOUND = 102
# Worst first.
_ORDER = (NOT_FOUND, 100, 113, 112, 111, 110, 101, 103, 0)
_STATES = {
    State.FAILED: 100,
    State.OOM: 100,
    State.KILLED: 100,
    State.LOST: 100,
    State.TIMEOUT: 113,
    State.STALLED: 112,
    State.CANCELLED: 103,
}


def of_run(state: State, *, reached: bool, home: bool) -> int:
    """Of one run. `reached`: False where its site was asked and did not answer; `home`: all it owes is home and proven.

    An end that was heard stands, whether or not the box answers now.
    """
    if state is State.SUCCEEDED:
        return 0 if home else 110
    if not reached and not state.is_final:
        return 111
    return _STATES.get(state, 101)  # preempted waits to be resumed: not finished


def worst(statuses: Iterable[int]) -> int:
    """Of several runs; 0 of none."""
    return min(statuses, key=_ORDER.index, default=0)
