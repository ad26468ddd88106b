"""How often to save: from what a save costs and how often this training was interrupted, rounded down to a step."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator

import pytest

from sojourn.train import Checkpointer, interruptions, pace, preempt
from sojourn.train.pace import Pace
from sojourn.wire import cadence


class Clock:
    """A monotonic clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fake = Clock()
    monkeypatch.setattr(pace, "time", fake)
    monkeypatch.setattr(interruptions, "time", fake)
    return fake


@pytest.fixture(autouse=True)
def quiet_signals(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    preempt.uninstall()
    preempt.forget()


def stepped(it: Pace, clock: Clock, step_s: float, limit: int = 10**6, behind: int = 0) -> int:
    """The step behind which a save is due, after the step `behind`."""
    for count in range(behind + 1, behind + limit):
        clock.now_s += step_s
        it.stepped(False)
        if it.is_due(count):
            return count
    return behind + limit


def test_the_interval_is_the_one_that_wastes_least_rounded_down_to_a_step(clock: Clock) -> None:
    it = Pace(None, None, None, 10800.0)
    it.copied(0)
    it.saved(30.0, 30.0)
    assert it.interval_s == pytest.approx(cadence.interval_s(10800, 30)) == pytest.approx(804.98, abs=0.01)
    assert stepped(it, clock, 2.0) == 402 == cadence.steps(it.interval_s, 2.0)
    assert "or 402 steps (30.00 s lost a save, an interruption every 3 h 00 m)" in it.words()


def test_the_time_until_a_copy_is_durable_is_taken_off_the_interval(clock: Clock) -> None:
    """What a kill costs is counted from the newest copy that is on the disk."""
    it = Pace(100.0, None, None, None)
    it.copied(0)
    it.saved(0.5, 20.5)
    count = stepped(it, clock, 1.0)
    assert count + 20 <= 100 and count >= 79


@pytest.mark.parametrize(
    "every, tail_s, apart", [(10, 0.0, 10), (10, 0.4, 9), (10, 3.0, 7), (10, 60.0, 5), (1, 9.0, 1)]
)
def test_the_steps_until_a_copy_is_durable_are_taken_off_every_steps(
    every: int, tail_s: float, apart: int, clock: Clock
) -> None:
    it = Pace(None, every, None, None)
    it.copied(0)
    it.saved(0.5, 0.5 + tail_s)
    stepped(it, clock, 1.0, limit=2)  # how long a step takes
    it.copied(40)
    assert stepped(it, clock, 1.0, behind=40) == 40 + apart


@pytest.mark.parametrize("window, every", [(3, 3), (3, 5), (4, 6), (4, 8), (2, 7)])
def test_where_saves_can_only_come_behind_whole_windows_no_more_than_the_cadence_is_at_stake(
    window: int, every: int, clock: Clock
) -> None:
    for it in (Pace(None, every, None, None), Pace(every + 0.5, None, None, None)):
        it.window, saved, is_owed = window, 0, False
        for step in range(1, 60):
            clock.now_s += 1.0
            it.stepped(False)
            is_owed = is_owed or it.is_due(step)
            assert step - saved <= every
            if is_owed and step % window == 0:
                it.copied(step)
                it.saved(0.0, 0.0)
                saved, is_owed = step, False
        assert saved


def test_with_all_that_the_cadence_allows_at_stake_a_save_is_to_be_waited_for(clock: Clock) -> None:
    by_steps, by_time = Pace(None, 10, None, None), Pace(100.0, None, None, None)
    for it in (by_steps, by_time):
        it.goes_on(30)
        it.copied(35)
        assert not it.is_spent(39)
    clock.now_s += 100.0
    assert by_time.is_spent(36) and by_steps.is_spent(40)
    for it in (by_steps, by_time):
        it.copied(40)
        it.saved(0.0, 1.0)
        assert not it.is_spent(49)
    assert by_steps.is_spent(50)


def test_a_step_made_slower_by_the_writer_is_part_of_what_a_save_costs(clock: Clock) -> None:
    it = Pace(None, None, None, 3600.0)
    stepped(it, clock, 1.0, limit=20)
    it.copied(20)
    for _ in range(4):
        clock.now_s += 1.5
        it.stepped(True)
    clock.now_s += 60.0  # an evaluation is no step
    it.stepped(True)
    it.saved(0.25, 70.0)
    assert it.lost_s == pytest.approx(0.25 + 4 * 0.5)


def test_a_disk_slower_than_the_interval_sets_the_interval(clock: Clock) -> None:
    it = Pace(None, None, None, 60.0)
    it.saved(0.1, 300.0)
    assert it.interval_s == 300.0


def test_an_interval_that_moved_to_half_or_twice_is_told_once(clock: Clock) -> None:
    it = Pace(None, None, None, 36000.0)
    it.expect(200 << 20)
    assert "about every" in it.words() and it.news() == ""
    it.saved(60.0, 60.0)
    assert "60.00 s lost a save" in it.news()
    assert it.news() == ""


def test_interruptions_bring_the_expectation_up_to_date(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    assert interruptions.Interruptions(None).mtbf_s == interruptions.UNKNOWN_MTBF_S
    monkeypatch.setenv("SOJOURN_MTBF_S", "7200")
    first = interruptions.Interruptions(None)
    assert first.mtbf_s == 7200 and "expected for this job" in first.words()
    clock.now_s += 600
    second = interruptions.Interruptions(None)
    second.restore(first.as_saved())
    assert second.mtbf_s == pytest.approx((7200 + 600) / 2)
    assert "1 time in 10 m 00 s so far" in second.words()
    clock.now_s += 600
    third = interruptions.Interruptions(None)
    third.restore(second.as_saved())
    assert third.mtbf_s == pytest.approx((7200 + 1200) / 3)


def test_what_the_keeper_counted_is_believed_before_what_the_checkpoints_tell(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOJOURN_RAN_S", "36000")
    monkeypatch.setenv("SOJOURN_INTERRUPTIONS", "9")
    it = interruptions.Interruptions(None)
    it.restore({"ran_s": 1.0, "count": 0})
    assert it.mtbf_s == pytest.approx((interruptions.UNKNOWN_MTBF_S + 36000) / 10)


def test_a_figure_in_the_script_stands_whatever_happens(clock: Clock) -> None:
    it = interruptions.Interruptions(500.0)
    it.restore({"ran_s": 9.0, "count": 7})
    assert it.mtbf_s == 500.0 and it.words() == "an interruption every 8 m 20 s"


@pytest.mark.parametrize("value", ["soon", "-3", "inf", ""])
def test_an_environment_that_makes_no_sense_is_not_believed(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOJOURN_MTBF_S", value)
    assert interruptions.Interruptions(None).mtbf_s == interruptions.UNKNOWN_MTBF_S


def test_every_start_that_goes_on_counts_as_an_interruption() -> None:
    for want in (0, 1, 2):
        ckpt: Any = Checkpointer(state={}, every_steps=1)
        assert ckpt._pace.interruptions.as_saved()["count"] == want
        ckpt.step()


def test_a_save_that_succeeds_ends_the_pause_after_one_that_failed() -> None:
    """A full disk was emptied, and `save()` called: the cadence counts again at once."""
    pace = Pace(None, 5, None, None)
    pace.failed()
    assert not pace.is_due(5)
    pace.copied(6)
    pace.saved(0.0, 0.0)
    assert pace.is_due(10)
