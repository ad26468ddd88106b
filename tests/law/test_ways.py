"""The ways past the Iron Law that were found on commit 0b11faf: replays, by the number of their item in the issue.

On that commit each of them released, or called released, what these tests hold. The judge is the campaign's oracle,
which reads the box's disk and the homes and asks nothing of the product.
"""

from __future__ import annotations

import json
import shutil

import pytest

from tests.law.conftest import Scene
from tests.law.order import How

pytestmark = pytest.mark.promise


def test_item_7_a_second_clients_living_run_holds(scene: Scene) -> None:
    scene.run(scene.act("succeeds", "result.json"))
    scene.order.pull(scene.ann)
    theirs = scene.run(scene.act("hangs", "m.npy"), name="r1", by="ben")
    assert any(f"{theirs.root.parent.parent}/r1" in lack for lack in scene.down())
    assert scene.is_there()
    scene.order.stop(scene.ben, "r1")
    assert any("r1" in lack for lack in scene.down())
    scene.order.recover(scene.ann, "paid")
    scene.order.pull(scene.ann)
    assert scene.down() == [] and not scene.is_there()
    assert scene.home("m.npy", "r1") == scene.blob("npy-1").read_bytes()


def test_item_7_what_the_lost_journal_knew_holds(scene: Scene) -> None:
    scene.run(scene.act("succeeds", "result.json"))
    shutil.rmtree(scene.ann.state)
    scene.run(scene.act("succeeds", "m.npy"), name="r1")
    scene.order.pull(scene.ann)
    assert any("r0" in lack for lack in scene.down())
    scene.order.recover(scene.ann, "paid")
    scene.order.pull(scene.ann)
    assert scene.down() == [] and not scene.is_there()


def test_item_7_a_run_in_another_base_holds(scene: Scene) -> None:
    scene.run(scene.act("succeeds", "result.json"))
    scene.order.pull(scene.ann)
    theirs = scene.run(scene.act("fails", "m.npy"), name="r1", site="other", by="ben")
    (lack,) = scene.down()
    name = f"paid:{theirs.root.parent.parent}/r1"
    assert lack.startswith(name) and scene.is_there()
    assert scene.down(abandon=(name,)) == [] and not scene.is_there()


def test_item_8_the_same_box_under_another_name_is_the_same_box(scene: Scene) -> None:
    scene.run(scene.act("succeeds", "result.json"))
    scene.run(scene.act("succeeds", "m.npy"), name="r1", site="twin")
    scene.order.pull(scene.ann, "r0")
    assert any(lack.startswith("r1: ") for lack in scene.down())
    assert scene.is_there()
    scene.order.pull(scene.ann, "r1")
    assert scene.down() == [] and not scene.is_there()


@pytest.mark.campaign
def test_item_9_what_an_earlier_attempt_left_is_owed_by_down(scene: Scene) -> None:
    failed = scene.run(scene.act("fails", "out/w.pt"), scene.act("fails"))
    scene.order.go_on(failed)
    scene.order.go_on(failed)
    assert any("out/w.pt" in lack for lack in scene.down())
    scene.order.pull(scene.ann)
    assert scene.down() == [] and not scene.is_there()
    assert scene.home("out/w.pt") == scene.blob("pt-1").read_bytes()


@pytest.mark.campaign
def test_item_9_what_an_earlier_attempt_left_is_owed_by_clean(scene: Scene) -> None:
    failed = scene.run(scene.act("fails", "out/w.pt"), scene.act("fails"))
    scene.order.go_on(failed)
    scene.order.pull(scene.ann)
    shutil.rmtree(scene.ann.home)
    scene.order.clean(scene.ann, "paid", ["r0"], How())
    scene.holds()
    assert (failed.root / "attempts/1/out/w.pt").exists()


