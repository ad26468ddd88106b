"""What is home is not called loaded before it was: a library that lacks, a file that would run code."""

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sojourn.cli.show import pull as show
from sojourn.cli.show import verify as artifacts
from sojourn.core.artifact import Artifact
from sojourn.verbs.retrieve import tale
from sojourn.verbs.retrieve.pull import pull
from sojourn.verbs.retrieve.tale import Tale
from tests.verbs.conftest import World
from tests.verbs.hostile import everything, planted, says


class Bomb:
    """Loading it would make a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = str(mark)

    def __reduce__(self) -> Any:
        return open, (self.mark, "w")


def pulled(world: World, to: Path) -> Any:
    (answer,) = pull(world.ctx, ["digits"], to=str(to))
    return answer


def test_a_file_that_would_run_code_comes_home_apart_with_a_receipt_for_its_bytes(world: World, tmp_path: Path) -> None:
    data = pickle.dumps(Bomb(tmp_path / "ran"))
    row = planted(world, "attempts/3/model.pkl", data)
    older = planted(world, "attempts/1/model.pkl", pickle.dumps({"a": 1}))
    says(world, [row], outputs=["model.pkl"], earlier=[older])
    home = tmp_path / "home"
    for _ in range(2):  # the second time nothing is sent
        world.transport.asked.clear()
        answer = pulled(world, home)
        assert answer.exit_status == 1 and answer.artifacts[0].state == "unsafe"
        assert answer.next == "sojourn down local --accept digits:model.pkl" and "run code" in answer.why
        assert everything(home) == {"model.pkl.unproven": data} and not (tmp_path / "ran").exists()
        (receipt,) = world.record().receipts
        assert (receipt.path, receipt.sha256, receipt.kind) == ("model.pkl", row["sha256"], "unsafe")
        assert (receipt.proved, receipt.state) == (("bytes",), "bytes-only")
        assert receipt.home == str(home / "model.pkl.unproven") and world.record().failed == ()
        assert not world.record().is_home
    assert world.transport.asked == []


def test_a_file_that_no_library_here_loads_is_home_and_not_loaded(world: World, tmp_path: Path) -> None:
    """A picture with more pixels than are decoded: what is missing is not the library, and no receipt says `load`."""
    image = pytest.importorskip("PIL.Image")
    image.new("L", (8200, 8200)).save(tmp_path / "big.jpg", quality=1)
    data = (tmp_path / "big.jpg").read_bytes()
    says(world, [planted(world, "attempts/3/big.jpg", data)], outputs=["big.jpg"])
    answer = pulled(world, tmp_path / "home")
    (found,) = answer.artifacts
    assert (answer.exit_status, answer.ok, found.ok, found.state) == (1, False, True, "bytes-only")
    lines = [" ".join(line.split()) for line in show.lines(answer, 200)]
    assert "loaded 0 of 1" in lines
    assert "bytes big.jpg: size and SHA-256 checked, not loaded (more than 67108864 pixels)" in lines
    assert answer.next == "sojourn down local --accept digits:big.jpg"
    (receipt,) = world.record().receipts
    assert receipt.state == "bytes-only" and receipt.kind == "jpeg" and not world.record().is_home


def unloaded(path: str, library: str, kind: str) -> Artifact:
    remark = f"not loaded: {library} is not installed here; only its structure is proven"
    return Artifact(path, kind, 3, "0" * 64, ("bytes", "structure"), remarks=(remark, "small"))


def test_where_a_library_is_missing_it_says_which_and_is_not_proven() -> None:
    one = unloaded("t.parquet", "pyarrow", "parquet")
    told = Tale(artifacts={"t.parquet": one, "x.json": replace(one, path="x.json", kind="json", proved=("load",))})
    why, following = told.verdict("digits", "box")
    assert not told.ok and following == "sojourn pull digits"
    assert why == "1 of 2 not loaded, only their bytes are proven: install pyarrow"
    assert list(told.problems()) == [("t.parquet", "not loaded (install pyarrow)")]
    (first, _) = tale.artifacts_of(told)
    assert (first.state, first.needs) == ("bytes-only", "install pyarrow")
    shown = " ".join(" ".join(artifacts.artifacts([show._worded(first)], 200)).split())
    assert "t.parquet: size and SHA-256 checked, not loaded (install pyarrow)" in shown and "t.parquet: small" in shown
    assert "loaded 0 of 1" in shown and "is not installed here" not in shown


def test_a_kind_that_nobody_can_load_and_one_that_was_read_are_no_problem() -> None:
    bare = Artifact("notes.xyz", "unknown", 3, "0" * 64, ("bytes",))
    read = replace(bare, path="a.pt", kind="torch_zip", proved=("bytes", "structure", "content"))
    told = Tale(artifacts={"notes.xyz": bare, "a.pt": read, "logs/1.log": replace(bare, kind="log")})
    assert told.ok and told.verdict("digits", "box") == ("", "sojourn down box")
    assert [one.state for one in tale.artifacts_of(told)] == ["content-read", "bytes-only"]
