"""When an ending is too fast, and how often a box is asked."""

import pytest

from sojourn.core.alarms import is_fast, is_short
from sojourn.core.fold import Status, fold
from sojourn.core.pace import apart, next_pause_s


@pytest.mark.parametrize(("step", "total", "so"), [(10, 100, True), (50, 100, False), (100, 100, False),
                                                   (None, 100, False), (10, None, False), (0, 0, False)])  # fmt: skip
def test_half_the_steps_are_too_few(step: int | None, total: int | None, so: bool) -> None:
    assert is_short(step, total) is so


@pytest.mark.parametrize(("took", "expected", "siblings", "so"), [
    (40, 100, 3, True), (60, 100, 3, False), (40, 100, 2, False), (1, 9, 9, False),
])  # fmt: skip
def test_half_the_time_of_three_siblings_is_too_little(took: float, expected: float, siblings: int, so: bool) -> None:
    assert is_fast(took, expected, siblings) is so


def test_a_box_is_asked_at_once_then_after_2_4_8_16_30_s_and_soon_again_when_something_moves() -> None:
    pauses, pause_s = [], 0.0
    for _ in range(7):
        pause_s = next_pause_s(pause_s, 2.0, moved=False)
        pauses.append(pause_s)
    assert pauses == [2, 4, 8, 16, 30, 30, 30]
    assert next_pause_s(30.0, 2.0, moved=True) == 2.0 and next_pause_s(30.0, 60.0, moved=False) == 60.0


def test_boxes_stand_apart_and_none_is_asked_later_than_its_pause() -> None:
    told = [apart(8.0, place, 10) for place in range(10)]
    assert told[0] == 8.0 and len(set(told)) == 10 and all(6.0 <= one <= 8.0 for one in told)


def test_a_box_whose_cards_do_nothing_is_idle_since_the_first_such_beat() -> None:
    def beat(seq: int, *used: float | None) -> dict[str, object]:
        cards = [{"util_pct": pct} for pct in used]
        return {"seq": seq, "attempt": 1, "kind": "beat", "at": f"2026-11-21T10:0{seq}:00Z", "gpu": cards}

    begun = [{"seq": 1, "attempt": 1, "kind": "attempt", "at": "x"}]
    assert fold([*begun, beat(2, 0.0), beat(3, 3.0, 0.0)], Status()).idle_since == "2026-11-21T10:02:00Z"
    assert fold([*begun, beat(2, 0.0), beat(3, 0.0, 90.0)], Status()).idle_since == ""
    assert fold([*begun, beat(2, 0.0), beat(3, None)], Status()).idle_since == ""
    silent = {"seq": 3, "attempt": 1, "kind": "beat", "at": "2026-11-21T10:03:00Z"}
    assert fold([*begun, beat(2, 0.0), silent], Status()).idle_since == "2026-11-21T10:02:00Z"
    assert (
        fold([*begun, beat(2, 0.0), {"seq": 3, "attempt": 2, "kind": "attempt", "at": "y"}], Status()).idle_since == ""
    )
