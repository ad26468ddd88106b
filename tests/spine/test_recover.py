"""The records are lost, or another machine takes over: `recover` rebuilds them from the box, and all goes on."""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.spine.conftest import Desk
from tests.spine.test_chain import result


def lose(desk: Desk) -> None:
    """The state folder is deleted."""
    shutil.rmtree(desk.state)


@pytest.fixture
def second(desk: Desk, tmp_path: Path) -> Desk:
    """Another client of the same box: its own records, the same project and base."""
    other = object.__new__(Desk)
    other.__dict__.update(vars(desk), state=tmp_path / "second/sojourn")
    other.env = {**desk.env, "XDG_STATE_HOME": str(tmp_path / "second")}
    return other


def test_the_state_is_deleted_in_the_middle_of_a_run_and_the_run_comes_home(desk: Desk) -> None:
    desk.gated()
    desk("run")
    lose(desk)
    assert desk("status", "--json").json["runs"] == []
    back = desk("recover", "local", "--json").json
    assert [(r["id"], r["did"], r["attempt"], r["state"]) for r in back["runs"]] == [
        ("digits", "recovered", 1, "running")
    ]
    assert back["lease"] == "local"
    assert desk("run", "--json").json["did"] == "nothing"  # the identical command still knows its run
    desk.gate.touch()
    desk.final()
    assert desk("pull", "digits", "--to", "home", "--json").json["receipts"] == 2
    assert json.loads((desk.project / "home/result.json").read_text())["value"] == result(8)
    assert desk("down", "digits", "--confirm", "local", "--json").json["released"]
    assert desk.attempts() == [1]


@pytest.mark.campaign
def test_stop_and_resume_work_after_it_and_training_goes_on(desk: Desk) -> None:
    desk.gated()
    desk("run")
    lose(desk)
    desk("recover", "local")
    desk("stop", "digits", "--confirm", "digits")
    lose(desk)
    assert desk("recover", "local", "--json").json["runs"][0]["state"] == "cancelled"
    assert desk("resume", "digits", "--json").json["attempt"] == 2
    assert desk.attempts() == [1, 2]
    desk("stop", "digits", "--confirm", "digits")


@pytest.mark.campaign
def test_what_is_known_is_left_alone_and_twice_is_once(desk: Desk) -> None:
    desk("run")
    desk.final()
    desk("pull")
    before = (desk.state / "journal.jsonl").read_bytes()
    again = desk("recover", "local", "--json").json
    assert [r["did"] for r in again["runs"]] == ["known"] and desk.row()["is_home"]
    assert (desk.state / "journal.jsonl").read_bytes() == before
    lose(desk)
    assert [desk("recover", "local", "--json").json["runs"][0]["did"] for _ in (1, 2)] == ["recovered", "known"]
    assert len(desk.journal("planned")) == len(desk.journal("launching")) == len(desk.journal("leased")) == 1
    assert not desk.row()["is_home"]  # receipts are of this machine alone: pull makes them anew
    again = desk("pull", "digits", "--json").json
    assert again["receipts"] == 2 and again["moved"]["files"] == 0  # what is home and equal is not moved again
    assert desk.row()["is_home"]


@pytest.mark.campaign
def test_cut_short_at_any_record_it_is_made_good_by_the_next(desk: Desk) -> None:
    desk("run")
    desk("run", "--name", "other")
    desk.final("other"), desk.final()
    lose(desk)
    desk("recover", "local")
    whole = (desk.state / "journal.jsonl").read_text().splitlines(keepends=True)
    kinds = [json.loads(line)["kind"] for line in whole]
    for count in range(len(whole)):
        shutil.rmtree(desk.state)
        desk.state.mkdir()
        (desk.state / "journal.jsonl").write_text("".join(whole[:count]) + '{"v": 1, "ki')
        desk("recover", "local")
        rows = {row["id"]: row for row in desk("status", "--json").json["runs"]}
        assert {row["state"] for row in rows.values()} == {"succeeded"} and set(rows) == {"digits", "other"}, count
        records = [json.loads(line) for line in (desk.state / "journal.jsonl").read_text().splitlines() if "}" in line]
        assert [r["kind"] for r in records].count("leased") == kinds.count("leased") == 1


@pytest.mark.campaign
def test_a_second_client_takes_over_and_both_see_the_same(slow: Desk, second: Desk) -> None:
    slow("run")
    assert second("recover", "local", "--json").json["runs"][0]["did"] == "recovered"
    assert second.row()["state"] == slow.row()["state"] == "running"
    second("stop", "digits", "--confirm", "digits")
    assert slow.row()["state"] == "cancelled"
    assert second("resume", "digits", "--json").json["attempt"] == 2
    assert (
        slow("recover", "local", "--json").json["runs"][0]["did"] == "recovered"
    )  # it had seen the end, and asked no more
    row = slow.row()
    assert (row["state"], row["attempt"]) == ("running", 2)
    assert len(slow.journal("planned")) == 1
    slow("stop", "digits", "--confirm", "digits")


