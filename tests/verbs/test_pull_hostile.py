"""What a box says is never trusted with our disk: only what was asked for lands, under no name of ours."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from sojourn.core.values import NoAnswer
from sojourn.verbs.moving import GIVE_UP_S
from sojourn.verbs.retrieve import fetch as fetching
from sojourn.verbs.retrieve.fetch import NotOurs
from sojourn.verbs.retrieve.manifests import WrongManifest, kept_manifest
from sojourn.verbs.retrieve.pull import pull
from sojourn.wire import manifest
from sojourn.wire.errors import Unreachable
from tests.verbs.conftest import World
from tests.verbs.hostile import everything, planted, says

ZERO = "0" * 64


def pulled(world: World, to: Path) -> Any:
    (answer,) = pull(world.ctx, ["digits"], to=str(to))
    return answer


def problems(answer: Any) -> dict[str, str]:
    return {a.path: a.problem for a in answer.artifacts if not a.ok}


@pytest.mark.parametrize("digest", ["../../../.bashrc", "/tmp/x", "f" * 63, "F" * 64, "\u0660" * 64])
def test_a_digest_that_is_a_path_writes_nothing_and_is_an_error_of_that_box(
    world: World, tmp_path: Path, private_home: Path, digest: str
) -> None:
    bashrc = private_home / ".bashrc"
    bashrc.write_text("mine")
    says(world, [planted(world, "attempts/3/a.json", b"{}")], outputs=["a.json"], digest=digest)
    before = {name: data for name, data in everything(private_home).items() if "/sojourn/" not in name}
    with pytest.raises(WrongManifest) as caught:
        pulled(world, tmp_path / "home")
    assert caught.value.exit_status == 5 and "digest" in caught.value.message
    after = {name: data for name, data in everything(private_home).items() if "/sojourn/" not in name}
    assert after == before and bashrc.read_text() == "mine" and not (tmp_path / "home").exists()
    folder = Path(world.ctx.store.state_dir) / "manifests"
    assert not folder.exists() or not os.listdir(folder)


def test_a_kept_manifest_lies_under_the_digest_of_its_rows_for_us_alone(world: World, tmp_path: Path) -> None:
    keeper = says(world, [planted(world, "attempts/3/a.json", b"{}")], outputs=["a.json"])
    assert pulled(world, tmp_path / "home").ok
    digest = manifest.digest_of(keeper.document)
    path = Path(world.ctx.store.state_dir) / "manifests" / digest
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert kept_manifest(world.ctx, digest)["files"] == keeper.document["files"]
    path.write_text(path.read_text().replace("a.json", "b.json"))
    assert kept_manifest(world.ctx, digest) == {} == kept_manifest(world.ctx, "../../../.bashrc")


@pytest.mark.parametrize(
    "spoil",
    [
        {"files": "x"},
        {"files": [1]},
        {"files": [{"path": "a.json"}]},
        {"missing": None},
        {"missing": [3]},
        {"earlier": {"a": 1}},
        {"gone": [{"path": "a", "bytes": -1, "sha256": ZERO}]},
        {"refused": [{"path": 1, "why": "x"}]},
        {"superseded": "many"},
        {"attempt": []},
    ],
    ids=str,
)
def test_what_is_no_manifest_is_an_error_of_that_box(world: World, tmp_path: Path, spoil: dict[str, Any]) -> None:
    keeper = says(world, [], outputs=["a.json"])
    keeper.document |= spoil
    with pytest.raises(WrongManifest):
        pulled(world, tmp_path / "home")


@pytest.mark.parametrize("key", ["path", "from", "role", "sha256", "bytes", "set", "stat"])
@pytest.mark.parametrize("value", [None, 7, "\ud800", [], {}, -1, 1.5, True])
def test_a_row_of_another_form_is_an_error_of_that_box_or_is_not_taken(
    world: World, tmp_path: Path, key: str, value: Any
) -> None:
    row = {**planted(world, "attempts/3/a.json", b"{}"), key: value}
    keeper = says(world, [], outputs=["a.json"])
    keeper.document["files"] = [row]
    try:
        keeper.document["digest"] = manifest.digest_of(keeper.document)
    except (TypeError, UnicodeEncodeError):
        pass
    if key == "stat" and value is None:
        assert pulled(world, tmp_path / "home").ok
        return
    if key == "bytes" and value == 7:  # a size that may be, and is not that of the file
        assert problems(pulled(world, tmp_path / "home")) == {"a.json": "mismatch"}
        return
    with pytest.raises(WrongManifest):
        pulled(world, tmp_path / "home")


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize(
    "name",
    [
        ".sojourn-home.json",
        ".SOJOURN-HOME.JSON",
        "out/.sojourn-home.json",
        ".sojourn-staging-digits/x",
        "sitecustomize.py",
        ".git/hooks/post-checkout",
        "OUT/a.json",
        "out",
        "out/a.json.unproven",
        "out/a.json@attempt-1",
        "out/a.json/b",
        f"out/{'x' * 260}",
        "logs/../a",
        "out/a.json/",
    ],
)
@pytest.mark.parametrize("role", ["output", "log", "checkpoint", "scratch"])
def test_a_file_that_nothing_of_the_job_names_or_that_is_named_like_ours_is_refused(
    world: World, tmp_path: Path, name: str, role: str
) -> None:
    good = planted(world, "attempts/3/out/a.json", b"{}")
    evil = {**planted(world, "attempts/3/evil", b'{"digits": {"train.py": "0"}}'), "path": name, "role": role}
    says(world, [good, {**evil, "set": name} if role == "checkpoint" else evil], outputs=["out/*", "[.]sojourn-*"])
    home = tmp_path / "home"
    answer = pulled(world, home)
    assert answer.exit_status == 1 and list(problems(answer)) == [name]
    assert everything(home) == {"out/a.json": b"{}"}
    assert not [remote for remote, _ in world.transport.asked if remote.endswith("evil")]
    assert [receipt.path for receipt in world.record().receipts] == ["out/a.json"] and not world.record().is_home


def test_names_with_blanks_and_controls_come_home_where_an_output_covers_them(world: World, tmp_path: Path) -> None:
    name = "out/a b\n\x1b[2J'\"`$(id) é.json"
    says(world, [planted(world, f"attempts/3/{name}", b"{}")], outputs=["out/*"])
    assert pulled(world, tmp_path / "home").ok and everything(tmp_path / "home") == {name: b"{}"}


def test_a_roster_that_a_box_left_in_the_folder_makes_nothing_ours(world: World, tmp_path: Path) -> None:
    """The attack: a first pull brought a roster that says train.py is ours; the next pull overwrote the user's own."""
    says(world, [planted(world, "attempts/3/train.py", b"evil")], outputs=["*.py"])
    home = tmp_path / "home"
    home.mkdir()
    (home / "train.py").write_text("mine")
    (home / ".sojourn-home.json").write_text('{"digits": {"train.py": "%s"}}' % ZERO)
    with pytest.raises(NotOurs):
        pulled(world, home)
    assert everything(home) == {"train.py": b"mine"}


