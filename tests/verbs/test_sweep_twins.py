"""`reconcile --repair` where a box that was given up answers again: what has come further is kept."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.verbs.conftest import World
from tests.verbs.field import Make, fields


@pytest.fixture
def field(world: World, tmp_path: Path) -> Iterator[Make]:
    with fields(world, tmp_path) as make:
        yield make


def test_an_original_with_more_progress_than_its_copy_is_not_cancelled(field: Make) -> None:
    boxes = field("a b")
    for number in (1, 2, 3, 4):
        (boxes.folder / f"save-ab-lr{number}").touch()
    boxes.sweep({"lr": [1, 2, 3, 4]})
    boxes.until(lambda states: list(states.values()).count("running") == 2)
    first, second = [cell for cell, site in boxes.sites().items() if site == "b"]
    for word in ("fail", "gate"):
        (boxes.folder / f"{word}-{first}").touch()
    boxes.until(lambda states: states[first] == "failed" and states[second] == "running")
    (boxes.folder / f"save-{first}").unlink()
    boxes.reconcile(repair=True)  # its next attempt waits there, with a checkpoint, for the other to end
    boxes.lines["b"].is_cut = True
    seen = boxes.reconcile(repair=True, abandon=["b"])
    (told,) = [one for one in seen.remarks if one.startswith(f"{first} on b is given up")]
    assert "step 90" in told and "ckpt-t000001-s00000090.pt" in told and " old" in told and "result.json" in told
    boxes.lines["b"].is_cut = False
    seen = boxes.reconcile(repair=True)
    (told,) = [one for one in seen.remarks if one.startswith(f"{first}: b answers again with more progress")]
    assert "step 90" in told and "neither is cancelled" in told
    boxes.open()
    boxes.until(lambda states: boxes.events("b", first, "ended")[1:])
    boxes.over()
    (twice,) = [one for one in boxes.reconcile().duplicates if one["run"] == first]
    assert [one["step"] for one in twice["progress"]] == [None, 90]
