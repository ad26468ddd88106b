"""Jobs with an environment, mounts and several sites, through the real command line."""

import json

import pytest

from tests.spine.conftest import PATIENT, Desk


@pytest.mark.campaign
def test_an_environment_is_made_once_for_all_runs_that_share_it(desk: Desk) -> None:
    (desk.project / "needs.txt").write_text("one\n")
    setup = 'cat needs.txt; date +%s%N > "$VIRTUAL_ENV/made"'
    job = {"setup": setup, "outputs": ["made"]}
    desk.job('cp "$VIRTUAL_ENV/made" made; python -c "import sojourn.train"', **job)
    assert desk("plan", "--json").json["setup"]["reused"] is False
    made = []
    for name in ("one", "two"):
        desk("run", "--name", name)
        assert desk.final(name)["state"] == "succeeded", desk("logs", name).out
        made.append((desk.root(name) / "attempts/1/made").read_text())
    assert made[0] == made[1]
    assert desk("plan", "--json").json["setup"]["reused"] is True
    (desk.project / "needs.txt").write_text("two\n")
    assert desk("plan", "--json").json["setup"]["reused"] is False


def test_a_setup_that_fails_is_told_as_such(desk: Desk) -> None:
    desk.job("true", setup="echo no such package >&2; exit 5")
    said = desk("run", "--json", rc=1, program=PATIENT).json
    assert said["state"] == "failed" and "setup" in said["why"]
    assert "no such package" in said["log_tail"]


def test_a_setup_that_takes_long_goes_on_without_us(desk: Desk) -> None:
    desk.job("echo ran", setup="sleep 3", outputs=[])
    started = desk("run", "--json").json
    assert started["state"] in ("starting", "succeeded", "running")
    assert desk.final()["state"] == "succeeded"


def test_mounts_are_part_of_the_run_and_pushed_by_content(desk: Desk, tmp_path) -> None:
    data = tmp_path / "data set"
    (data / "sub").mkdir(parents=True)
    (data / "sub" / "a.txt").write_text("a")
    (data / ".gitignore").write_text("")
    one = tmp_path / "one file.txt"
    one.write_text("one")
    desk.job(
        "cat input/sub/a.txt single.txt > out.txt",
        outputs=["out.txt"],
        file_mounts={
            "input": str(data),
            "single.txt": str(one),
        },
    )
    desk("run")
    assert desk.final()["state"] == "succeeded", desk("logs", "digits").out
    assert (desk.root() / "attempts/1/out.txt").read_text() == "aone"
    pushed = desk("plan", "--json").json["push"]
    assert [tree["there"] for tree in pushed["snapshots"]] == [True] * 3 and pushed["new_bytes"] == 0
    one.write_text("two")
    assert "file_mounts" in desk("run", "--json", rc=2).error["message"]


@pytest.mark.campaign
def test_the_first_candidate_that_answers_and_has_what_is_needed_is_taken(desk: Desk, tmp_path) -> None:
    settings = desk.home / ".config/sojourn/settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'[sites.second]\nbase = "{tmp_path}/second"\n')
    desk.job("true", candidates=["ssh:nobody@127.0.0.1:1", "second", "local"], outputs=[])
    assert desk("run", "--json").json["site"] == "second"
    desk.final()
    assert desk("run", "--json").json["did"] == "nothing"
    assert desk.journal("planned")[0]["site"]["name"] == "second"


def test_a_run_is_the_same_run_on_every_site(desk: Desk, tmp_path) -> None:
    settings = desk.home / ".config/sojourn/settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'[sites.second]\nbase = "{tmp_path}/second"\n')
    desk.job("exit 3", outputs=[])
    desk("run", rc=1, program=PATIENT)
    said = desk("run", "--site", "second", "--json", rc=2).error
    assert said["code"] == "not-here" and "sojourn resume digits" in said["next"]


@pytest.mark.campaign
def test_another_client_that_took_the_name_on_the_box_is_noticed(desk: Desk) -> None:
    desk("run")
    desk.final()
    desk.job("echo other", outputs=[])
    other = {"XDG_STATE_HOME": str(desk.home / "other-state")}
    said = desk("run", "--json", rc=2, **other).error
    assert said["code"] == "name-taken" and "another client" in said["message"]
    row = json.loads(desk("status", "--json", **other).out)["runs"][0]
    assert row["state"] == "planned" and "another specification" in row["reason"]
    assert desk("run", "--json", rc=2, **other).error["code"] == "name-taken"
    assert desk("run", "--name", "mine", "--json", **other).json["did"] == "launched"
    # Nothing of the refused run is there, so the name may stand for the one that is.
    taken = desk("recover", "local", "--json", **other).json["runs"]
    assert {run["id"]: run["did"] for run in taken} == {"digits": "recovered", "mine": "known"}


@pytest.mark.campaign
def test_what_the_job_file_has_and_we_ignore_is_warned_about(desk: Desk) -> None:
    path = desk.project / "sojourn.yaml"
    path.write_text(path.read_text() + "service: {port: 8080}\n")
    said = desk("run")
    assert "`service`" in said.err and "`service`" not in said.out


@pytest.mark.campaign
def test_a_limit_on_time_ends_the_process_and_has_its_own_exit_status(desk: Desk) -> None:
    desk.job("sleep 60", outputs=[], max_duration="1s")
    desk("run", rc=None)
    assert desk.final()["state"] == "timeout"
    desk("status", "digits", "--exit-status", rc=113)


@pytest.mark.campaign
def test_a_process_that_asks_to_be_run_again_is_run_again_and_watched_to_its_end(desk: Desk) -> None:
    again = "if [ $SOJOURN_ATTEMPT = 3 ]; then echo {} > done.json; else sleep 1.5; exit 75; fi"
    desk.job(again, outputs=["done.json"], retry={"attempts": 5, "on": ["preempted"]})
    desk("run", rc=None)  # 1 where its first attempt was seen to end
    looks = desk("watch", "digits", "--json", "--every", "0.2s", rc=110).out.splitlines()
    last = json.loads(looks[-1])["runs"][0]
    assert (last["state"], last["attempt"]) == ("succeeded", 3) and desk.attempts() == [1, 2, 3]