@pytest.mark.campaign
def test_another_run_of_the_same_name_is_named_and_left(desk: Desk, second: Desk) -> None:
    desk("run")
    desk.final()
    shutil.rmtree(desk.state)
    desk.env["XDG_DATA_HOME"] = str(desk.home / "elsewhere")
    desk.job("python train.py 4 0.02")
    desk("run")
    desk.final()
    del desk.env["XDG_DATA_HOME"]
    left = desk("recover", "local", "--json", rc=1).json["runs"][0]
    assert left["did"] == "other" and "another run of this name" in left["why"]
    assert desk.journal("planned")[-1]["spec"]["argv"][-1] == "python train.py 4 0.02"


@pytest.mark.campaign
@pytest.mark.parametrize("damage", ["torn", "another", "none"])
def test_a_root_that_cannot_be_read_is_named_and_the_others_are_taken(desk: Desk, damage: str) -> None:
    desk("run")
    desk.final()
    bad = desk.base / "runs/bad"
    shutil.copytree(desk.root(), bad)
    texts = {"torn": '{"run": "ba', "another": (desk.root() / "run.json").read_text(), "none": ""}
    (bad / "run.json").unlink()
    if texts[damage]:
        (bad / "run.json").write_text(texts[damage])
    lose(desk)
    found = {r["id"]: r for r in desk("recover", "local", "--json", rc=0 if damage == "none" else 1).json["runs"]}
    assert found["digits"]["did"] == "recovered"
    assert damage == "none" or (found["bad"]["did"] == "unreadable" and "run.json" in found["bad"]["why"])
    assert [row["id"] for row in desk("status", "--json").json["runs"]] == ["digits"]


def test_an_empty_box_is_said_in_one_line(desk: Desk) -> None:
    said = desk("recover", "local")
    assert said.out.splitlines() == ["no sojourn runs on local", "next     sojourn run"]
    assert not os.path.exists(desk.state / "journal.jsonl")


@pytest.mark.campaign
def test_a_run_that_died_unseen_is_recovered_with_its_end(slow: Desk) -> None:
    slow("run")
    slow.kill(slow.keeper())
    slow.kill_training()
    lose(slow)
    assert slow("recover", "local", "--json").json["runs"][0]["state"] == "killed"
    slow.job()
    assert slow("resume", "digits", "--json").json["attempt"] == 2
    slow("stop", "digits", "--confirm", "digits")


def damage(desk: Desk, *kinds: str) -> None:
    """Flip a bit in the first line of each of these kinds: in the hour of its time, so that it is still JSON."""
    path = desk.state / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    for kind in kinds:
        at = next(i for i, line in enumerate(lines) if b'"kind":"%s"' % kind.encode() in line)
        place = lines[at].index(b'"at":"') + len('"at":"2026-11-22T1')
        lines[at] = lines[at][:place] + bytes([lines[at][place] ^ 1]) + lines[at][place + 1 :]
    path.write_bytes(b"".join(lines))


@pytest.mark.campaign
def test_a_flipped_bit_is_said_by_every_command_until_recover_has_taken_in_what_was_lost(desk: Desk) -> None:
    desk("run")
    desk.final()
    damage(desk, "planned", "leased")
    lost = desk("status", "--json")
    assert lost.json["runs"] == []
    for words in (("status",), ("leases",), ("cost",)):
        told = [line for line in desk(*words).err.splitlines() if "of the journal" in line]
        assert len(told) == 1 and "sojourn recover SITE" in told[0], words
    back = desk("recover", "local", "--json").json
    assert [run["did"] for run in back["runs"]] == ["recovered"] and back["lease"] == "local"
    quiet = desk("status", "--json")
    assert quiet.err == "" and [run["id"] for run in quiet.json["runs"]] == ["digits"]
    assert desk("pull", "digits", "--json").json["receipts"] == 2


@pytest.mark.campaign
def test_a_lease_whose_record_was_lost_is_taken_in_again_with_its_runs(desk: Desk) -> None:
    desk("run")
    desk.final()
    desk("pull")
    damage(desk, "leased")
    assert desk("leases", "--json").json["leases"] == []
    assert desk("recover", "local", "--json").json["lease"] == "local"
    assert desk.row()["lease"] == "local" and desk.row()["is_home"]
    assert desk("down", "digits", "--confirm", "local", "--json").json["released"]


@pytest.mark.campaign
def test_for_a_box_that_is_gone_the_gap_is_accepted_by_the_exact_name_of_its_lease(desk: Desk) -> None:
    desk("run")
    desk.final()
    damage(desk, "launching")
    wrong = desk("recover", "local", "--accept-gap", "loca", "--json", rc=2)
    assert wrong.error["code"] == "not-found"
    said = desk("recover", "local", "--accept-gap", "local", "--json").json
    assert any("given up" in remark for remark in said["remarks"]) and desk.journal("gap-closed")[0]["lease"] == "local"
    again = desk("recover", "local", "--accept-gap", "local", "--json").json
    assert "no damage to the journal holds" in again["remarks"][0] and len(desk.journal("gap-closed")) == 1
    assert desk("status").err == ""
