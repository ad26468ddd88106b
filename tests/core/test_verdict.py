"""The exit statuses of `status --exit-status` and `watch`, as the interface has them."""

import itertools

import pytest

from sojourn.core.values import State
from sojourn.core.verdict import exit_status, worst


@pytest.mark.parametrize(
    ("state", "home", "status"),
    [
        ("succeeded", True, 0), ("succeeded", False, 110), ("failed", False, 100), ("oom", False, 100),
        ("killed", False, 100), ("lost", False, 100), ("planned", False, 101), ("queued", False, 101),
        ("starting", False, 101), ("running", False, 101), ("preempted", False, 101), ("cancelled", False, 103),
        ("stalled", False, 112), ("timeout", False, 113),
    ],
)  # fmt: skip
def test_every_state_has_its_status(state: str, home: bool, status: int) -> None:
    assert exit_status(State(state), is_home=home, is_reachable=True) == status


def test_no_state_is_forgotten() -> None:
    assert all(exit_status(state, is_home=False, is_reachable=True) in range(100, 114) for state in State)


@pytest.mark.parametrize("state", State)
def test_a_box_that_cannot_be_reached_hides_only_what_may_still_move(state: State) -> None:
    seen = exit_status(state, is_home=True, is_reachable=False)
    if state.is_final and state is not State.PREEMPTED:
        assert seen == exit_status(state, is_home=True, is_reachable=True)
    else:
        assert seen == 111


def test_of_several_the_worst_counts_in_the_interfaces_order() -> None:
    order = [102, 100, 113, 112, 111, 110, 101, 103, 0]
    for a, b in itertools.combinations(order, 2):
        assert worst([a, b]) == worst([b, a]) == worst([b, a, b, 0]) == a
    assert worst([]) == 0


def test_a_box_that_answers_wrongly_is_5_until_the_end_was_heard() -> None:
    assert exit_status(State.RUNNING, is_home=False, is_reachable=False, is_sick=True) == 5
    assert exit_status(State.FAILED, is_home=False, is_reachable=False, is_sick=True) == 100
    assert worst([0, 5, 111]) == 5 and worst([5, 112]) == 112
