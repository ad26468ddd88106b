"""Of each path the newest that loads comes home, whichever attempt made it; and what a run can resume from."""

import io
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sojourn.core.values import Receipt, State
from sojourn.train import Checkpointer
from sojourn.verbs.retrieve.choice import choose
from sojourn.verbs.retrieve.pull import pull
from tests.verbs.conftest import World
from tests.verbs.hostile import everything, planted, says

OLD, NEW = "ckpt-t000001-s00000050", "ckpt-t000003-s00000075"
GOOD, BROKEN = b'{"a": 1}', b'{"a": '


def pulled(world: World, to: Path) -> Any:
    (answer,) = pull(world.ctx, ["digits"], to=str(to))
    return answer


def receipts(world: World) -> dict[str, str]:
    return {receipt.path: receipt.sha256 for receipt in world.record().receipts}


def checkpoint(world: World, name: str, data: bytes, *, beside: bytes = GOOD) -> list[dict[str, Any]]:
    """A sealed folder of two files."""
    how: dict[str, Any] = {"role": "checkpoint", "set": name}
    state = planted(world, f"checkpoints/{name}/state.json", data, **how)
    return [state, planted(world, f"checkpoints/{name}/index.json", beside, **how)]


def test_work_of_an_earlier_attempt_comes_home_and_is_said_to_be_of_that_attempt(world: World, tmp_path: Path) -> None:
    """nanoGPT: attempt 1 wrote out/ckpt.pt, attempts 2 and 3 died before they saved."""
    row = planted(world, "attempts/1/out/ckpt.json", GOOD)
    log = planted(world, "logs/3.log", b"died\n", role="log")
    says(world, [row, log], outputs=["out/ckpt.json"])
    answer = pulled(world, tmp_path / "home")
    assert answer.ok and answer.exit_status == 0 and world.record().is_home
    assert everything(tmp_path / "home") == {"out/ckpt.json": GOOD, "logs/3.log": b"died\n"}
    assert answer.taken == ("out/ckpt.json: from attempt 1; no later attempt wrote one",)
    assert receipts(world) == {"out/ckpt.json": row["sha256"]} and answer.next == "sojourn down local"


def test_where_the_newest_does_not_load_the_next_older_one_comes_home_in_its_place(
    world: World, tmp_path: Path
) -> None:
    newest = planted(world, "attempts/3/a.json", BROKEN)
    older = [planted(world, "attempts/2/a.json", BROKEN + b" "), planted(world, "attempts/1/a.json", GOOD)]
    keeper = says(world, [newest], outputs=["a.json"], earlier=older)
    answer = pulled(world, tmp_path / "home")
    assert answer.ok and everything(tmp_path / "home") == {"a.json": GOOD, "a.json.unproven": BROKEN}
    (line,) = answer.taken
    assert line.startswith("a.json: from attempt 1; the newer one of attempt 3 does not load (truncated: ")
    assert receipts(world) == {"a.json": older[1]["sha256"]}
    assert world.record().manifest_digest == keeper.document["digest"]
    failed = [(one["path"], one["from"], one["sha256"], one["problem"]) for one in world.record().failed]
    assert failed == [(r["path"], r["from"], r["sha256"], "truncated") for r in (newest, older[0])]
    assert world.record().is_home
    world.transport.asked.clear()
    again = pulled(world, tmp_path / "home")
    assert again.ok and again.taken == answer.taken and len(world.record().failed) == 2
    assert [remote.rpartition("attempts/")[2] for remote, _ in world.transport.asked] == ["2/a.json"]


def test_where_no_candidate_loads_the_run_is_not_home_and_all_of_them_are_recorded(
    world: World, tmp_path: Path
) -> None:
    newest, older = planted(world, "attempts/3/a.json", BROKEN), planted(world, "attempts/1/a.json", BROKEN + b" ")
    says(world, [newest], outputs=["a.json"], earlier=[older])
    answer = pulled(world, tmp_path / "home")
    assert answer.exit_status == 1 and [a.problem for a in answer.artifacts] == ["truncated"]
    assert answer.artifacts[0].state == "bad" and answer.artifacts[0].sha256 == newest["sha256"]
    assert everything(tmp_path / "home") == {"a.json.unproven": BROKEN}
    assert {one["sha256"] for one in world.record().failed} == {newest["sha256"], older["sha256"]}
    assert receipts(world) == {} and not world.record().is_home


def test_a_newest_file_that_went_bad_on_the_box_gives_way_and_comes_back_when_it_is_mended(
    world: World, tmp_path: Path
) -> None:
    older = planted(world, "attempts/1/a.json", GOOD)
    better = planted(world, "attempts/3/a.json", b'{"a": 3}')
    says(world, [better], outputs=["a.json"], earlier=[older])
    home = tmp_path / "home"
    assert pulled(world, home).ok and everything(home) == {"a.json": b'{"a": 3}'}
    says(world, [planted(world, "attempts/3/a.json", BROKEN)], outputs=["a.json"], earlier=[older])
    assert pulled(world, home).ok and everything(home) == {"a.json": GOOD, "a.json.unproven": BROKEN}
    says(world, [planted(world, "attempts/3/a.json", b'{"a": 3}')], outputs=["a.json"], earlier=[older])
    assert pulled(world, home).ok and everything(home) == {"a.json": b'{"a": 3}', "a.json@attempt-1": GOOD}
    assert world.record().failed == ()


