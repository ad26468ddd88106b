"""What a release that was confirmed beforehand does not cover."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sojourn.core.beforehand import Beforehand
from sojourn.core.law import SUPERSEDED, Facts, Judgement, Stray
from sojourn.core.owed import Standing
from sojourn.core.values import Lease, State

LEASE = Lease("gpu1", "gpu1", "runpod", "pod-1", 1, "USD", 0.0, "terminate", True, token="sojourn-1")
GIVEN = Beforehand("gpu1", "sojourn-1", "pod-1", frozenset(("a", "b")))
CLEAN = Facts((Standing("a", State.SUCCEEDED), Standing("b", State.SUCCEEDED)), 0.0)
NOTHING = Judgement(())


def beyond(facts: Facts = CLEAN, judgement: Judgement = NOTHING, lease: Lease = LEASE) -> list[str]:
    return [f"{lack.run}: {lack.what}" for lack in GIVEN.beyond(lease, facts, judgement)]


def test_the_clean_case_is_covered_also_where_an_earlier_attempt_left_files() -> None:
    assert beyond() == [] == beyond(judgement=Judgement((), listed=(f"a: 3 {SUPERSEDED}",)))


@pytest.mark.parametrize("other", [{"native": "pod-2"}, {"token": "sojourn-2"}, {"name": "gpu2"}])
def test_another_lease_is_not(other: dict[str, str]) -> None:
    assert "another lease" in beyond(lease=replace(LEASE, **other))[0]  # type: ignore[arg-type]


@pytest.mark.parametrize("state", [one for one in State if one is not State.SUCCEEDED])
def test_a_run_that_has_not_succeeded_is_not(state: State) -> None:
    facts = replace(CLEAN, runs=(CLEAN.runs[0], Standing("b", state)))
    assert beyond(facts) == [f"b: is {state.value}, not succeeded"]


def test_a_run_that_was_never_started_has_nothing_to_succeed_at() -> None:
    assert beyond(replace(CLEAN, runs=(Standing("a", State.PLANNED, is_launched=False),))) == []


def test_a_run_that_joined_later_is_not() -> None:
    facts = replace(CLEAN, runs=(*CLEAN.runs, Standing("c", State.SUCCEEDED)))
    assert beyond(facts) == ["c: was not on the lease when it was confirmed"]


def test_what_somebody_else_has_on_the_box_is_not() -> None:
    assert beyond(replace(CLEAN, strays=(Stray("gpu1:/base/x", "is there", "recover"),))) == ["gpu1:/base/x: is there"]


@pytest.mark.parametrize(
    "judgement",
    [
        Judgement((), acknowledged=(("a", "*.pt"),)),
        Judgement((), unproven=(("a", "x.bin"),)),
        Judgement((), listed=("a: x.pt of attempt 2 does not load; that of attempt 1 is home",)),
        Judgement((), abandoned=("a",)),
        Judgement((), accepted=("a:x.pt",)),
    ],
)
def test_nothing_that_a_person_would_have_to_look_at_is(judgement: Judgement) -> None:
    assert len(beyond(judgement=judgement)) == 1
