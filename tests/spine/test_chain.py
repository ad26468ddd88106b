"""The whole chain through the real command line, on this machine: run, see, bring home, prove."""

import hashlib
import json

import pytest

from tests.spine.conftest import PATIENT, Desk


def result(epochs: int) -> str:
    """What an uninterrupted training of so many epochs ends with."""
    value = "seed"
    for epoch in range(epochs):
        value = hashlib.sha256(f"{value} {epoch}".encode()).hexdigest()
    return value


def test_a_run_is_started_watched_brought_home_and_proven(desk: Desk) -> None:
    started = desk("run", "--json").json
    assert (started["id"], started["attempt"], started["did"]) == ("digits", 1, "launched")
    looks = [json.loads(line) for line in desk("watch", "digits", "--json", "--every", "0.2s", rc=110).out.splitlines()]
    assert looks[-1]["is_last"] and looks[-1]["runs"][0]["state"] == "succeeded"
    assert "done" in desk("logs", "digits").out

    pulled = desk("pull", "digits", "--to", "results", "--json").json
    assert pulled["ok"] and pulled["receipts"] == 2 and not pulled["missing"]
    assert {a["path"]: "load" in a["proved"] for a in pulled["artifacts"]} == {
        "checkpoints/best.pt": True,
        "result.json": True,
    }
    home = desk.project / "results"
    assert json.loads((home / "result.json").read_text())["value"] == result(3)
    assert (home / "checkpoints/best.pt").stat().st_size > 0
    row = desk.row()
    assert (row["owed"], row["home"], row["is_home"], row["meter"]) == (2, 2, True, "free")
    desk("status", "digits", "--exit-status", rc=0)
    desk("verify", "results")


@pytest.mark.campaign
def test_the_identical_run_does_nothing_while_it_lives_and_after_it_succeeded(slow: Desk) -> None:
    first = slow("run", "--json").json
    again = slow("run", "--json").json
    assert (first["did"], again["did"], again["state"]) == ("launched", "nothing", "running")
    assert slow.attempts() == [1]
    slow.job()
    slow("run", rc=2)
    slow("run", "--name", "quick")
    slow.final("quick")
    done = slow("run", "--name", "quick", "--json").json
    assert (done["did"], done["state"]) == ("nothing", "succeeded")


def test_a_process_that_dies_at_once_is_told_with_the_end_of_its_log(desk: Desk) -> None:
    desk.job("echo about to fail; python -c 'import no_such_module'")
    said = desk("run", "--json", rc=1, program=PATIENT).json
    assert said["state"] == "failed" and "no_such_module" in said["log_tail"]
    assert desk.row()["state"] == "failed"
    desk("status", "digits", "--exit-status", rc=100)


@pytest.mark.campaign
def test_what_differs_is_named_down_to_the_file(desk: Desk) -> None:
    desk("run")
    desk.final()
    (desk.project / "train.py").write_text((desk.project / "train.py").read_text() + "\n# edited\n")
    said = desk("run", "--json", rc=2).error
    assert said["code"] == "name-taken" and "code (train.py)" in said["message"]
    assert said["next"] == "sojourn run --new"
    other = desk("run", "sojourn.yaml", "--env", "A=b c", "--json", rc=2).error
    assert other["next"] == "sojourn run --new sojourn.yaml --env 'A=b c'"
    planned = desk("plan", "--json", rc=2).json
    assert planned["decision"]["do"] == "refuse" and planned["decision"]["differs"] == ["code (train.py)"]
    started = desk("run", "--new", "--json").json
    assert (started["id"], started["attempt"]) == ("digits-2", 1)
    again = desk("run", "--new", "--json").json
    assert (again["id"], again["attempt"]) == ("digits-2", 1), "the identical job is the same run"