def test_a_run_that_has_not_succeeded_brings_its_newest_checkpoint_home_proven(world: World, tmp_path: Path) -> None:
    says(world, checkpoint(world, NEW, GOOD), outputs=["result.json"], missing=("result.json",))
    answer = pulled(world, tmp_path / "home")
    assert answer.checkpoint == NEW and answer.missing == ("result.json",) and answer.exit_status == 1
    assert answer.taken == (f"checkpoint {NEW}, step 75: the run has not succeeded and can resume from it",)
    assert sorted(receipts(world)) == [f"checkpoints/{NEW}/index.json", f"checkpoints/{NEW}/state.json"]
    for receipt in world.record().receipts:
        assert receipt.home == str(tmp_path / "home" / receipt.path) and Path(receipt.home).read_bytes() == GOOD


def test_a_checkpoint_that_does_not_load_falls_back_to_the_one_before(world: World, tmp_path: Path) -> None:
    files = checkpoint(world, NEW, BROKEN)
    says(world, files, outputs=[], earlier=checkpoint(world, OLD, GOOD))
    answer = pulled(world, tmp_path / "home")
    assert answer.ok and answer.checkpoint == OLD
    assert answer.taken[0].startswith(f"checkpoint {NEW} does not load (checkpoints/{NEW}/state.json: truncated")
    assert answer.taken[1] == f"checkpoint {OLD}, step 50: the run has not succeeded and can resume from it"
    assert sorted(receipts(world)) == [f"checkpoints/{OLD}/index.json", f"checkpoints/{OLD}/state.json"]
    assert [(one["path"], one["sha256"]) for one in world.record().failed] == [(files[0]["path"], files[0]["sha256"])]
    assert sorted(everything(tmp_path / "home")) == [
        f"checkpoints/{OLD}/index.json",
        f"checkpoints/{OLD}/state.json",
        f"checkpoints/{NEW}/state.json.unproven",
    ]


def test_of_checkpoints_of_which_none_loads_none_is_home_and_it_says_so(world: World, tmp_path: Path) -> None:
    says(world, checkpoint(world, NEW, BROKEN), outputs=[], earlier=checkpoint(world, OLD, GOOD, beside=BROKEN))
    answer = pulled(world, tmp_path / "home")
    assert answer.exit_status == 1 and answer.checkpoint == "" and receipts(world) == {}
    assert {one["path"] for one in world.record().failed} == {
        f"checkpoints/{NEW}/state.json",
        f"checkpoints/{OLD}/index.json",
    }


def test_checkpoints_of_a_run_that_lives_stay_where_they_are(world: World) -> None:
    row = planted(world, "attempts/3/a.json", GOOD)
    hit_twice = {**checkpoint(world, OLD, GOOD)[0], "role": "output"}  # an output glob names it too
    document: dict[str, Any] = {"files": [row, hit_twice, *checkpoint(world, NEW, GOOD)], "missing": []}
    live = choose(document, ["a.json", "checkpoints/*/state.json"], is_live=True)
    assert [one["path"] for one in live.wanted()] == ["a.json", f"checkpoints/{OLD}/state.json"] and not live.refused
    ended = choose(document, ["a.json", "checkpoints/*/state.json"], is_live=False)
    assert {one["path"] for one in ended.wanted()} == {one["path"] for one in document["files"]}


def test_files_that_the_succeeded_attempt_replaced_are_only_counted(world: World, tmp_path: Path) -> None:
    row = planted(world, "attempts/3/a.json", GOOD)
    says(world, [row], outputs=["a.json"], state=State.SUCCEEDED, superseded=4)
    answer = pulled(world, tmp_path / "home")
    assert answer.ok and answer.superseded == 4
    assert answer.taken == ("4 older files left on the box: the attempt that succeeded replaced them",)


def test_what_was_sealed_and_is_gone_from_the_box_is_lost_and_not_never_made(world: World, tmp_path: Path) -> None:
    lost = {key: planted(world, "attempts/3/a.json", GOOD)[key] for key in ("path", "bytes", "sha256")}
    (world.root() / "attempts/3/a.json").unlink()
    keeper = says(world, [], outputs=["a.json"], gone=[lost])
    answer = pulled(world, tmp_path / "home")
    (artifact,) = answer.artifacts
    assert (artifact.path, artifact.problem, artifact.state) == ("a.json", "missing", "bad")
    assert artifact.detail == "sealed by the keeper, then deleted on the box: lost"
    assert answer.exit_status == 1 and answer.missing == () and answer.why == "1 of 1 are missing or do not load"
    assert world.record().gone == (lost,) and world.record().manifest_digest == keeper.document["digest"]
    assert not world.record().is_home


