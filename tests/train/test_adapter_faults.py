"""Under the real Trainers of Hugging Face and Lightning a disk that fails, fills up or is shared, and a kill at any
thing that is done to it, end with the previous good state loaded, and it was said.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path
from typing import Callable, Iterator

import pytest

from sojourn.train.saving.folder import Folder
from tests.train import trials
from tests.train.forging import Forge
from tests.train.killing import SCRIPTS

pytestmark = pytest.mark.adapters
MOUNTS = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts small disks")
EPOCHS, STEPS = 2, 24
CALLS = ("open", "write", "fsync", "rename", "mkdir", "unlink", "rmdir")
ERRORS = ("EIO", "EDQUOT", "ENOSPC")
TITLE = "With other trainers, every disk call fails or is the last"
WHAT = """\
A training of 24 steps under the real Trainer, saved every 7, is started again and again. Each time one disk call of
Python code, a different one each time, fails with EIO, EDQUOT or ENOSPC in turn (those after the first save), or
SIGKILL hits the process at it, a write in its middle (all of them). Then it is started normally.

Held: it reported that the save failed, or still completed it; the previous checkpoint was whole, was loaded and named;
the final bytes are those of the uninterrupted training; nothing half-written is left."""


@pytest.fixture(scope="module", params=["hf", "lightning"])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple]:
    """(adapter, forge, final bytes of the uninterrupted training)."""
    name, folder = request.param, tmp_path_factory.mktemp(request.param)
    with Forge(*trials.KINDS[name].modules) as forge:
        args = (name + "_net.py", folder / "ckpt", folder / "out", EPOCHS, "every_steps=7")
        assert forge.run(*args, said=folder / "said") == [0], (folder / "said").read_text()
        yield name, forge, trials.outcome(folder)


def fail(trained: tuple, at: str, folder: Path) -> tuple[int, str]:
    """(exit status, all it said) of a training with that fault."""
    name, forge, _ = trained
    folder.mkdir(exist_ok=True)
    said = folder / "said"
    args = (SCRIPTS / (name + "_net.py"), folder / "ckpt", folder / "out", EPOCHS, "every_steps=7")
    return forge.run("fail_at.py", at, *args, said=said)[0], said.read_text()


def finish(trained: tuple, folder: Path) -> str:
    """Started again: what it said. It ended with the same bytes, and left nothing half-written."""
    name, forge, whole = trained
    said = folder / "said"
    args = (name + "_net.py", folder / "ckpt", folder / "out", EPOCHS, "every_steps=7")
    assert forge.run(*args, said=said) == [0], said.read_text()
    assert trials.outcome(folder) == whole
    assert not trials.left_over(folder)
    return said.read_text()


def holds(trained: tuple, at: str, folder: Path) -> bool:
    """Whether the fault ended the training: then that was said, with what stands, and that is loaded."""
    rc, said = fail(trained, at, folder)
    if rc == 0:
        assert "could not be brought up to date" in said or "NOT SAVED" not in said, said
        return False
    error = os.strerror(getattr(__import__("errno"), at.rpartition(":")[2]))
    hit = re.search(r"step (\d+) is NOT SAVED: \w+: .*%s.*; (ckpt-\S+) stands, the training ends" % error, said)
    assert rc == 1 and hit and int(hit.group(1)) > 7, said
    again = re.search(r"resumes from (\S+): step (\d+), every byte checked", finish(trained, folder))
    assert again and hit.group(2) <= again.group(1) and int(again.group(2)) <= int(hit.group(1)), again
    return True


@pytest.mark.campaign
@pytest.mark.parametrize("at", ["fsync:5:EDQUOT", "rename:2:EIO"])
def test_a_call_that_fails_ends_it_in_words_and_the_state_before_is_loaded(
    at: str, trained: tuple, tmp_path: Path
) -> None:
    assert holds(trained, at, tmp_path / "trial")


@pytest.mark.campaign(keep=1)
@MOUNTS
@pytest.mark.lab
@pytest.mark.parametrize("at", ["bytes:16384", "inodes:0"])
def test_a_full_disk_ends_it_in_words_and_the_state_before_is_loaded(
    at: str, trained: tuple, tmp_path: Path, mount: Callable[..., Path]
) -> None:
    """With a little room left it is the Trainer's own writing that fails."""
    disk = mount("size=2m,nr_inodes=200")
    rc, said = fail(trained, at, disk)
    assert rc == 1 and re.search(r"step 14 is NOT SAVED: .*; ckpt-t000001-s00000007 stands, the training ends", said)
    for path in disk.glob("ballast*"):
        path.unlink() if path.is_file() else path.rmdir()
    assert "resumes from ckpt-t000001-s00000007: step 7, every byte checked" in finish(trained, disk)


@pytest.mark.campaign(keep=1)
def test_a_folder_that_another_training_has_is_refused(trained: tuple, tmp_path: Path) -> None:
    other = Folder(str(tmp_path / "ckpt"), None, 2, print)
    rc, said = fail(trained, "open:0:EIO", tmp_path)
    other.close()
    assert rc == 1 and "Another training is writing checkpoints to" in said
    finish(trained, tmp_path)


@pytest.mark.campaign
@pytest.mark.timeout(3 * 3600)
def test_every_call_fails_or_is_the_last(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Writes docs/reliability.md."""
    from tests import reliability

    began_s, rows = time.monotonic(), ["| | failed calls | fatal | kills |", "| --- | ---: | ---: | ---: |"]
    for name, told in (("hf", "Hugging Face Trainer"), ("lightning", "Lightning")):
        with Forge(*trials.KINDS[name].modules) as forge:
            rows.append("| %s | %d | %d | %d |" % (told, *play(name, forge, tmp_path)))
    reliability.put(TITLE, [WHAT, "", *rows], time.monotonic() - began_s)


def play(name: str, forge: Forge, folder: Path) -> tuple[int, int, int]:
    """All faults and kills of one Trainer: (faults, of these ended the training, kills)."""
    whole = folder / (name + "-whole")
    whole.mkdir()
    args = (SCRIPTS / (name + "_net.py"), whole / "ckpt", whole / "out", EPOCHS, "every_steps=7")
    assert forge.run("die_at.py", "0", *args, said=whole / "said") == [0]
    trained, kills = (name, forge, trials.outcome(whole)), count(whole / "said", "effects")
    faults = ended = 0
    for call in CALLS:
        fail(trained, call + ":0:EIO", folder / (name + call))
        for at in range(1, count(folder / (name + call) / "said", "calls") + 1):
            trial = folder / ("%s-%s-%d" % (name, call, at))
            ended += holds(trained, "%s:%d:%s" % (call, at, ERRORS[at % 3]), trial)
            faults += 1
            shutil.rmtree(str(trial))
    for at in range(1, kills + 1):
        trial = folder / ("%s-kill-%d" % (name, at))
        trial.mkdir()
        args = (SCRIPTS / (name + "_net.py"), trial / "ckpt", trial / "out", EPOCHS, "every_steps=7")
        assert forge.run("die_at.py", str(at), *args, said=trial / "said") == [-9]
        finish(trained, trial)
        shutil.rmtree(str(trial))
    return faults, ended, kills


def count(said: Path, word: str) -> int:
    """The number behind the last such word."""
    return int(said.read_text().rpartition(word)[2].split()[0])