@pytest.mark.campaign
def test_what_is_no_code_makes_no_other_job(desk: Desk) -> None:
    desk.job(outputs=["result.json"])
    desk("run")
    desk.final()
    desk("pull", "digits", "--to", "results")
    job = desk.project / "sojourn.yaml"
    (desk.project / "other.yaml").write_text(job.read_text().replace("digits", "other") + "# a second job\n")
    job.write_text(job.read_text() + "# a remark\n")
    assert desk("run", "--json").json["did"] == "nothing"
    assert not (desk.root() / "attempts/1/sojourn.yaml").exists()
    config = desk.project / "config.yaml"
    config.write_text("lr: 0.1\nrun: 3\n")
    assert "code (config.yaml)" in desk("run", "--json", rc=2).error["message"]


@pytest.mark.campaign
def test_plan_says_what_run_would_do_and_starts_nothing(desk: Desk) -> None:
    planned = desk("plan", "--json").json
    assert planned["decision"]["do"] == "new"
    assert planned["push"]["files"] == 1 and planned["push"]["new_bytes"] == planned["push"]["bytes"] > 0
    assert planned["disk"]["needed_bytes"] < planned["disk"]["free_bytes"]
    assert planned["survival"]["survives"] is True and planned["outputs"] == ["result.json", "checkpoints/best.pt"]
    assert not (desk.base / "runs").exists() and not (desk.state / "journal.jsonl").exists()
    desk("run")
    assert desk("run", "--dry-run", "--json").json["identity"] == planned["identity"]


@pytest.mark.campaign
def test_follow_shows_the_log_and_ends_with_the_run(desk: Desk) -> None:
    said = desk("run", "-f")
    assert "done" in said.out and "succeeded" in said.out
    desk.job("python -c 'print(1); raise SystemExit(3)'", name="bad")
    desk("run", "-f", rc=1)


@pytest.mark.campaign
def test_parameters_reach_the_process_and_are_part_of_what_the_run_is(desk: Desk) -> None:
    desk.job("echo lr=$LR ${LR}", envs={"LR": "0.1"}, outputs=[])
    desk("run", "--env", "LR=0.3")
    desk.final()
    assert desk("logs", "digits").out.splitlines()[-1] == "lr=0.3 0.3"
    assert "envs" in desk("run", "--json", rc=2).error["message"]


@pytest.mark.campaign
def test_a_running_run_can_be_pulled_for_a_look_that_clears_nothing(slow: Desk) -> None:
    slow("run")
    slow.until(lambda row: (slow.root() / "checkpoints/best.pt").exists())
    looked = slow("pull", "digits", "--json", rc=None).json
    assert looked["receipts"] == 0 and "result.json" in looked["missing"]
    assert not slow.journal("pulled")


@pytest.mark.campaign
def test_a_script_that_was_edited_on_windows_runs_and_is_told_of(desk: Desk) -> None:
    (desk.project / "go.sh").write_bytes(b"set -e\r\ncd .\r\nexec python train.py 2 0.01\r\n")
    desk.job("bash go.sh")
    assert any("go.sh is pushed with Unix line endings" in remark for remark in desk("plan", "--json").json["remarks"])
    said = desk("run")
    assert "go.sh is pushed with Unix line endings" in " ".join((said.out + said.err).split())
    assert desk.final()["state"] == "succeeded"


@pytest.mark.campaign
def test_status_shows_only_what_is_asked_for_and_cuts_no_name_in_a_pipe(desk: Desk) -> None:
    name = "a-name-of-sixty-three-characters-" + "x" * 30
    desk.job("true", name=name)
    desk("run")
    desk.final(name)
    desk.job("exit 3", name="bad")
    desk("run", rc=None)
    desk.final("bad")
    assert name in desk("status").out
    said = desk("status", "--state", "failed", "--json").json["runs"]
    assert [row["id"] for row in said] == ["bad"]
    assert desk("status", "--site", "elsewhere", "--json").json["runs"] == []
    assert (
        len(desk("status", "--site", "local", "--state", "succeeded", "--state", "failed", "--json").json["runs"]) == 2
    )
    assert "is no state" in desk("status", "--state", "fine", rc=2).err


