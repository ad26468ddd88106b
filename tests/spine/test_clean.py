"""`clean`: it lists what is there; it deletes only what is home, given up, or unused; never what lives."""

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from tests.spine.conftest import PATIENT, Desk
from tests.violation import held

OLD_S = 7200


def listed(desk: Desk) -> dict[str, dict[str, Any]]:
    """Everything on the box: kind/name -> what is said of it."""
    return {f"{one['kind']}/{one['name']}": one for one in desk("clean", "local", "--json").json["left"]}


def age(desk: Desk) -> None:
    """Let everything shared have been there for hours."""
    then = time.time() - OLD_S
    for kind in ("snapshots", "envs", "keepers", "train", "staging"):
        for path in (desk.base / kind).iterdir() if (desk.base / kind).exists() else ():
            os.utime(path, (then, then))


@pytest.fixture
def done(desk: Desk) -> Desk:
    """A run that has succeeded and is not home."""
    desk("run")
    desk.final()
    return desk


def refused(desk: Desk, *words: str, rc: int = 4) -> str:
    said = desk("clean", "local", *words, "--json", rc=rc)
    assert (desk.root() / "run.json").exists() and not desk.journal("cleaned")
    return said.err


def test_it_lists_everything_with_sizes_and_removes_nothing(done: Desk) -> None:
    before = sorted(str(path) for path in done.base.rglob("*"))
    found = listed(done)
    kinds = [name.split("/")[0] for name in found]
    assert sorted(set(kinds)) == ["keepers", "runs", "snapshots", "train"]
    run = found["runs/digits"]
    assert run["home"] == "not home" and run["keep"] is None
    inodes = {path.lstat().st_ino: path.lstat().st_blocks for path in [done.root(), *done.root().rglob("*")]}
    assert (run["bytes"], run["inodes"]) == (512 * sum(inodes.values()), len(inodes))  # a link costs nothing
    assert all(one["used_by"] == ["digits"] for name, one in found.items() if not name.startswith("runs/"))
    assert [p for p in before if not p.endswith(".lock")] == sorted(
        str(p) for p in done.base.rglob("*") if not str(p).endswith(".lock")
    )
    screen = done("clean", "local").out
    assert "runs/digits" in screen and "total" in screen and "used by digits" in screen


def test_a_run_that_is_not_home_is_refused_with_the_list(done: Desk) -> None:
    said = refused(done, "digits", "--confirm", "digits")
    assert "digits: result.json is not home" in said and "sojourn pull digits" in said


@pytest.mark.campaign
def test_a_run_that_is_home_goes_by_its_name_alone(done: Desk) -> None:
    done("pull")
    for words in ((), ("--confirm", "digit"), ("--confirm", "local"), ("-y",)):
        assert "sojourn clean local digits --confirm digits" in refused(done, "digits", *words)
    answer = done("clean", "local", "digits", "--confirm", "digits", "--json").json
    assert [one["name"] for one in answer["removed"]] == ["digits"] and answer["removed"][0]["bytes"] > 0
    assert list((done.base / "runs").iterdir()) == []
    assert [r["kind"] for r in done.journal()][-2:] == ["cleaning", "cleaned"]
    row = done.row()
    assert row["state"] == "succeeded" and row["is_home"]
    again = done("clean", "local", "digits", "--confirm", "digits", "--json").json
    assert again["did"] == "removed" and len(done.journal("cleaned")) == 1
    assert done("run", "--json").json["did"] == "nothing"
    done("down", "digits", "--confirm", "local")


@pytest.mark.campaign
def test_outputs_changed_on_the_box_or_at_home_stand_in_the_way(done: Desk) -> None:
    done("pull", "digits", "--to", "home")
    mine, theirs = done.project / "home/result.json", done.root() / "attempts/1/result.json"
    good = mine.read_bytes()
    mine.write_bytes(good + b" ")
    assert "is changed at" in refused(done, "digits", "--confirm", "digits")
    mine.write_bytes(good)
    theirs.write_bytes(good + b" ")
    assert "changed on the box" in refused(done, "digits", "--confirm", "digits")


