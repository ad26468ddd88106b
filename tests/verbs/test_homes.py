"""Which files of a home folder are ours is known by our own records alone; old folders are taken over once."""

import hashlib
import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sojourn.verbs.retrieve.fetch import HomeUnwritable, NotOurs
from sojourn.verbs.retrieve.homes import OLD_NAME, Roster
from sojourn.verbs.retrieve.pull import pull
from sojourn.verbs.retrieve.verify import verify
from tests.verbs.conftest import World
from tests.verbs.hostile import everything, planted, says


def pulled(world: World, to: Path) -> Any:
    (answer,) = pull(world.ctx, ["digits"], to=str(to))
    return answer


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def roster(world: World, home: Path) -> Roster:
    return Roster(world.ctx.store.state_dir, str(home), world.ctx.store.index.run)


def test_the_roster_lies_with_our_records_and_nothing_of_ours_stays_in_the_folder(world: World, tmp_path: Path) -> None:
    log = planted(world, "logs/3.log", b"x\n", role="log")
    says(world, [planted(world, "attempts/3/a.json", b"{}"), log], outputs=["a.json"])
    home = tmp_path / "home"
    assert pulled(world, home).ok
    assert everything(home) == {"a.json": b"{}", "logs/3.log": b"x\n"} and sorted(os.listdir(home)) == [
        "a.json",
        "logs",
    ]
    (path,) = (Path(world.ctx.store.state_dir) / "homes").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert roster(world, home).brought("digits") == {"a.json": digest(b"{}"), "logs/3.log": digest(b"x\n")}
    (tmp_path / "by-a-link").symlink_to(home)
    assert roster(world, tmp_path / "by-a-link").brought("digits") == roster(world, home).brought("digits")


def test_runs_that_come_home_at_once_into_one_folder_forget_nothing_of_each_other(world: World, tmp_path: Path) -> None:
    def bring(run: str) -> None:
        for number in range(30):
            roster(world, tmp_path).add(run, {f"{number}.json": digest(b"{}")})

    runs = [f"r{number}" for number in range(4)]
    with ThreadPoolExecutor() as pool:
        list(pool.map(bring, runs))
    assert [len(roster(world, tmp_path).brought(run)) for run in runs] == [30] * 4


def old_home(world: World, home: Path) -> None:
    """As a version before this one left it: the roster in the folder, none with our records."""
    says(
        world,
        [
            planted(world, "attempts/3/a.json", b"{}"),
            planted(world, "attempts/3/bad.json", b"{"),
            planted(world, "logs/3.log", b"one\n", role="log"),
        ],
        outputs=["*.json", "*.py"],
    )
    pulled(world, home)
    path = Path(roster(world, home).path)
    runs = json.loads(path.read_text())["runs"]
    path.unlink()
    runs["digits"]["bad.json"] = runs["digits"].pop("bad.json.unproven")
    runs["digits"]["train.py"] = digest(b"mine")
    runs["nobody"] = {"theirs.json": digest(b"theirs")}
    (home / "train.py").write_bytes(b"mine")
    (home / "theirs.json").write_bytes(b"theirs")
    (home / OLD_NAME).write_text(json.dumps(runs))


def test_an_old_roster_is_read_once_believed_as_far_as_receipts_go_and_removed(world: World, tmp_path: Path) -> None:
    home = tmp_path / "home"
    old_home(world, home)
    known = roster(world, home).brought("digits")
    assert known == {"a.json": digest(b"{}"), "logs/3.log": digest(b"one\n"), "bad.json.unproven": digest(b"{")}
    assert not (home / OLD_NAME).exists() and roster(world, home).brought("nobody") == {}
    assert roster(world, home).brought("digits") == known


def test_an_old_folder_goes_on_being_pulled_into(world: World, tmp_path: Path) -> None:
    home = tmp_path / "home"
    old_home(world, home)
    files = [
        planted(world, "attempts/3/a.json", b'{"a": 2}'),
        planted(world, "attempts/3/bad.json", b'{"b": 2}'),
        planted(world, "logs/3.log", b"one\ntwo\n", role="log"),
    ]
    says(world, files, outputs=["*.json", "*.py"])
    assert pulled(world, home).ok
    assert everything(home) == {
        "a.json": b'{"a": 2}',
        "bad.json": b'{"b": 2}',
        "logs/3.log": b"one\ntwo\n",
        "train.py": b"mine",
        "theirs.json": b"theirs",
    }


def test_what_an_old_roster_claims_without_a_receipt_is_not_overwritten(world: World, tmp_path: Path) -> None:
    home = tmp_path / "home"
    old_home(world, home)
    says(world, [planted(world, "attempts/3/train.py", b"evil")], outputs=["*.json", "*.py"])
    with pytest.raises(NotOurs):
        pulled(world, home)
    assert (home / "train.py").read_bytes() == b"mine"


@pytest.mark.parametrize("what", ["pipe", "link", "folder-of-links", "text", "list", "deep", "numbers"])
def test_an_old_roster_that_is_none_is_not_read_and_goes(world: World, tmp_path: Path, what: str) -> None:
    home = tmp_path / "home"
    says(world, [planted(world, "attempts/3/a.json", b"{}")], outputs=["a.json"])
    pulled(world, home)
    before = roster(world, home).brought("digits")
    old = home / OLD_NAME
    if what == "pipe":
        os.mkfifo(old)
    elif what == "link":
        old.symlink_to("/dev/zero")
    elif what == "folder-of-links":
        old.symlink_to(tmp_path / "nowhere")
    else:
        texts = {"text": "{", "list": "[1]", "deep": "[" * 100_000, "numbers": '{"digits": {"a": 1, "b": []}, "x": 3}'}
        old.write_text(texts[what])
    assert roster(world, home).brought("digits") == before and not os.path.lexists(old)


def test_a_roster_of_two_runs_in_one_folder_keeps_both(world: World, tmp_path: Path) -> None:
    first, second = roster(world, tmp_path), roster(world, tmp_path)
    first.add("one", {"a": digest(b"1")})
    second.add("two", {"b": digest(b"2")})
    first.add("one", {"c": digest(b"3")})
    assert roster(world, tmp_path).brought("one") == {"a": digest(b"1"), "c": digest(b"3")}
    assert roster(world, tmp_path).brought("two") == {"b": digest(b"2")}


def test_verify_passes_over_a_roster_of_an_earlier_version(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / OLD_NAME).write_text("{}")
    assert [artifact.path for artifact in verify([str(tmp_path)]).artifacts] == ["a.json"]


def test_a_folder_at_home_that_cannot_be_looked_into_is_not_empty(world: World, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "out").symlink_to("out")
    world.ended("mkdir out; echo '{}' > out/a.json", outputs=["out"])
    with pytest.raises(HomeUnwritable, match=f"^{home}/out/a.json cannot be written: Too many levels"):
        pulled(world, home)
    assert world.transport.asked == [] and [path.name for path in home.iterdir()] == ["out"]
