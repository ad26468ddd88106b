"""The exit statuses of `status --exit-status` and of `watch`."""

from __future__ import annotations

from collections.abc import Iterable

from sojourn.core.values import State

NOT_FOUND = 102
UNREACHABLE = 111
SICK = 5  # its box returned an error or an invalid answer

# The worst of several runs decides: worst first.
_WORST_FIRST = (NOT_FOUND, 100, 113, 112, SICK, UNREACHABLE, 110, 101, 103, 0)

_OF_STATE = {
    State.FAILED: 100,
    State.OOM: 100,
    State.KILLED: 100,
    State.LOST: 100,
    State.CANCELLED: 103,
    State.STALLED: 112,
    State.TIMEOUT: 113,
}


def exit_status(state: State, *, is_home: bool, is_reachable: bool, is_sick: bool = False) -> int:
    """The status of one run. `is_home`: all it owes is home and verified.

    A reported end stands even if its box is unreachable now, or `is_sick`; only a run that may still change gives 111,
    or 5.
    """
    if not is_reachable and (not state.is_final or state is State.PREEMPTED):
        return SICK if is_sick else UNREACHABLE
    if state is State.SUCCEEDED:
        return 0 if is_home else 110
    return _OF_STATE.get(state, 101)


def worst(statuses: Iterable[int]) -> int:
    """The worst of several; 0 of none."""
    return min(statuses, key=_WORST_FIRST.index, default=0)