def test_what_lies_in_the_runs_own_folder_is_not_home(done: Desk) -> None:
    inside = done.root() / "results"
    assert done("pull", "digits", "--to", str(inside), "--json", rc=2).error["code"] == "home-in-run"
    (done.home / "link").symlink_to(done.root())
    assert done("pull", "digits", "--to", str(done.home / "link/in"), "--json", rc=2).error["code"] == "home-in-run"
    done("pull", "digits", "--to", "home")
    shutil.move(done.project / "home", inside)
    (done.project / "home").symlink_to(inside)
    said = refused(done, "digits", "--confirm", "digits")
    held("lies inside the run's own folder" in said and (inside / "result.json").exists(), said)


@pytest.mark.campaign
def test_what_is_given_up_by_name_goes_and_is_journaled_first(done: Desk) -> None:
    said = refused(done, "--abandon", "digits")
    assert "GIVEN UP: result.json is not home" in said
    assert "sojourn clean local --abandon digits --confirm digits" in said
    answer = done("clean", "local", "--abandon", "digits", "--confirm", "digits", "--json").json
    assert answer["abandoned"] == ["digits"] and not done.root().exists()
    assert [r["kind"] for r in done.journal()][-3:] == ["abandoned", "cleaning", "cleaned"]


@pytest.mark.campaign
@pytest.mark.parametrize("words", [("digits",), ("--abandon", "digits")])
def test_a_living_run_is_never_removed(slow: Desk, words: tuple[str, ...]) -> None:
    slow("run")
    assert listed(slow)["runs/digits"]["keep"]
    assert "is running" in refused(slow, *words, "--confirm", "digits")
    slow.kill(slow.keeper())
    assert "is running" in refused(slow, "--abandon", "digits", "--confirm", "digits")
    slow("stop", "digits", "--confirm", "digits")


@pytest.mark.campaign
def test_a_run_whose_next_attempt_was_asked_for_is_not_removed(desk: Desk) -> None:
    """One that has succeeded gets no other attempt, whatever was asked."""
    desk.job("exit 3", outputs=None)
    desk("run", rc=1)
    desk.final()
    desk("pull")
    want = desk.root() / "want.json"
    want.write_text(json.dumps({**json.loads(want.read_text()), "attempt": 2}))
    assert "attempt 2 was requested" in refused(desk, "digits", "--confirm", "digits", rc=5)


@pytest.mark.campaign
def test_another_run_under_the_name_is_left(done: Desk) -> None:
    done("pull")
    spec = json.loads((done.root() / "run.json").read_text())
    (done.root() / "run.json").write_text(json.dumps({**spec, "identity": "f" * 64}))
    assert "another one" in refused(done, "digits", "--confirm", "digits", rc=5)


@pytest.mark.campaign
def test_a_run_that_this_machine_does_not_know_is_listed_and_not_removed(done: Desk) -> None:
    shutil.rmtree(done.state)
    assert listed(done)["runs/digits"]["home"] == "unknown here"
    assert "sojourn recover local" in done("clean", "local").out
    assert done("clean", "local", "digits", "--confirm", "digits", "--json", rc=2).error["code"] == "not-found"


@pytest.mark.campaign
def test_a_hook_that_says_no_keeps_it(desk: Desk) -> None:
    desk.job(hooks={"before_down": "echo not yet; false"})
    desk("run")
    desk.final()
    desk("pull")
    assert "not yet" in refused(desk, "digits", "--confirm", "digits")


@pytest.mark.campaign
def test_what_a_run_refers_to_stays_and_the_rest_goes_by_the_sites_name(done: Desk) -> None:
    done("pull")
    age(done)
    kept = {name for name in listed(done) if not name.startswith("runs/")}
    done("clean", "local", "--unused", "--confirm", "local")
    assert {name for name in listed(done) if not name.startswith("runs/")} == kept
    done("clean", "local", "digits", "--confirm", "digits")
    assert "put here" not in str([one["keep"] for one in listed(done).values()])
    assert "sojourn clean local --unused --confirm local" in done("clean", "local", "--unused", "--json", rc=4).err
    answer = done("clean", "local", "--unused", "--confirm", "local", "--json").json
    assert sorted({one["kind"] for one in answer["removed"]}) == ["snapshots", "train"]
    left = listed(done)
    assert [name.split("/")[0] for name in left] == ["keepers"] * 2  # the one that answers, and its byte code
    done.job("python train.py 2 0.01")
    assert done("run", "--name", "next", "--json").json["did"] == "launched"  # what it needs is sent again
    done.final("next")


