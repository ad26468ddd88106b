"""Bad input and bad disks: one clear line, the right exit status, nothing half-written."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spine.conftest import Desk, Said

JOBS = {
    "broken YAML": ("name: digits\nrun: [unclosed\n", "sojourn.yaml:3:1:", "bad-job-file"),
    "an unknown key": ("run: true\nouputs: [a]\n", "sojourn.yaml:2:1:", "bad-job-file"),
    "no run": ("name: digits\n", "`run` is missing", "bad-job-file"),
    "a name that is none": ("name: My Run\nrun: 'true'\n", "my-run", "bad-job-file"),
    "a misspelt name": ("run: echo ${DATE_DIR}\nenvs: {DATA_DIR: x}\n", "${DATA_DIR}", "bad-job-file"),
    "a folder that is not there": ("run: 'true'\nworkdir: ./nowhere\n", "sojourn.yaml:2:10:", "bad-job-file"),
    "an output outside": ("run: 'true'\noutputs: [../x]\n", "sojourn.yaml:2:11:", "bad-job-file"),
    "a site that is none": ("run: 'true'\nsite: locale\n", "local", "unknown-site"),
    "several nodes": ("run: 'true'\nnum_nodes: 2\n", "2 nodes", "not-yet"),
}


def one_line(said: Said) -> str:
    """The one line that says what is wrong. `next` and the typed error come after it; progress, before it, where the
    machine is slow.
    """
    beside = (
        "next ",
        "{",
        *(f"sojourn: {doing} " for doing in ("reading", "pushing", "digits: asking", "digits: the box")),
    )
    lines = [line for line in said.err.splitlines() if not line.startswith(beside)]
    assert len(lines) == 1, said.err
    assert not said.out
    return lines[0]


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("what", JOBS)
def test_a_bad_job_file_is_told_in_one_line_and_nothing_is_recorded(desk: Desk, what: str) -> None:
    text, told, code = JOBS[what]
    (desk.project / "sojourn.yaml").write_text(text)
    for command in ("run", "plan"):
        said = desk(command, "--json", rc=2)
        assert told in one_line(said) and said.error["code"] == code
    assert not (desk.state / "journal.jsonl").exists() and not (desk.base / "runs").exists()


@pytest.mark.parametrize("what", ["missing", "a folder", "unreadable"])
def test_a_job_file_that_cannot_be_read(desk: Desk, what: str) -> None:
    path = desk.project / "job.yaml"
    if what == "a folder":
        path.mkdir()
    elif what == "unreadable":
        path.symlink_to(path)
    said = desk("run", "job.yaml", "--json", rc=2)
    assert "job.yaml" in one_line(said) and said.error["code"] == "no-job-file"


@pytest.mark.parametrize("site", ["kaggle", "colab"])
def test_a_site_whose_backends_are_not_there_yet_says_so(desk: Desk, site: str) -> None:
    said = desk("run", "--site", site, "--json", rc=2)
    assert said.error["code"] == "no-such-backend" and site in one_line(said)
    assert not (desk.state / "journal.jsonl").exists()


def test_a_command_for_a_run_that_is_none(desk: Desk) -> None:
    for words in (("status", "nope"), ("logs", "nope"), ("stop", "nope"), ("resume", "nope"), ("pull", "nope")):
        assert desk(*words, "--json", rc=2).error["code"] == "not-found"
    desk("status", "nope", "--exit-status", rc=102)
    desk("down", "nope", rc=2)


@pytest.mark.campaign
def test_a_secret_that_is_not_set_is_named_and_its_value_is_written_nowhere(desk: Desk) -> None:
    desk.job('test -n "$MY_TOKEN" && echo "{}" > result.json', secrets=["MY_TOKEN"], outputs=["result.json"])
    assert "MY_TOKEN" in one_line(desk("run", rc=2))
    desk("run", MY_TOKEN="s3cr3t-value")
    assert desk.final()["state"] == "succeeded"
    for folder in (desk.state, desk.base):
        for path in folder.rglob("*"):
            assert not path.is_file() or b"s3cr3t-value" not in path.read_bytes(), path


@pytest.mark.campaign
def test_what_the_box_does_not_have_is_a_confirmed_blocker_and_nothing_is_started(desk: Desk) -> None:
    desk.job(resources={"memory": "100000+", "accelerators": "H100:8"})
    for command in ("run", "plan"):
        said = desk(command, "--json", rc=11).json
        assert [f["id"] for f in said["findings"]] == ["resources-not-met"] * 2
    assert not (desk.base / "runs").exists() and not desk("status", "--json").json["runs"]
    desk.job(resources={"memory": "0.01+", "cpus": "1+"})
    desk("run")


@pytest.mark.campaign
def test_awkward_names_travel_whole(desk: Desk) -> None:
    name = "a \"quoted\" 'name'\nwith newline and żółć 数字.txt"
    (desk.project / name).write_text("in")
    (desk.project / "folder with space").mkdir()
    (desk.project / "folder with space" / "x").write_text("x")
    desk.job("cp -- a*.txt 'out żółć 数字 \"q\".txt'; test -f 'folder with space/x'", outputs=["out*"])
    desk("run")
    assert desk.final()["state"] == "succeeded"
    desk("pull", "digits", "--to", 'my "results" żółć')
    home = desk.project / 'my "results" żółć'
    assert (home / 'out żółć 数字 "q".txt').read_text() == "in"
    assert (desk.root() / "attempts/1" / name).read_text() == "in"


def test_an_output_with_a_newline_in_its_name_comes_home(desk: Desk) -> None:
    desk.job("printf '{}' > \"$(printf 'two\\nlines.json')\"", outputs=["two*"])
    desk("run")
    desk.final()
    pulled = desk("pull", "digits", "--to", "home", "--json").json
    assert pulled["ok"] and (desk.project / "home/two\nlines.json").read_text() == "{}"


@pytest.mark.campaign
def test_a_home_folder_that_holds_other_files_is_left_alone(desk: Desk) -> None:
    home = desk.project / "home"
    home.mkdir()
    (home / "result.json").write_text("mine")
    desk("run")
    desk.final()
    said = desk("pull", "digits", "--to", "home", "--json", rc=2)
    assert said.error["code"] == "home-taken" and "result.json" in one_line(said)
    assert (home / "result.json").read_text() == "mine" and os.listdir(home) == ["result.json"]


@pytest.mark.campaign
def test_two_runs_never_overwrite_each_other_at_home(desk: Desk) -> None:
    for name in ("one", "two"):
        desk("run", "--name", name, "--env", f"N={name}")
        desk.final(name)
    desk("pull", "one", "--to", "home")
    desk("pull", "two", "--to", "home", rc=2)
    desk("pull", "one", "two", "--to", "both")
    assert sorted(os.listdir(desk.project / "both")) == ["one", "two"]


@pytest.fixture
def small_disk(desk: Desk, tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB, full of nothing yet."""
    if os.geteuid() != 0:
        pytest.skip("mounting takes root")
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,nr_inodes=200", "none", str(folder)], check=False)
    if mounted.returncode:
        pytest.skip("this machine may not mount")
    yield folder
    desk.end_all()
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.campaign
def test_a_home_that_is_full_is_told_and_keeps_nothing_half(desk: Desk, small_disk: Path) -> None:
    desk.job("head -c 3000000 /dev/urandom > big.bin; echo '{}' > result.json", outputs=["big.bin", "result.json"])
    desk("run")
    desk.final()
    said = desk("pull", "digits", "--to", str(small_disk / "home"), "--json", rc=1)
    assert said.error["code"] == "home-full" and str(small_disk) in one_line(said)
    assert not (small_disk / "home").exists()
    desk("pull", "digits", "--to", "home")