@pytest.mark.campaign
def test_item_10_the_newest_checkpoint_of_an_unfinished_run_holds(scene: Scene) -> None:
    scene.run(scene.act("fails", "result.json", checkpoints=(50, 75)))
    scene.order.pull(scene.ann, "r0")
    name = "ckpt-t000001-s00000075.pt"
    (scene.ann.home / "r0/checkpoints" / name).unlink(missing_ok=True)
    assert any(name in lack for lack in scene.down())
    assert scene.is_there()
    assert scene.down(abandon=("r0:checkpoint",)) == [] and not scene.is_there()


@pytest.mark.campaign
def test_item_10_brought_home_it_holds_no_longer(scene: Scene) -> None:
    scene.run(scene.act("fails", "result.json", checkpoints=(50, 75)))
    scene.order.pull(scene.ann)
    assert scene.down() == [] and not scene.is_there()
    assert scene.home("checkpoints/ckpt-t000001-s00000075.pt") == scene.blob("pt-2").read_bytes()


def test_item_11_what_the_hook_changes_on_the_box_is_seen(scene: Scene) -> None:
    done = scene.run(scene.act("succeeds", "result.json"), hook="sh ./hook.sh")
    scene.order.pull(scene.ann)
    edited = done.root / "attempts/1/result.json"
    (scene.ann.project / "hook.sh").write_text(f"echo '{{\"edited\": 1}}' > '{edited}'\n")
    assert any("result.json" in lack for lack in scene.down())
    assert scene.is_there() and json.loads(edited.read_text()) == {"edited": 1}


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("where", ["box", "home"])
@pytest.mark.parametrize("is_script", [True, False])
def test_item_11_what_changes_while_the_question_waits_is_seen(scene: Scene, where: str, is_script: bool) -> None:
    done = scene.run(scene.act("succeeds", "result.json"))
    scene.order.pull(scene.ann)
    mine = scene.ann.home / "r0/result.json"

    def meanwhile() -> None:
        if where == "home":
            mine.unlink()
        else:
            (done.root / "attempts/1/result.json").write_text('{"edited": 1}')

    assert any("result.json" in lack for lack in scene.down(meanwhile=meanwhile, is_script=is_script))
    assert scene.is_there()


def test_item_12_what_was_sealed_and_then_deleted_is_lost_and_not_never_made(scene: Scene) -> None:
    done = scene.run(scene.act("succeeds", "result.json", "m.npy"))
    (done.root / "attempts/1/m.npy").unlink()
    scene.order.pull(scene.ann)
    assert any("m.npy" in lack for lack in scene.down())
    assert scene.is_there()
    assert scene.down(abandon=("r0",)) == [] and not scene.is_there()


@pytest.mark.campaign
def test_item_13_a_flipped_bit_in_the_journal_loses_no_run(scene: Scene) -> None:
    scene.run(scene.act("succeeds", "result.json"))
    scene.run(scene.act("succeeds", "m.npy"), name="r1")
    scene.order.pull(scene.ann, "r1")
    path = scene.ann.state / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    index = next(n for n, line in enumerate(lines) if json.loads(line)["kind"] == "planned")
    for at in range(0, len(lines[index]) - 1, len(lines[index]) // 7):
        line = bytearray(lines[index])
        line[at] ^= 1
        path.write_bytes(b"".join([*lines[:index], bytes(line), *lines[index + 1 :]]))
        for one in scene.ann.state.glob("index.sqlite*"):
            one.unlink()
        scene.down()
        assert scene.is_there(), f"bit 0 of byte {at} of {lines[index]!r}"


@pytest.mark.campaign
def test_item_14_repeating_down_does_not_say_that_the_machine_is_stopped(by_hand: Scene) -> None:
    by_hand.run(by_hand.act("succeeds", "result.json"))
    by_hand.order.pull(by_hand.ann)
    for _ in range(3):
        by_hand.down()
    assert [one.name for one in by_hand.order.leases(by_hand.ann)] == ["paid"], "the box bills; the meter is not off"
    by_hand.down(is_stopped=True)
    assert by_hand.order.leases(by_hand.ann), "it still answers"
    by_hand.order.machine.delete()
    by_hand.down(is_stopped=True)
    assert by_hand.order.leases(by_hand.ann) == []