@pytest.mark.campaign
def test_what_was_just_sent_is_not_unused(done: Desk) -> None:
    done("pull")
    done("clean", "local", "digits", "--confirm", "digits")
    keeps = [one["keep"] for one in listed(done).values() if one["kind"] == "train"]
    assert keeps and all(keep.startswith("put here ") for keep in keeps)
    done("clean", "local", "--unused", "--confirm", "local")
    assert (done.base / "train").iterdir().__next__().exists()


@pytest.mark.campaign
def test_environments_of_setup_are_counted_and_removed_when_unused(desk: Desk) -> None:
    desk.job(setup="true")
    desk("run")
    desk.final()
    desk("pull")
    age(desk)
    env = next(one for one in listed(desk).values() if one["kind"] == "envs")
    assert env["used_by"] == ["digits"] and env["inodes"] > 5
    desk("clean", "local", "digits", "--confirm", "digits")
    answer = desk("clean", "local", "--unused", "--confirm", "local", "--json").json
    assert "envs" in {one["kind"] for one in answer["removed"]} and list((desk.base / "envs").iterdir()) == []


@pytest.mark.campaign
def test_several_runs_are_asked_for_at_once_by_the_sites_name(desk: Desk) -> None:
    for name in ("one", "two"):
        desk("run", "--name", name)
        desk.final(name)
    desk("pull")
    said = desk("clean", "local", "one", "two", "--confirm", "one", "--json", rc=4)
    assert "sojourn clean local one two --confirm local" in said.err
    desk("clean", "local", "one", "two", "--confirm", "local")
    assert list((desk.base / "runs").iterdir()) == []


@pytest.mark.campaign
def test_after_a_failed_run_was_removed_its_name_says_so(desk: Desk) -> None:
    desk.job("exit 3", outputs=None)
    desk("run", rc=1, program=PATIENT)
    desk("pull", rc=None)
    desk("clean", "local", "--abandon", "digits", "--confirm", "digits")
    assert "removed from its box" in desk("run", "--json", rc=2).error["message"]
    assert "removed from its box" in desk("resume", "digits", "--json", rc=2).error["message"]


@pytest.mark.campaign
def test_a_removal_that_was_cut_short_is_made_good(done: Desk) -> None:
    done("pull")
    aside = done.base / "runs/.removed-0123"
    shutil.copytree(done.root(), aside)
    os.chmod(aside / "attempts/1", 0o500)
    journal = done.state / "journal.jsonl"
    done("clean", "local", "digits", "--confirm", "digits")
    assert list((done.base / "runs").iterdir()) == []
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[:-1]))  # removed, and our record of it lost
    (done.state / "index.sqlite").unlink()
    done("recover", "local")  # which asks the box, as the journal's lost end wants it
    done("clean", "local", "digits", "--confirm", "digits")
    assert len(done.journal("cleaned")) == 1


@pytest.mark.campaign
def test_a_root_that_is_a_symlink_is_not_followed(done: Desk, tmp_path: Path) -> None:
    done("pull")
    elsewhere = tmp_path / "elsewhere"
    done.root().rename(elsewhere)
    done.root().symlink_to(elsewhere)
    refused(done, "digits", "--confirm", "digits", rc=5)
    assert (elsewhere / "run.json").exists()


@pytest.mark.campaign
def test_secrets_left_by_a_killed_keeper_go_with_down(desk: Desk) -> None:
    desk.job('python train.py 3 0.02; echo "$KEY"', secrets=["KEY"])
    desk("run", KEY="hush-hush")
    desk.final()
    desk("pull")
    left = desk.root() / "secrets.json"
    left.write_text('{"KEY": "hush-hush"}')  # as of a keeper killed at the wrong moment
    desk("down", "digits", "--confirm", "local")
    assert not left.exists()


@pytest.mark.campaign
def test_secrets_left_by_a_killed_keeper_go_with_pull_and_the_log_comes_home(desk: Desk) -> None:
    desk.job('python train.py 3 0.02; echo "the $KEY"', secrets=["KEY"])
    desk("run", KEY="hush-hush")
    desk.final()
    (desk.root() / "secrets.json").write_text('{"KEY": "hush-hush"}')
    desk("pull", "digits", "--to", "home")
    assert "the ***KEY**" in (desk.project / "home/logs/1.log").read_text() and desk.row()["is_home"]
    assert not (desk.root() / "secrets.json").exists()
