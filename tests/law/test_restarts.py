"""A container that is made anew forgets which bases there are; the volume with them is released all the same."""

from __future__ import annotations

from tests.law.conftest import Scene


def test_another_clients_run_in_another_base_of_the_volume_holds(scene: Scene) -> None:
    scene.run(scene.act("succeeds", "result.json"))
    theirs = scene.run(scene.act("succeeds", "m.npy"), name="r1", site="other", by="ben")
    scene.order.pull(scene.ann)
    scene.order.machine.restart()
    (lack,) = scene.down()
    assert lack.startswith(f"paid:{theirs.root.parent.parent}/r1") and scene.is_there()


def test_a_run_that_the_clients_own_journal_knows_holds_though_no_base_knows_the_other(scene: Scene) -> None:
    scene.run(scene.act("succeeds", "result.json"))
    mine = scene.run(scene.act("succeeds", "m.npy"), name="r1", site="other")
    scene.order.pull(scene.ann, "r0")
    scene.order.machine.restart()
    for base in scene.order.machine.bases:
        (base / "bases").unlink()
    assert any(lack.startswith("r1: ") for lack in scene.down()) and scene.is_there() and mine.root.exists()
    scene.order.pull(scene.ann, "r1")
    assert scene.down() == [] and not scene.is_there()
