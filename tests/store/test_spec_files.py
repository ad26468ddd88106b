"""What may stand where a job file should be."""

import os
import socket
from pathlib import Path

import pytest

from sojourn.store.job.read import NoJobFile, check_name, find_job, read_job
from sojourn.wire.errors import Misuse


def test_a_missing_file_is_answered_with_the_nearest(folder: Path) -> None:
    (folder / "sojourn.yaml").write_text("run: x\n")
    with pytest.raises(NoJobFile) as caught:
        read_job(str(folder / "sojurn.yaml"))
    assert caught.value.message.endswith("sojurn.yaml: no such file; the nearest is sojourn.yaml")
    assert (caught.value.exit_status, caught.value.next) == (2, "sojourn init")


def test_a_folder_is_answered_with_the_job_file_in_it(folder: Path) -> None:
    with pytest.raises(NoJobFile, match="a folder$"):
        read_job(str(folder))
    (folder / "sojourn.yaml").write_text("run: x\n")
    with pytest.raises(NoJobFile, match="a folder; name .*sojourn.yaml"):
        read_job(str(folder))


def test_a_pipe_or_socket_is_refused_at_once(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as end, pytest.raises(NoJobFile, match="not a regular file"):
        end.bind(os.path.relpath(folder / "s"))
        read_job(str(folder / "s"))
    with pytest.raises(NoJobFile, match="not a regular file"):
        read_job(str(folder / "pipe"))


@pytest.mark.parametrize("path", ["a\x00b", "x" * 300, "\udcff", "nofolder/sojourn.yaml", ""])
def test_a_path_that_is_none_is_one_line(folder: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(NoJobFile) as caught:
        read_job(path)
    assert "\n" not in caught.value.message


def test_the_job_file_of_a_folder_is_found_by_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(NoJobFile, match="^sojourn.yaml: no such file"):
        find_job()
    (folder / "sojourn.yml").write_text("")
    assert find_job() == "sojourn.yml"
    (folder / "sojourn.yaml").write_text("")
    assert find_job() == "sojourn.yaml" and find_job(str(folder)) == str(folder / "sojourn.yaml")


def test_a_name_given_by_hand_is_held_to_the_same_rule() -> None:
    assert check_name("a.b-c_1") == "a.b-c_1"
    with pytest.raises(Misuse, match="the nearest is 'my-run'"):
        check_name("My Run")
