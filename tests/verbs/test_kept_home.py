"""`why RUN` names the file that the ignore files kept here, with the lines that bring it along."""

import json
import subprocess

import pytest

from sojourn.cli.main import main
from sojourn.store.job.read import read_job
from sojourn.verbs.explain import why
from sojourn.verbs.explain.kept_home import _paths
from tests.verbs.conftest import World

TRAIN = """
import os
folder = os.path.join("data", "tiny")
name = "train.npy"
open(os.path.join(folder, name), "rb")
"""


def ended(world: World, script: str = "python3 train.py", ignored: str = "data/\n") -> why.Why:
    (world.project / "train.py").write_text(TRAIN)
    (world.project / "data/tiny").mkdir(parents=True)
    (world.project / "data/tiny/train.npy").write_bytes(b"x" * 2048)
    (world.project / ".gitignore").write_text(ignored)
    world.ended(script)
    return why.of_run(world.ctx, "digits")


def test_a_missing_file_that_is_here_is_named_with_what_to_type(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = ended(world)
    assert answer.judged.verdict is not None and answer.judged.verdict.id == "file-not-found"
    (missed,) = answer.kept_home
    assert (missed.path, missed.bytes) == ("data/tiny/train.npy", 2048)
    monkeypatch.chdir(world.project)
    assert main(["why", "digits"]) == 1
    out = capsys.readouterr().out
    assert "missing  data/tiny/train.npy (2.0 KiB) is here" in out
    assert "push it  echo '!/data/' >> .sojournignore\n" in out
    assert "or mount file_mounts: {data: data}  # in sojourn.yaml\n" in out


def test_typing_either_line_brings_it(world: World) -> None:
    (missed,) = ended(world).kept_home
    job = world.project / "sojourn.yaml"
    job.write_text(job.read_text() + missed.mount + "\n")
    (mount,) = read_job(str(job)).file_mounts
    assert (mount.target, mount.source) == ("data", str(world.project / "data"))
    subprocess.run(missed.push, shell=True, check=True, cwd="/")
    assert world.run("python3 train.py && echo found it", name="again").id == "again"
    while not world.record("again").is_settled:
        why.of_run(world.ctx, "again")
    assert world.record("again").status.state.value == "succeeded"
    assert why.of_run(world.ctx, "digits").kept_home == ()  # the next push takes it along


def test_a_script_that_changed_its_folder_is_understood(world: World) -> None:
    (missed,) = ended(world, "mkdir -p data; cd data; cat tiny/train.npy").kept_home
    assert missed.path == "data/tiny/train.npy"


def test_what_was_pushed_or_is_nowhere_is_not_named(world: World) -> None:
    assert ended(world, "cat absent/train.npy data/other.npy; rm train.py; python3 train.py").kept_home == ()


def test_a_run_that_got_over_it_is_healthy_and_names_nothing(world: World) -> None:
    answer = ended(world, "cat data/tiny/train.npy || true; echo step 10/10 loss 0.1; echo training complete")
    assert answer.judged.is_healthy and answer.kept_home == ()
    assert json.loads(json.dumps(answer.as_json()))["kept_home"] == []


@pytest.mark.parametrize(
    "line",
    [
        "FileNotFoundError: [Errno 2] No such file or directory: 'data/a b.npy'",
        "cat: 'data/a b.npy': No such file or directory",
        'safetensors_rust.SafetensorError: No such file or directory: "data/a b.npy"',
        "FileNotFoundError: [Errno 2] Unable to open file (unable to open file: name = 'data/a b.npy', errno = 2,"
        " error message = 'No such file or directory', flags = 0, o_flags = 0)",
        "[ WARN:0@0.1] global loadsave.cpp:268 findDecoder imread_('data/a b.npy'): can't open/read file:",
        "FileNotFoundError: Unable to find 'data/a b.npy'",
    ],
)
def test_quoted_paths_are_read_whole(line: str) -> None:
    assert "data/a b.npy" in list(_paths(line))


@pytest.mark.parametrize(
    "line",
    [
        "FileNotFoundError: data/a.csv not found.",
        "data/a.csv: No such file or directory",
        "head: cannot open data/a.csv for reading",
        "FileNotFoundError: Couldn't find file at data/a.csv.",
    ],
)
def test_bare_paths_are_read_without_the_marks_around_them(line: str) -> None:
    assert "data/a.csv" in list(_paths(line))
