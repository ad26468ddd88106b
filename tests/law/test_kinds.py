"""One of each kind of odd thing that the campaign draws, said step by step: each is played by every `make test`."""

from __future__ import annotations

import random

from sojourn.wire.errors import SojournError
from tests.law import odd
from tests.law.conftest import Scene
from tests.law.order import How
from tests.law.payload import Play
from tests.violation import held

DICE = random.Random(0)


def test_a_folder_that_cannot_be_looked_into_holds_until_it_can(scene: Scene) -> None:
    scene.run(scene.act("succeeds", "out/a.json"))
    odd.close(scene.order, DICE)
    scene.order.pull(scene.ann)
    held(
        any("cannot be looked into" in lack for lack in scene.down()) and scene.is_there(),
        "an unknown folder was let go",
    )
    odd.open_again(scene.order, DICE)
    scene.order.pull(scene.ann)
    assert scene.down() == [] and not scene.is_there()
    assert scene.home("out/a.json") == scene.blob("json-1").read_bytes()


def test_what_a_later_attempt_removed_of_its_own_is_history(scene: Scene) -> None:
    first = scene.act("fails", "keep/1.pt", "keep/2.pt")
    placed = scene.run(first, scene.act("succeeds", "result.json", drops=("keep/1.pt",)))
    scene.order.go_on(placed)
    (done,) = scene.order.pull(scene.ann)
    assert any("removed by a later attempt" in line for line in done.taken)
    assert scene.down() == [] and not scene.is_there()
    assert scene.home("keep/2.pt") == scene.blob("pt-1").read_bytes()
    assert not (scene.ann.home / "r0/keep/1.pt").exists()


def test_a_container_made_anew_keeps_what_its_volume_owes(scene: Scene) -> None:
    scene.run(scene.act("hangs", "result.json"))
    odd.restart(scene.order, DICE)
    held(scene.down() != [] and scene.is_there(), "what a restart interrupted was let go")
    scene.order.pull(scene.ann)
    assert scene.down() == [] and scene.home("result.json") == scene.blob("json-1").read_bytes()


def test_a_home_that_goes_with_the_run_is_none(scene: Scene) -> None:
    scene.run(scene.act("succeeds", "result.json"))
    for seed in range(9):
        odd.odd_home(scene.order, random.Random(seed))
        held(scene.down() != [] and scene.is_there(), f"seed {seed}: what is home only in what goes was let go")
    if (scene.ann.home / "r0").is_symlink():
        (scene.ann.home / "r0").unlink()
    scene.order.pull(scene.ann)
    assert scene.down() == [] and scene.home("result.json") == scene.blob("json-1").read_bytes()


def test_a_run_that_comes_during_down_does_not_begin_on_what_was_cleared(by_hand: Scene) -> None:
    by_hand.run(by_hand.act("succeeds", "result.json"))
    by_hand.order.pull(by_hand.ann)
    late = Play("late", (by_hand.act("succeeds", "m.npy"),))
    odd.late_run(by_hand.order, by_hand.ann, "paid", late, How())
    by_hand.holds()
    assert by_hand.order.machine.is_cleared
    assert not (by_hand.order.machine.bases[0] / "runs/late/events.jsonl").exists()


def test_silence_is_no_stopped_machine(by_hand: Scene) -> None:
    by_hand.run(by_hand.act("succeeds", "result.json"))
    by_hand.order.pull(by_hand.ann)
    by_hand.order.machine.is_cut = by_hand.order.machine.is_silent = True
    said = by_hand.order.down(by_hand.ann, "paid", How(is_stopped=True))
    held(isinstance(said, SojournError) and said.code == "fell-silent", "a machine that let us in counts as stopped")
    by_hand.holds()