def test_what_was_rewritten_on_the_box_after_its_end_comes_home_with_a_word(world: World, tmp_path: Path) -> None:
    says(world, [planted(world, "attempts/3/a.json", GOOD, sealed="0" * 64)], outputs=["a.json"])
    answer = pulled(world, tmp_path / "home")
    assert answer.ok and any("after its attempt had ended" in remark for remark in answer.artifacts[0].remarks)


def test_what_came_home_before_it_was_deleted_on_the_box_is_not_lost(world: World, tmp_path: Path) -> None:
    row = planted(world, "attempts/3/a.json", GOOD)
    says(world, [row], outputs=["a.json"])
    home = tmp_path / "home"
    assert pulled(world, home).ok
    lost = {key: row[key] for key in ("path", "bytes", "sha256")}
    says(world, [], outputs=["a.json"], gone=[lost])
    answer = pulled(world, home)
    assert answer.ok and receipts(world) == {"a.json": row["sha256"]}
    assert "deleted on the box after it was sealed; the copy at home is complete" in answer.artifacts[0].remarks
    (home / "a.json").write_bytes(b'{"a": 2}')
    assert pulled(world, home).exit_status == 1 and receipts(world) == {}


def stepped(step: int | None, more: str = "") -> bytes:
    """A file that says which step it holds, as our Checkpointer's do; None: a file that does not."""
    arrays = {"w": np.arange(float(len(more) + 3))}
    out = io.BytesIO()
    if step is None:
        np.savez(out, **arrays)
        return out.getvalue()
    with tempfile.TemporaryDirectory() as folder:
        saver = Checkpointer(state=arrays, folder=folder, every_steps=1000, background=False)
        for _ in range(step):
            saver.step()
        saver.save()
        saver.close()
        (path,) = Path(folder).glob("ckpt-*.pt")
        return path.read_bytes()


@pytest.mark.parametrize(
    ("first", "then", "is_kept"),
    [(None, None, True), (50, 10, True), (50, 60, False), (50, 50, False)],
)
def test_a_proven_file_stays_beside_that_of_a_later_attempt_unless_that_is_as_far_on(
    world: World, tmp_path: Path, first: int | None, then: int | None, is_kept: bool
) -> None:
    """word_language_model: attempt 2 starts from nothing and saves over what attempt 1 had reached."""
    name = "m.pt" if then else "m.npz"
    better, worse = stepped(first), stepped(then, "other")
    says(world, [planted(world, f"attempts/1/{name}", better)], outputs=[name], attempt=1)
    home = tmp_path / "home"
    assert pulled(world, home).ok
    row = planted(world, f"attempts/2/{name}", worse)
    says(world, [row], outputs=[name], attempt=2)
    for _ in range(2):
        answer = pulled(world, home)
        assert answer.ok and receipts(world) == {name: row["sha256"]}
        beside = {f"{name}@attempt-1": better} if is_kept else {}
        assert everything(home) == {name: worse, **beside}
    says(world, [planted(world, f"attempts/2/{name}", better)], outputs=[name], attempt=2)  # the same attempt's
    assert pulled(world, home).ok and everything(home) == {name: better, **beside}


def test_a_second_manifest_spares_the_box_from_hashing_what_did_not_change(world: World, tmp_path: Path) -> None:
    row = planted(world, "attempts/3/a.json", GOOD, stat=[1, 2, 8, 3, 4])
    keeper = says(world, [row, planted(world, "attempts/3/b.json", GOOD)], outputs=["*.json"])
    assert pulled(world, tmp_path / "home").ok
    first, second = (asked for asked in keeper.asked if asked["op"] == "manifest")
    assert "known" not in first and second["fresh"]
    assert second["known"] == {row["from"]: {key: row[key] for key in ("stat", "bytes", "sha256")}}


def test_the_digest_that_is_recorded_covers_what_only_earlier_attempts_made(world: World, tmp_path: Path) -> None:
    row, older = planted(world, "attempts/3/a.json", GOOD), planted(world, "attempts/1/a.json", b'{"a": 2}')
    alone = says(world, [row], outputs=["a.json"]).document["digest"]
    both = says(world, [row], outputs=["a.json"], earlier=[older]).document["digest"]
    pulled(world, tmp_path / "home")
    assert world.record().manifest_digest == both != alone


@pytest.mark.parametrize(
    ("proved", "state"),
    [
        (("bytes", "structure", "load", "content"), "loaded"),
        (("bytes", "structure", "content"), "content-read"),
        (("bytes", "structure"), "bytes-only"),
        (("bytes",), "bytes-only"),
    ],
)
def test_a_receipt_says_how_far_it_is_proven(proved: tuple[str, ...], state: str) -> None:
    assert Receipt("r", "p", "/h", 1, "0" * 64, "json", "json_", proved).state == state
