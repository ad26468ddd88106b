"""Events come from a box that nobody vouches for: whatever a line holds, the fold goes on, and stays small."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.core.fold import Status, fold, from_plain, settle, to_plain, with_progress
from sojourn.core.heard import heard
from sojourn.wire import events

VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("\ud800") | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NAMES = sorted(
    {word.partition("{")[0].partition("[")[0] for said in events.KINDS.values() for word in said.split()}
    | {"seq", "at", "attempt", "v"}
)
EVENT = st.builds(
    lambda kind, seq, attempt, at, rest: {**rest, "kind": kind, "seq": seq, "attempt": attempt, "at": at, **rest},
    st.sampled_from(sorted(events.KINDS)),
    st.integers(1, 30),
    st.integers(0, 3),
    st.just("2026-11-21T10:00:00.000Z") | VALUE,
    st.dictionaries(st.sampled_from(NAMES), VALUE, max_size=5),
)
HEAD = {"seq": 1, "attempt": 1, "at": "2026-11-21T10:00:00.000Z"}


@given(st.lists(EVENT, max_size=8))
def test_any_events_are_folded_without_an_error_and_can_be_kept(told: list[dict[str, Any]]) -> None:
    status = fold(told, Status())
    text = json.dumps(to_plain(status), allow_nan=False)
    text.encode("utf-8")
    assert from_plain(json.loads(text)) is not None
    for keeper in ("alive", "gone"):
        percentage = settle(status, keeper, "gone", 1).percentage
        assert percentage is None or percentage <= 100


@given(st.dictionaries(st.sampled_from(["step", "total", "epoch", "metrics", "at"]), VALUE))
def test_any_progress_is_laid_over_a_status(progress: dict[str, Any]) -> None:
    status = with_progress(Status(), progress)
    json.dumps(to_plain(status), allow_nan=False).encode("utf-8")
    assert status.percentage is None or status.percentage <= 100


@pytest.mark.parametrize(
    "event",
    [
        {"kind": "beat", "log_age_s": 10**400, "progress": {"step": 10**400, "total": 10**400}},
        {"kind": "beat", "progress": {"step": 1, "at": "2026-11-21T10:00:00.1e999Z", "metrics": {"a": ["b"] * 10**5}}},
        {"kind": "sealed", "manifest": "../../../.bashrc", "missing": ["x" * 10**6] * 3},
        {"kind": "ended", "state": "x" * 10**6, "seconds": 10**400, "why": {"a": 1}, "by": ["b"], "rc": "\ud800"},
        {"kind": "checkpoint", "path": "\ud800" * 10**5, "step": [1], "bytes": -1, "write_s": 10**400},
        {"kind": "stalled", "quiet_s": 10**400},
        {"kind": "signal", "signal": {"x": "y" * 10**6}, "why": "\x1b[2J"},
    ],
)
def test_an_event_that_is_meant_to_harm_leaves_a_small_status(event: dict[str, Any]) -> None:
    status = fold(
        [{**HEAD, "kind": "attempt"}, {**HEAD, "kind": "started", "seq": 2}, {**HEAD, **event, "seq": 3}], Status()
    )
    assert status.seq == 3 and status.manifest == ""
    assert len(json.dumps(to_plain(status), allow_nan=False)) < 40_000


def test_what_a_kind_does_not_have_is_not_taken() -> None:
    assert heard({**HEAD, "kind": "started", "pid": 7, "extra": 1}) == {**HEAD, "kind": "started"}
    assert heard({**HEAD, "kind": "of-tomorrow"}) is None
    assert heard({**HEAD, "kind": "started", "attempt": True}) is None
    assert heard({**HEAD, "kind": ["started"]}) is None
