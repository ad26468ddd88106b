"""The command that `reconcile` advises: one that brings the sweep on."""

import pytest

from sojourn.core.fold import Status
from sojourn.core.values import State
from sojourn.store.records import RunRecord
from sojourn.verbs.answers import Reach
from sojourn.verbs.observe.view import RunView
from sojourn.verbs.sweep.reconcile import Reconciled, fate, with_next


@pytest.mark.parametrize(
    ("ends", "following"),
    [
        (["failed"], "sojourn reconcile ab --repair"),
        (["failed", "failed"], "sojourn why ab-lr2"),
        (["preempted", "failed"], "sojourn reconcile ab --repair"),
    ],
)
def test_a_cell_that_failed_again_when_it_was_repaired_is_to_be_looked_at(ends: list[str], following: str) -> None:
    record = RunRecord("ab-lr2", "a", 0.0, 2, "t", "", "queued", 0, 0.0, "gone", "gone", "", "", "", 1, 0, sweep="ab")
    ended = Status(State.FAILED, attempt=len(ends), ends=tuple({"state": end} for end in ends))
    seen = Reconciled("ab", (fate(RunView(record, ended, Reach(True))),), ())
    assert with_next(seen).next == following
