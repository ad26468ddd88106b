"""Under the real Trainers of Hugging Face and of Lightning a training killed at any moment ends with the very same
bytes (CPU), and what lies in its folder is whole.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Iterator

import pytest

from sojourn.train.saving import sealed
from tests.train import trials
from tests.train.forging import Forge
from tests.train.killing import SCRIPTS, environment

pytestmark = pytest.mark.adapters
EPOCHS, STEPS = 5, 60


@pytest.fixture(scope="module", params=["hf", "lightning"])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple]:
    """(adapter, forge, final bytes of the uninterrupted training, the folder it left)."""
    name, folder = request.param, tmp_path_factory.mktemp(request.param)
    with Forge(*trials.KINDS[name].modules) as forge:
        said = folder / "said"
        rc = forge.run(name + "_net.py", folder / "ckpt", folder / "out", EPOCHS, "every_steps=7", said=said)
        assert rc == [0], said.read_text()
        yield name, forge, (folder / "out").read_bytes(), folder / "ckpt"


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(2))
def test_struck_at_random_moments_it_ends_with_the_same_bytes_and_computes_little_twice(
    seed: int, trained: tuple, tmp_path: Path
) -> None:
    name, forge, _, _ = trained
    verdict = trials.Trials(name, forge, tmp_path).play(seed)
    assert not verdict.breaches, trials.stories([verdict])


@pytest.mark.campaign
def test_with_one_of_two_processes_killed_it_ends_with_the_same_bytes(trained: tuple, tmp_path: Path) -> None:
    verdict = trials.Trials(trained[0] + "2", trained[1], tmp_path).play(0, kills=1, terms=0)
    assert not verdict.breaches, trials.stories([verdict])


@pytest.mark.campaign
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["hf", "lightning"])
def test_torchrun_restarts_it_where_it_stood(name: str, tmp_path: Path) -> None:
    """The first process is SIGKILLed in the middle of a save; torchrun starts both again."""
    whole, log = tmp_path / "whole", tmp_path / "log"
    argv = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=2"]
    args = ["2", "every_steps=5", "log=%s" % log]
    for folder, script in ((whole, []), (tmp_path, [str(SCRIPTS / "die_at.py"), "0:60"])):
        log.unlink(missing_ok=True)
        command = [*argv, *script, str(SCRIPTS / (name + "_net.py")), str(folder / "ckpt"), str(folder / "out"), *args]
        folder.mkdir(exist_ok=True)
        env = environment(TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1", HF_HUB_OFFLINE="1")
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=400)
        assert done.returncode == 0, done.stdout.decode()[-3000:]
    hit = re.search(r"resumes from ckpt-t000001-s\d+: step (\d+), every byte checked", done.stdout.decode())
    steps = [int(line) for line in log.read_text().split()]
    assert hit, done.stdout.decode()[-3000:]
    saved = int(hit.group(1))
    assert steps == [*range(1, saved + 6), *range(saved + 1, 25)]
    assert (tmp_path / "out").read_bytes() == (whole / "out").read_bytes()


@pytest.mark.campaign
def test_what_it_writes_is_listed_and_pointed_to(trained: tuple) -> None:
    name, _, _, folder = trained
    names = sorted(path.name for path in folder.iterdir())
    assert names == [".lock", "ckpt-t000001-s%08d" % 56, "ckpt-t000001-s%08d" % STEPS, "latest.json"]
    pointer = json.loads((folder / "latest.json").read_text())
    facts, size = sealed.check(str(folder / names[2]))
    assert (pointer["path"], pointer["step"], pointer["bytes"]) == (names[2], STEPS, size)
    assert facts["step"] == STEPS and facts["world_size"] == 1


def test_a_damaged_newest_is_said_and_the_one_before_taken(trained: tuple, tmp_path: Path) -> None:
    name, forge, whole, folder = trained
    shutil.copytree(str(folder), str(tmp_path / "ckpt"))
    newest = tmp_path / "ckpt" / ("ckpt-t000001-s%08d" % STEPS)
    victim = max((path for path in newest.iterdir() if path.name != sealed.SEAL), key=lambda path: path.stat().st_size)
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.write_bytes(data)
    said = tmp_path / "said"
    assert forge.run(name + "_net.py", tmp_path / "ckpt", tmp_path / "out", EPOCHS, said=said) == [0], said.read_text()
    assert "ckpt-t000001-s00000060 is damaged and skipped: %s is not what was sealed" % victim.name in said.read_text()
    assert "resumes from ckpt-t000001-s00000056: step 56, every byte checked" in said.read_text()
    assert (tmp_path / "out").read_bytes() == whole


def test_started_again_when_it_is_over_it_trains_nothing_and_draws_what_it_would_have_drawn(
    trained: tuple, tmp_path: Path
) -> None:
    name, forge, whole, folder = trained
    shutil.copytree(str(folder), str(tmp_path / "ckpt"))
    said, log = tmp_path / "said", tmp_path / "log"
    args = (tmp_path / "ckpt", tmp_path / "out", EPOCHS, "log=%s" % log)
    assert forge.run(name + "_net.py", *args, said=said) == [0], said.read_text()
    assert "resumes from ckpt-t000001-s00000060" in said.read_text() and not log.exists()
    assert (tmp_path / "out").read_bytes() == whole


def test_an_attempt_that_was_overtaken_stops(trained: tuple, tmp_path: Path) -> None:
    name, forge, _, _ = trained
    (tmp_path / "ckpt").mkdir()
    (tmp_path / "ckpt" / ".t000009.fence").touch()
    said = tmp_path / "said"
    args = (tmp_path / "ckpt", tmp_path / "out", EPOCHS)
    rc = forge.run(name + "_net.py", *args, said=said, SOJOURN_TOKEN="3")
    assert rc == [1] and re.search(r"A later attempt \(fencing token 9\)", said.read_text()), said.read_text()


LOSSES = {"hf": "train_loss", "lightning": "val"}


@pytest.mark.campaign
@pytest.mark.parametrize("name", ["hf", "lightning"])
def test_what_the_trainer_logs_is_told_as_progress(name: str, tmp_path: Path) -> None:
    said = tmp_path / "progress.json"
    argv = [sys.executable, str(SCRIPTS / (name + "_net.py")), str(tmp_path / "ckpt"), str(tmp_path / "out"), "2"]
    env = environment(HF_HUB_OFFLINE="1", SOJOURN_PROGRESS=str(said))
    done = subprocess.run(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=200)
    assert done.returncode == 0, done.stdout.decode()[-2000:]
    told = json.loads(said.read_text())
    assert (told["step"], told["total"]) == (24, 24)
    assert told["epoch"] in (1, 2) and isinstance(told["metrics"][LOSSES[name]], float), told
