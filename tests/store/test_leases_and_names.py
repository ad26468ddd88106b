"""Runs and leases are found by what people type."""

from pathlib import Path

import pytest

from sojourn.store.index import Ambiguous, NotFound
from tests.store import history
from tests.store.history import filled, opened


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def test_a_name_is_found_by_its_unique_beginning_and_exactly_before_that(state: Path) -> None:
    index = filled(state, "pixel", "pixel-lr3", "digits").index
    assert index.find("d").id == "digits"
    assert index.find("pixel").id == "pixel"
    assert index.find("pixel-").id == "pixel-lr3"


def test_a_wrong_name_is_answered_with_the_nearest(state: Path) -> None:
    with pytest.raises(NotFound) as caught:
        filled(state, "digits", "pixel").index.find("digist")
    assert (
        caught.value.message == "No run is called 'digist'; the nearest is 'digits'." and caught.value.exit_status == 2
    )


def test_a_name_where_there_are_no_runs_says_so(state: Path) -> None:
    with pytest.raises(NotFound, match="there is no run yet"):
        opened(state).index.find("x")


def test_an_empty_name_is_no_prefix_of_everything(state: Path) -> None:
    with pytest.raises(NotFound):
        filled(state, "a").index.find("")


def test_a_beginning_of_several_names_them(state: Path) -> None:
    with pytest.raises(Ambiguous) as caught:
        filled(state, *(f"cell-{i}" for i in range(7))).index.find("cell")
    assert caught.value.exit_status == 2
    said = caught.value.message
    assert said == "'cell' is ambiguous: 7 runs begin with it: cell-0, cell-1, cell-2, cell-3, cell-4, ...."


def test_a_lease_lists_every_run_ever_launched_on_it_and_no_other(state: Path) -> None:
    store = opened(state)
    store.append("leased", lease=history.lease("gpu"))
    store.append("leased", lease=history.lease("other"))
    for run in ("a", "b", "c"):
        history.planned(store.journal, run)
    history.launched(store.journal, "a", on="gpu")
    history.launched(store.journal, "b", on="gpu")
    history.launched(store.journal, "b", attempt=2, on="other")
    store.index.catch_up()
    assert [run.id for run in store.index.runs_on("gpu")] == ["a", "b"]
    assert [run.id for run in store.index.runs_on("other")] == ["b"]
    assert store.index.find("b").lease == "other" and store.index.find("b").attempt == 2


def test_a_name_rented_again_starts_without_the_old_runs(state: Path) -> None:
    store = opened(state)
    history.planned(store.journal, "a")
    store.append("leased", lease=history.lease("gpu"))
    history.launched(store.journal, "a", on="gpu")
    store.append("released", lease="gpu", line="gone", spent_micro=5)
    store.append("leased", lease=history.lease("gpu", began_s=2000.0))
    assert store.index.runs_on("gpu") == []
    first, second = store.index.leases(open_only=False)
    assert (first.state, first.spent_micro, first.line, second.state, second.began_s) == (
        "released",
        5,
        "gone",
        "open",
        2000.0,
    )
    assert [one.generation for one in store.index.leases()] == [second.generation]
    assert store.index.lease("gpu") == second and store.index.lease("none") is None


def test_a_lease_journaled_twice_is_one_lease(state: Path) -> None:
    store = opened(state)
    store.append("leased", lease=history.lease())
    store.append("leased", lease=history.lease())
    assert len(store.index.leases()) == 1


def test_the_end_of_a_lease_leaves_each_step(state: Path) -> None:
    store = filled(state, "a")
    store.append("abandoned", lease="local", run="a", what="best.pt")
    store.append("abandoned", lease="local", run="a", what="last.pt")
    for kind in ("clearing", "releasing"):
        store.append(kind, lease="local")
        assert store.index.leases()[0].state == kind
    store.append("settled", lease="local", lost=["best.pt"], spent_micro=7)
    (lease,) = store.index.leases(open_only=False)
    assert (lease.state, lease.spent_micro, lease.lost, lease.is_open) == ("settled", 7, ("best.pt",), False)
    assert [one["what"] for one in lease.abandoned] == ["best.pt", "last.pt"]
