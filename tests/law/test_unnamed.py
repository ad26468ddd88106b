"""Nothing owed is said loudly: what loads and no output names holds where the files end with the release."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sojourn.verbs.observe.status import status
from tests.law.conftest import Scene
from tests.law.order import How, Placed

BEST = "runs/weights/best.pt"


def left(scene: Scene, name: str = "r0", content: str = "pt-1", **how: str) -> Placed:
    """A run that succeeds, and that also writes a checkpoint which no output names."""
    return scene.run(scene.act("succeeds", "result.json", extra=((BEST, scene.blob(content)),)), name=name, **how)


def test_it_holds_a_machine_that_ends_until_it_is_brought_home_by_its_path(scene: Scene) -> None:
    left(scene)
    (done,) = scene.order.pull(scene.ann)
    assert any(BEST in line and f"sojourn pull r0:{BEST}" in line for line in done.taken)
    (lack,) = scene.down()
    assert lack == f"r0: {BEST} looks like weights or a checkpoint, and no output names it" and scene.is_there()
    scene.order.pull(scene.ann, f"r0:{BEST}")
    assert scene.home(BEST) == scene.blob("pt-1").read_bytes()
    assert scene.down() == [] and not scene.is_there()


def test_it_is_given_up_by_its_path_and_asked_for_again_once_it_is_another(by_hand: Scene) -> None:
    placed = left(by_hand)
    by_hand.order.pull(by_hand.ann)
    assert by_hand.down(abandon=("r0:runs/weights",)) != [], "a folder's name is not the file's"
    assert by_hand.down(abandon=(f"r0:{BEST}",)) == [] and by_hand.down() == []
    shutil.copy(by_hand.blob("pt-3"), placed.root / "attempts/1" / BEST)
    assert any(BEST in lack for lack in by_hand.down())


def test_it_holds_a_removal_of_the_run(scene: Scene) -> None:
    placed = left(scene)
    scene.order.pull(scene.ann)
    scene.order.clean(scene.ann, "paid", ["r0"], How())
    assert placed.root.exists()
    scene.order.pull(scene.ann, f"r0:{BEST}")
    scene.order.clean(scene.ann, "paid", ["r0"], How())
    scene.holds()
    assert not placed.root.exists() and scene.home(BEST) == scene.blob("pt-1").read_bytes()


def test_what_was_brought_home_by_its_path_holds_again_once_it_changes(scene: Scene) -> None:
    placed = left(scene)
    scene.order.pull(scene.ann, f"r0:{BEST}")
    shutil.copy(scene.blob("pt-3"), placed.root / "attempts/1" / BEST)
    assert any(BEST in lack for lack in scene.down()) and scene.is_there()
    (scene.ann.home / "r0" / BEST).unlink()
    scene.order.pull(scene.ann)  # from now on it is an output like any other
    assert scene.home(BEST) == scene.blob("pt-3").read_bytes()
    assert scene.down() == [] and not scene.is_there()


def test_status_and_run_name_it(scene: Scene) -> None:
    placed = left(scene)
    with scene.ann.at_work() as ctx:
        (row,) = status(ctx, [placed.name]).rows
        assert row.unnamed == (BEST,) and row.as_json()["unnamed"] == [BEST]
    scene.order.pull(scene.ann, f"r0:{BEST}")
    with scene.ann.at_work() as ctx:
        (row,) = status(ctx, [placed.name]).rows
        assert row.unnamed == ()


@pytest.mark.parametrize("path", ["/etc/passwd", "../r1/x", "nothing.pt", ""])
def test_a_path_that_is_not_there_is_one_line(scene: Scene, path: str) -> None:
    left(scene)
    said = scene.order.pull(scene.ann, f"r0:{path}")
    assert said.exit_status == 2 and not Path(str(scene.ann.home), "r0").exists()