@pytest.mark.campaign
def test_a_home_that_cannot_be_written_is_told(desk: Desk, small_disk: Path) -> None:
    desk("run")
    desk.final()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    said = desk("pull", "digits", "--to", str(small_disk / "home"), "--json", rc=2)
    assert said.error["code"] == "home-unwritable" and one_line(said)
    (desk.project / "a-file").touch()
    assert desk("pull", "digits", "--to", "a-file", "--json", rc=2).error["code"] == "home-unwritable"


@pytest.mark.campaign
def test_a_box_without_room_is_a_confirmed_blocker(desk: Desk, small_disk: Path) -> None:
    settings = desk.home / ".config/sojourn/settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'[sites.tiny]\nbase = "{small_disk}/base"\n')
    said = desk("run", "--site", "tiny", "--json", rc=11).json
    assert "disk-too-small" in [f["id"] for f in said["findings"]]
    assert not (small_disk / "base/runs").exists()


@pytest.mark.campaign
@pytest.mark.parametrize("how", ["read-only", "full"])
def test_records_that_cannot_be_kept_stop_everything_before_it_begins(desk: Desk, small_disk: Path, how: str) -> None:
    if how == "full":
        subprocess.run(["sh", "-c", f"head -c 2000000 /dev/zero > {small_disk}/filler"], stderr=subprocess.DEVNULL)
    else:
        subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    said = desk("run", "--json", rc=2, XDG_STATE_HOME=str(small_disk))
    assert said.error["code"] == ("disk-full" if how == "full" else "state-unwritable")
    assert str(small_disk) in one_line(said)
    assert not (desk.base / "runs").exists()


def test_code_that_changes_while_it_is_pushed_or_leaves_its_folder_is_refused(desk: Desk) -> None:
    (desk.project / "outside").symlink_to("/etc/hostname")
    said = desk("run", "--json", rc=2)
    assert said.error["code"] == "bad-tree" and "outside" in one_line(said)
