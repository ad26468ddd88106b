"""Events of a run -> its status, incrementally, by evidence alone."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.core.fold import VANISHED, Status, fold, from_plain, settle, to_plain, with_progress
from sojourn.core.values import State
from sojourn.wire import units
from sojourn.wire.events import KINDS

BEGAN_S = units.unstamp("2026-11-21T10:00:00Z")


def told(*events: tuple[str, dict[str, Any]], attempt: int = 1, seq: int = 0) -> list[dict[str, Any]]:
    """Events as the keeper writes them, a minute apart."""
    return [
        {"v": 1, "seq": seq + i + 1, "at": units.stamp(BEGAN_S + 60 * i), "kind": kind, "attempt": attempt, **fields}
        for i, (kind, fields) in enumerate(events)
    ]


ATTEMPT = ("attempt", {"token": 1, "oom_kill": 0})
STARTED = ("started", {"pid": 7, "start": 1})


def ended(state: str, **fields: Any) -> tuple[str, dict[str, Any]]:
    return "ended", {"state": state, "rc": None, "signal": None, "seconds": 5.0, "by": "shim", "detail": "", **fields}


def progress(step: int, at_s: float, total: int | None = 100, **more: Any) -> dict[str, Any]:
    return {
        "step": step,
        "total": total,
        "epoch": None,
        "metrics": {},
        "at": units.stamp(BEGAN_S + at_s),
        "checkpoint": None,
        **more,
    }


def test_a_run_goes_from_planned_through_starting_and_running_to_its_end() -> None:
    events = told(ATTEMPT, STARTED, ended("succeeded", rc=0), ("sealed", {"manifest": "a" * 64, "missing": []}))
    states = [fold(events[:n], Status()).state.value for n in range(5)]
    assert states == ["planned", "starting", "running", "succeeded", "succeeded"]
    status = fold(events, Status())
    assert (status.attempt, status.rc, status.manifest, status.is_sealed) == (1, 0, "a" * 64, True)
    assert status.since == "2026-11-21T10:02:00.000Z" and status.started_at == "2026-11-21T10:01:00.000Z"


@pytest.mark.parametrize("state", [state for state in State if state.is_final])
def test_every_end_is_taken_over_with_its_reason(state: State) -> None:
    status = fold(told(ATTEMPT, STARTED, ended(state.value, rc=3, signal=9, detail="because")), Status())
    assert (status.state, status.rc, status.signal, status.reason) == (state, 3, 9, "because")
    assert status.ends[-1]["state"] == state.value and status.spent_s == 5.0


def first_step(events: list[dict[str, Any]]) -> int | None:
    return fold(events, Status()).step


def test_a_next_attempt_begins_anew_and_keeps_what_outlives_an_attempt() -> None:
    first = told(
        ATTEMPT,
        STARTED,
        ("beat", {"progress": progress(40, 0, metrics={"loss": 0.5}), "log_bytes": 9, "log_age_s": 1.5, "oom_kill": 0}),
        ("checkpoint", {"path": "c/40", "step": 40, "bytes": 5}),
        ended("preempted", rc=75),
        ("sealed", {"manifest": "m", "missing": ["best.pt"]}),
    )
    status = fold(told(("attempt", {"token": 2}), attempt=2, seq=6), fold(first, Status()))
    assert (status.state, status.attempt, status.rc, status.manifest, status.missing) == (
        State.STARTING,
        2,
        None,
        "",
        (),
    )
    assert (first_step(first), status.step, dict(status.metrics)) == (40, None, {}), "its own steps are not told yet"
    assert (status.checkpoint["step"], status.log_bytes, status.reason) == (40, None, "")
    assert [end["attempt"] for end in status.ends] == [1]


def test_a_stall_is_a_state_and_movement_ends_it() -> None:
    events = told(ATTEMPT, STARTED, ("stalled", {"quiet_s": 1200.0}), ("moving", {"quiet_s": 1300.0}))
    stalled = fold(events[:3], Status())
    assert stalled.state is State.STALLED and stalled.reason == "no output, steps or activity for 20 m 00 s"
    moving = fold(events[3:], stalled)
    assert (moving.state, moving.reason) == (State.RUNNING, "")


@pytest.mark.parametrize("kind", ["stalled", "moving", "signal", "beat", "adopted", "checkpoint"])
def test_nothing_but_a_new_attempt_moves_a_run_that_has_ended(kind: str) -> None:
    over = fold(told(ATTEMPT, STARTED, ended("failed", rc=1)), Status())
    assert fold(told((kind, {"quiet_s": 1.0, "signal": 15, "why": "x"}), seq=3), over).state is State.FAILED


def test_a_signal_is_a_reason_and_no_state() -> None:
    status = fold(told(ATTEMPT, STARTED, ("signal", {"signal": 15, "why": "stop"})), Status())
    assert status.state is State.RUNNING and status.reason == "signal 15 sent: stop"


def test_a_run_that_the_keeper_would_not_start_has_failed_with_its_words() -> None:
    status = fold(told(ATTEMPT, ("refused", {"why": "the snapshot is damaged"})), Status())
    assert (status.state, status.reason) == (State.FAILED, "the snapshot is damaged")


def test_a_state_of_a_newer_version_is_a_failure_that_names_the_word() -> None:
    status = fold(told(ATTEMPT, STARTED, ended("evaporated", rc=0)), Status())
    assert status.state is State.FAILED and "'evaporated'" in status.reason


def test_events_heard_twice_count_once() -> None:
    events = told(ATTEMPT, STARTED, ended("failed", rc=1))
    once = fold(events, Status())
    assert fold(events, once) == once and fold(events + events, Status()) == once


def test_an_earlier_attempts_straggler_moves_nothing() -> None:
    second = fold(told(("attempt", {}), ("started", {}), attempt=2), Status())
    assert fold(told(ended("failed"), attempt=1, seq=2), second).state is State.RUNNING


def test_what_a_beat_did_not_measure_stays_and_what_it_found_missing_goes() -> None:
    beats = [("beat", {"log_bytes": 9, "log_age_s": 1.0, "oom_kill": 2}), ("beat", {"log_bytes": None})]
    status = fold(told(ATTEMPT, STARTED, *beats), Status())
    assert (status.log_bytes, status.log_age_s, status.oom_kill) == (None, 1.0, 2)


# ---- how long it still takes ----


def test_what_remains_follows_from_the_pace_of_steps() -> None:
    beats = [("beat", {"progress": progress(step, at_s)}) for step, at_s in ((10, 0), (20, 100), (30, 200))]
    assert fold(told(ATTEMPT, STARTED, *beats[:1]), Status()).remaining_s is None
    assert fold(told(ATTEMPT, STARTED, *beats), Status()).remaining_s == 700.0


def test_a_resumed_attempt_does_not_count_the_steps_it_did_not_make() -> None:
    first = told(ATTEMPT, STARTED, ("beat", {"progress": progress(50, 0)}), ended("preempted"))
    second = [
        ("attempt", {}),
        ("started", {}),
        ("beat", {"progress": progress(51, 1000)}),
        ("beat", {"progress": progress(52, 1010)}),
    ]
    status = fold(told(*second, attempt=2, seq=4), fold(first, Status()))
    assert status.remaining_s == 480.0


def test_a_pace_that_changed_shows_within_two_windows() -> None:
    beats = [("beat", {"progress": progress(i, i * 10.0, total=10_000)}) for i in range(100)]
    beats += [("beat", {"progress": progress(100 + i, 1000 + i * 100.0, total=10_000)}) for i in range(8)]
    status = fold(told(ATTEMPT, STARTED, *beats), Status())
    assert status.remaining_s is not None and abs(status.remaining_s / (9893 * 100.0) - 1) < 0.05


@pytest.mark.parametrize("total", [None, 0])
def test_without_a_total_nothing_is_said_of_the_rest(total: int | None) -> None:
    beats = [("beat", {"progress": progress(i, i * 10.0, total)}) for i in range(3)]
    status = fold(told(ATTEMPT, STARTED, *beats), Status())
    assert status.percentage is None and status.remaining_s in (None, 0.0)


def test_a_run_that_stands_still_promises_no_end() -> None:
    beats = [("beat", {"progress": progress(5, i * 10.0)}) for i in range(3)]
    assert fold(told(ATTEMPT, STARTED, *beats), Status()).remaining_s is None


def test_steps_past_the_total_are_all_of_it() -> None:
    assert Status(step=120, total=100).percentage == 100.0


def test_metrics_that_json_cannot_say_become_words() -> None:
    status = with_progress(
        Status(), progress(1, 0, metrics={"loss": float("nan"), "norm": float("inf"), "low": float("-inf"), "a": 0.5})
    )
    assert status.metrics == {"loss": "nan", "norm": "inf", "low": "-inf", "a": 0.5}
    json.dumps(to_plain(status), allow_nan=False)


# ---- settle ----

RUNNING = fold(told(ATTEMPT, STARTED), Status())


@pytest.mark.parametrize(
    ("keeper", "payload", "state"),
    [
        ("alive", "alive", "running"), ("alive", "gone", "running"), ("alive", "unknown", "running"),
        ("unknown", "unknown", "running"), ("unknown", "gone", "running"), ("gone", "unknown", "running"),
        ("gone", "alive", "running"), ("none", "alive", "running"), ("gone", "gone", "lost"), ("gone", "none", "lost"),
        ("gone", "held", "running"), ("none", "held", "running"), ("alive", "held", "running"),
    ],
)  # fmt: skip
def test_only_both_gone_is_lost_and_not_knowing_moves_nothing(keeper: str, payload: str, state: str) -> None:
    assert settle(RUNNING, keeper, payload, 1).state.value == state


def test_on_a_machine_that_is_gone_by_its_providers_word_nothing_lives_and_nothing_begins() -> None:
    assert settle(RUNNING, VANISHED, VANISHED, 1).state.value == "lost"
    assert settle(RUNNING, VANISHED, VANISHED, 1).reason == "its machine is gone, by its provider's word"
    asked = settle(fold([], Status()), VANISHED, VANISHED, 2)
    assert (asked.state.value, asked.attempt) == ("lost", 2)
    done = replace(RUNNING, state=State.SUCCEEDED)
    assert settle(done, VANISHED, VANISHED, 1) == done


def test_a_process_without_its_keeper_is_running_and_says_so() -> None:
    assert "and a new keeper will adopt it" in settle(RUNNING, "gone", "alive", 1).reason


def test_something_that_lives_without_its_keeper_is_not_lost_and_says_so() -> None:
    assert "part of the attempt is still alive" in settle(RUNNING, "gone", "held", 1).reason


@pytest.mark.parametrize("state", [state for state in State if state.is_final])
def test_an_end_that_was_heard_stands_whatever_lives(state: State) -> None:
    over = fold(told(ATTEMPT, STARTED, ended(state.value)), Status())
    for keeper in ("alive", "gone", "none", "unknown"):
        assert settle(over, keeper, "gone", 1) == over


def test_an_attempt_that_was_asked_for_and_whose_keeper_lives_is_starting() -> None:
    over = fold(told(ATTEMPT, STARTED, ended("failed", rc=1)), Status())
    shown = settle(over, "alive", "none", 2)
    assert (shown.state, shown.attempt, shown.rc, shown.reason) == (State.STARTING, 2, None, "")


def test_an_attempt_that_was_asked_for_and_did_not_begin_leaves_the_state_and_says_so() -> None:
    over = fold(told(ATTEMPT, STARTED, ended("failed", rc=1)), Status())
    shown = settle(over, "gone", "gone", 2)
    assert (shown.state, shown.attempt) == (
        State.FAILED,
        1,
    ) and shown.reason == "attempt 2 was requested and has not started"


@pytest.mark.parametrize("keeper", ["alive", "gone"])
def test_no_attempt_follows_one_that_succeeded_though_it_was_asked_for_meanwhile(keeper: str) -> None:
    over = fold(told(ATTEMPT, STARTED, ended("succeeded", rc=0)), Status())
    assert settle(over, keeper, "gone", 2) == over


def test_what_settle_shows_is_never_folded_into() -> None:
    assert settle(RUNNING, "gone", "gone", 1).state is State.LOST
    assert fold(told(("adopted", {"pid": 7}), ended("succeeded", rc=0), seq=2), RUNNING).state is State.SUCCEEDED


# ---- any events ----

VALUES = (
    st.none() | st.integers(-5, 200) | st.floats() | st.text(max_size=5) | st.lists(st.text(max_size=3), max_size=2)
)
PROGRESS = st.fixed_dictionaries(
    {},
    optional={
        "step": st.integers(0, 200) | VALUES,
        "total": st.integers(0, 200) | VALUES,
        "epoch": VALUES,
        "metrics": st.dictionaries(st.text(max_size=3), VALUES, max_size=2) | VALUES,
        "at": st.integers(0, 5000).map(lambda s: units.stamp(BEGAN_S + s)) | VALUES,
    },
)
EVENTS = st.lists(
    st.builds(
        lambda kind, fields, attempt, at: {"kind": kind, "attempt": attempt, "at": at, **fields},
        st.sampled_from([*KINDS, "telepathy"]),
        st.fixed_dictionaries(
            {},
            optional={
                "state": st.sampled_from([state.value for state in State]) | VALUES,
                "progress": PROGRESS | VALUES,
                "quiet_s": VALUES,
                "rc": VALUES,
                "signal": VALUES,
                "why": VALUES,
                "manifest": VALUES,
                "missing": VALUES,
                "path": VALUES,
                "step": VALUES,
                "seconds": VALUES,
                "log_age_s": VALUES,
            },
        ),
        st.integers(1, 3) | VALUES,
        st.integers(0, 5000).map(lambda s: units.stamp(BEGAN_S + s)) | VALUES,
    ),
    max_size=25,
).map(lambda events: [{"v": 1, "seq": n + 1, **event} for n, event in enumerate(events)])


@given(EVENTS, st.integers(0, 25))
def test_folding_a_prefix_and_then_the_rest_is_folding_all(events: list[dict[str, Any]], cut: int) -> None:
    assert repr(fold(events[cut:], fold(events[:cut], Status()))) == repr(fold(events, Status()))


@given(EVENTS, st.integers(0, 25))
def test_a_status_that_was_put_away_in_between_goes_on_the_same(events: list[dict[str, Any]], cut: int) -> None:
    put_away = from_plain(json.loads(json.dumps(to_plain(fold(events[:cut], Status())))))
    assert repr(to_plain(fold(events[cut:], put_away))) == repr(to_plain(fold(events, Status())))


@given(EVENTS)
def test_kinds_of_a_newer_version_change_nothing(events: list[dict[str, Any]]) -> None:
    def shown(status: Status) -> dict[str, Any]:
        return {key: value for key, value in to_plain(status).items() if key != "seq"}

    known = [event for event in events if event["kind"] != "telepathy"]
    assert repr(shown(fold(events, Status()))) == repr(shown(fold(known, Status())))


@given(st.dictionaries(st.sampled_from([*to_plain(RUNNING), "nonsense"]), st.none() | st.text(max_size=3), max_size=3))
def test_a_status_of_another_version_is_read_without_what_is_unknown(extra: dict[str, Any]) -> None:
    kept = to_plain(RUNNING)
    assert from_plain({**kept, "of a newer version": 1}) == RUNNING
    assert "nonsense" not in vars(from_plain({"nonsense": extra}))


@pytest.mark.parametrize(("why", "said"), [("max_duration", "max_duration was reached"), ("budget", "the budget was")])
def test_a_run_that_a_limit_ended_says_which(why: str, said: str) -> None:
    over = fold(told(ATTEMPT, STARTED, ended("timeout", rc=143, why=why, detail="exit status 143")), Status())
    assert over.reason.startswith(said) and over.reason.endswith("(exit status 143)")
    early = fold(told(ATTEMPT, ended("timeout", why=why, detail="")), Status())
    assert early.reason.startswith(said)


SEATED = ("attempt", {"token": 1, "oom_kill": 0, "seat": "12:0"})


def judged(state: str, detail: str = "said so") -> tuple[str, dict[str, Any]]:
    return "judged", {"native": "12", "by": "sbatch", "state": state, "detail": detail}


@pytest.mark.parametrize(
    ("box", "scheduler", "state"),
    [
        ("killed", "oom", State.OOM),
        ("preempted", "timeout", State.TIMEOUT),
        ("lost", "cancelled", State.CANCELLED),
        ("failed", "oom", State.OOM),
        ("failed", "cancelled", State.FAILED),
        ("succeeded", "timeout", State.SUCCEEDED),
        ("cancelled", "timeout", State.CANCELLED),
        ("killed", "", State.KILLED),
    ],
)
def test_a_schedulers_record_wins_over_what_the_box_saw_but_not_over_what_the_run_did(
    box: str, scheduler: str, state: State
) -> None:
    before = fold(told(SEATED, STARTED, ended(box)), Status())
    status = fold(told(judged(scheduler), seq=3), before)
    assert status.state is state and not status.awaits_judgement
    assert before.awaits_judgement is before.state.is_dead
    assert (status.reason == "said so") is (state is not before.state)


def test_a_run_that_a_scheduler_put_back_is_queued_for_its_next_attempt() -> None:
    preempted = fold(told(SEATED, STARTED, ended("preempted")), Status())
    waiting = settle(preempted, "queued", "gone", 1)
    assert (waiting.state, waiting.attempt) == (State.QUEUED, 2)
    assert settle(Status(), "queued", "none", 1).state is State.QUEUED
    assert settle(fold(told(judged("timeout"), seq=3), preempted), "queued", "gone", 1).state is State.TIMEOUT