def test_never_more_bytes_are_asked_for_or_kept_than_the_row_says(world: World, tmp_path: Path) -> None:
    row = planted(world, "attempts/3/big.bin", b"x" * 100_000)
    says(world, [row], outputs=["big.bin"])
    with (world.root() / "attempts/3/big.bin").open("ab") as file:
        file.write(b"y" * 5_000_000)
    sizes = []
    world.transport.spoil = lambda remote, local: sizes.append(os.path.getsize(local))
    answer = pulled(world, tmp_path / "home")
    assert sizes == [100_000] and world.transport.asked == [(f"{world.root()}/attempts/3/big.bin", 100_000)]
    assert answer.ok and (tmp_path / "home/big.bin").stat().st_size == 100_000  # the bytes that the box has sworn to


def test_a_transfer_that_was_cut_asks_only_for_what_is_lacking(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.ctx, "sleep", world.later)
    says(world, [planted(world, "attempts/3/big.bin", b"x" * 100_000)], outputs=["big.bin"])
    world.transport.get_limit_bytes = 30_000
    with pytest.raises(Unreachable):
        pulled(world, tmp_path / "home")
    world.transport.get_limit_bytes = None
    world.transport.asked.clear()
    assert pulled(world, tmp_path / "home").ok
    assert world.transport.asked == [(f"{world.root()}/attempts/3/big.bin", 70_000)]


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("what", ["pipe", "link", "device-link"])
@pytest.mark.parametrize("where", ["home", "staged", "staging"])
def test_a_pipe_or_a_link_where_a_file_of_ours_should_be_is_never_read_and_is_replaced(
    world: World, tmp_path: Path, what: str, where: str
) -> None:
    row = planted(world, "attempts/3/a.json", b'{"a": 1}')
    says(world, [row], outputs=["a.json"])
    home = tmp_path / "home"
    assert pulled(world, home).ok
    place = home / "a.json"
    place.unlink()
    (tmp_path / "theirs").mkdir()
    if where != "home":
        place = home / ".sojourn-staging-digits"
    if where == "staged":
        place.mkdir()
        of_it = fetching.Home("digits", str(home), None)  # type: ignore[arg-type]
        place = Path(of_it.staged(row))
    if what == "pipe" and where != "staging":
        os.mkfifo(place)
    else:
        place.symlink_to("/dev/zero" if what == "device-link" and where != "staging" else tmp_path / "theirs")
    answer = pulled(world, home)
    assert answer.ok and not (home / "a.json").is_symlink() and (home / "a.json").read_bytes() == b'{"a": 1}'
    assert os.listdir(tmp_path / "theirs") == [] and sorted(os.listdir(home)) == ["a.json"]