@pytest.mark.campaign
def test_a_run_after_one_that_has_succeeded_starts_at_once(desk: Desk) -> None:
    desk.job("true", name="first", outputs=[])
    desk("run")
    desk.job("true", name="second", outputs=[], after=["first"])
    desk.final("first")
    assert desk("run", "--json").json["did"] == "launched"
    desk.job("sleep 100", name="third", outputs=[], after=["fourth"])
    desk("run", rc=2)


@pytest.mark.campaign
def test_a_command_runs_without_a_job_file(desk: Desk) -> None:
    (desk.project / "sojourn.yaml").unlink(missing_ok=True)
    (desk.project / "fit it.py").write_text("import numpy as np, sys\nnp.savez('w.npz', a=1)\nprint(sys.argv[1:])\n")
    said = desk("plan", "--name", "fit", "--json", "--", "python3", "fit it.py", "--lr", "it's 1").json
    assert said["next"] == "sojourn run --name fit -- python3 'fit it.py' --lr 'it'\"'\"'s 1'"
    desk("run", "--name", "fit", "--", "python3", "fit it.py", "--lr", "it's 1")
    assert desk.final("fit")["state"] == "succeeded"
    assert '["--lr", "it\'s 1"]' in desk.log("fit").replace("['--lr', \"it's 1\"]", '["--lr", "it\'s 1"]')
    assert desk("pull", "fit", "--to", "home", "--json").json["receipts"] == 0
    assert "give only one of them" in desk("run", "job.yaml", "--", "true", rc=2).err
    assert "there is no command after --" in desk("run", "--", rc=2).err


@pytest.mark.campaign
def test_a_command_gets_what_init_would_propose(desk: Desk) -> None:
    (desk.project / "fit.py").write_text("import numpy as np\nnp.savez('w.npz', a=1)\n")
    desk("run", "--name", "fit", "--", "python3", "fit.py")
    desk.final("fit")
    assert desk("pull", "fit", "--to", "home", "--json").json["receipts"] == 1
    assert json.loads((desk.root("fit") / "run.json").read_text())["persist"] == ["w.npz"]


@pytest.mark.campaign
def test_a_command_sees_what_the_training_sees(desk: Desk) -> None:
    desk.job("echo mine > note.txt; export INNER=1; sleep 300", envs={"LR": "0.3"}, outputs=[])
    desk("run", TOKEN="t0p-s3cret")
    said = desk("exec", "digits", "--", "sh", "-c", "cat note.txt; echo $LR $SOJOURN_ATTEMPT; exit 7", rc=7)
    assert said.out == "mine\n0.3 1\n"
    assert desk("exec", "digits", "--", "pwd").out.strip() == str(desk.root() / "attempts/1")
    desk("exec", "digits", "--", "no-such-program", rc=127)
    desk("exec", "digits", rc=2)
    desk("exec", "nobody", "--", "true", rc=2)
    desk.kill_training()
    desk.final()
    assert desk("exec", "digits", "--", "sh", "-c", "cat note.txt; echo $LR").out == "mine\n0.3\n", "after its end too"
    assert desk("ssh", "digits", SHELL="/bin/true").out == ""


@pytest.mark.campaign
def test_plan_and_smoke_take_a_sweep_and_its_cells_lead_to_the_sweep(desk: Desk) -> None:
    sweep = {"matrix": {"lr": ["0.1", "0.2"]}}
    desk.job("echo ${lr} > lr.txt", name="abl", outputs=["lr.txt"], smoke="echo smoke ${lr}", sweep=sweep)
    assert "smoke 0.1" in desk("smoke").out
    planned = desk("plan", "--json").json
    assert planned["cells"] == 2, planned
    assert not (desk.state / "journal.jsonl").exists()
    desk("sweep")
    assert "sojourn pull abl\n" in desk("watch", "abl", rc=None).out
