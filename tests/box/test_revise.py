"""A run that left nothing makes room for another of its name; one that left something does not."""

import os
from pathlib import Path
from typing import Any, Dict

import pytest

from sojourn.box.run.root import Root
from tests.box.rig import Rig, found, until


def ended(rig: Rig, script: str, **spec: Any) -> Root:
    root = rig.place(script, identity="old", **spec)
    rig.finish(root)
    return root


def said(root: Root, attempt: int) -> str:
    return Path(root.log(attempt)).read_text().strip()


def asked(rig: Rig, op: str, identity: str = "old") -> Dict[str, Any]:
    return rig.call(op, run="r", identity=identity)


def test_a_run_that_left_nothing_becomes_a_revision_and_keeps_its_evidence(rig: Rig) -> None:
    root = ended(rig, "echo oops >&2; exit 3", outputs=["out.txt"])
    answer = asked(rig, "left")
    assert answer["ok"] and (answer["root"], answer["last"], answer["left"]) == ("r", 1, [])
    answer = asked(rig, "revise")
    assert answer["ok"] and (answer["root"], answer["last"]) == ("r@1", 1)
    kept = Root(os.path.join(os.path.dirname(root.path), "r@1"))
    assert found(kept, "ended")[-1]["rc"] == 3 and "oops" in said(kept, 1)
    assert not os.path.exists(root.path)
    base = rig.call("survey")["bases"][0]
    assert [run["id"] for run in base["runs"]] == ["r@1"]


def test_a_second_call_says_where_the_run_is_by_now(rig: Rig) -> None:
    ended(rig, "exit 3")
    first = asked(rig, "revise")
    for again in (asked(rig, "revise"), asked(rig, "left")):
        assert (again["root"], again["last"]) == (first["root"], 1) == ("r@1", 1)


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize(
    "script, left",
    [
        ("echo 1 > out.txt; exit 3", "attempts/1/out.txt"),
        ("mkdir run1; echo w > run1/model.pt; exit 3", "attempts/1/run1/model.pt"),
        ('echo w > "$SOJOURN_CHECKPOINT_DIR/mine.ckpt"; exit 3', "checkpoints/mine.ckpt"),
        ("mkdir -p keep; echo w > keep/last.ckpt; exit 3", "attempts/1/keep/last.ckpt"),
    ],
)
def test_a_run_that_left_something_stays(rig: Rig, script: str, left: str) -> None:
    root = ended(rig, script, outputs=["out.txt"], persist=["keep"])
    assert asked(rig, "left")["left"] == [left]
    refused = asked(rig, "revise")
    assert not refused["ok"] and (refused["code"], refused["left"]) == ("work-left", [left])
    assert os.path.isdir(root.path)


@pytest.mark.campaign
def test_a_checkpoint_that_was_pushed_with_the_code_is_nobodys_work(rig: Rig) -> None:
    code = rig.snapshot({"pretrained.pt": b"weights", "train.py": b""})
    ended(rig, "exit 3", code=code, outputs=["*.pt"])
    assert asked(rig, "left")["left"] == []
    root = ended(rig, "echo more >> pretrained.pt; exit 3", code=code, run="s")
    answer = rig.call("left", run="s", identity="old")
    assert answer["left"] == ["attempts/1/pretrained.pt"] and root.id == "s"


@pytest.mark.campaign
def test_a_run_that_lives_or_is_another_one_is_left_alone(rig: Rig) -> None:
    rig.place("true", identity="old")  # asked for, and about to start
    for op in ("left", "revise"):
        assert asked(rig, op)["code"] == "alive"
    assert asked(rig, "left", "other")["root"] == "" and asked(rig, "revise", "other")["code"] == "other-run"


@pytest.mark.campaign
def test_the_numbers_of_attempts_go_on_where_the_revision_ended(rig: Rig) -> None:
    ended(rig, "exit 3")
    asked(rig, "revise")
    refused = rig.call("place", run={"run": "r", "argv": ["true"], "identity": "new"})
    assert refused["code"] == "bad-first"
    root = rig.place("echo 2", identity="new", first=2, attempt=2)
    assert rig.finish(root)["attempt"] == 2 and os.listdir(root.attempts) == ["2"]
    asked(rig, "revise", "new")
    root = rig.place("true", identity="newer", first=3, attempt=3)
    assert rig.finish(root)["attempt"] == 3
    names = sorted(os.listdir(os.path.dirname(root.path)))
    assert names == ["r", "r@1", "r@2"]


def spec(rig: Rig, script: str, identity: str, **more: Any) -> Dict[str, Any]:
    argv = ["bash", "-eo", "pipefail", "-c", script]
    fields = {"schema": "sojourn/run/v1", "run": "r", "name": "r", "argv": argv, "outputs": [], "beat_s": 0.1}
    return {**fields, "keeper": rig.keeper.name, "identity": identity, **more}


@pytest.mark.campaign
def test_a_later_attempt_runs_other_code_and_so_do_those_after_it(rig: Rig) -> None:
    root = ended(rig, "echo first; exit 3")
    new = spec(rig, "echo second; exit 4", "new")
    assert rig.call("want", run="r", attempt=2, spec=new)["attempt"] == 2
    assert rig.finish(root)["rc"] == 4
    assert rig.call("want", run="r", attempt=3)["attempt"] == 3  # no code is named: that of the one before
    assert rig.finish(root)["rc"] == 4
    assert [said(root, n) for n in (1, 2, 3)] == ["first", "second", "second"]
    assert rig.call("since", runs={"r": 0})["runs"][0]["identity"] == "new"
    assert rig.call("place", run=new)["placed"] is False
    assert rig.call("place", run=dict(new, identity="other"))["code"] == "name-taken"


@pytest.mark.campaign
def test_other_code_replaces_what_was_asked_for_and_has_not_begun(rig: Rig) -> None:
    root = ended(rig, "echo first; exit 3")
    rig.call("want", run="r", attempt=2)
    rig.call("want", run="r", attempt=2, spec=spec(rig, "echo second", "new"))
    assert rig.finish(root)["state"] == "succeeded" and said(root, 2) == "second"


def test_other_code_that_is_no_job_or_comes_while_a_keeper_works_is_refused(rig: Rig) -> None:
    root = rig.place("sleep 60", identity="old")
    rig.supervise(root)
    until(lambda: found(root, "started"))
    assert rig.call("want", run="r", attempt=2, spec=spec(rig, "true", "new"))["code"] == "alive"
    assert rig.call("want", run="r", attempt=2, spec=spec(rig, "true", "../../new"))["code"] == "bad-spec"
    assert rig.call("want", run="r", attempt=2, spec=spec(rig, "true", "new", run="s"))["code"] == "bad-spec"


def test_what_the_code_of_any_attempt_refers_to_is_in_use(rig: Rig) -> None:
    old, new = rig.snapshot({"a": b"1"}), rig.snapshot({"a": b"2"})
    root = ended(rig, "cat a", code=old)
    rig.call("want", run="r", attempt=2, spec=spec(rig, "cat a", "new", code=new))
    rig.finish(root)
    used = {row["name"]: row["used_by"] for row in rig.call("usage")["things"] if row["kind"] == "snapshots"}
    assert used == {old: ["r"], new: ["r"]}