def test_a_pipe_where_the_file_would_come_is_not_overwritten_where_it_is_not_ours(world: World, tmp_path: Path) -> None:
    says(world, [planted(world, "attempts/3/a.json", b"{}")], outputs=["a.json"])
    (tmp_path / "home").mkdir()
    os.mkfifo(tmp_path / "home/a.json")
    with pytest.raises(NotOurs):
        pulled(world, tmp_path / "home")
    assert stat.S_ISFIFO(os.lstat(tmp_path / "home/a.json").st_mode)


def test_a_users_own_file_that_is_named_unproven_is_not_overwritten(world: World, tmp_path: Path) -> None:
    says(world, [planted(world, "attempts/3/a.json", b"{broken")], outputs=["a.json"])
    (tmp_path / "home").mkdir()
    (tmp_path / "home/a.json.unproven").write_text("mine")
    with pytest.raises(NotOurs):
        pulled(world, tmp_path / "home")
    assert everything(tmp_path / "home") == {"a.json.unproven": b"mine"}


def test_a_box_that_dribbles_is_given_up(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    says(world, [planted(world, "attempts/3/a.bin", b"x" * 4096)], outputs=["a.bin"])
    calls: list[int] = []

    def dribble(remote: str, local: str, *, offset: int = 0, **how: object) -> NoAnswer:
        calls.append(offset)
        with open(local, "ab") as f:
            f.write(b"x")
        return NoAnswer(sent=True, kind="timeout")

    monkeypatch.setattr(world.transport, "get", dribble)
    monkeypatch.setattr(world.ctx, "sleep", world.later)
    with pytest.raises(Unreachable):
        pulled(world, tmp_path / "home")
    assert calls == list(range(len(calls))) and 3 <= len(calls) <= 20
    assert world.later_s <= GIVE_UP_S
