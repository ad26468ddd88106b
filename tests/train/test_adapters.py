"""Under the real Trainers of Hugging Face and of Lightning a training killed at any moment ends with the very same
bytes (CPU), and what lies in its folder is whole.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import signal
from pathlib import Path
from typing import Iterator

import pytest

from sojourn.train import sealed
from tests.train.forging import Forge, computed_twice, strike_until_done

pytestmark = pytest.mark.adapters
MODULES = {"hf": ("torch", "transformers.trainer", "accelerate"), "lightning": ("torch", "lightning")}
EPOCHS, STEPS = 5, 60
KILLS, TERMS = 10, 2  # for each adapter; ten seeds are the hundred and twenty of the promise, one is run by `make test`


@pytest.fixture(scope="module", params=list(MODULES))
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple]:
    """(adapter, forge, final bytes of the uninterrupted training, the folder it left)."""
    name, folder = request.param, tmp_path_factory.mktemp(request.param)
    with Forge(*MODULES[name], HF_HUB_OFFLINE="1") as forge:
        said = folder / "said"
        rc = forge.run(name + "_net.py", folder / "ckpt", folder / "out", EPOCHS, "every_steps=7", said=said)
        assert rc == [0], said.read_text()
        yield name, forge, (folder / "out").read_bytes(), folder / "ckpt"


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 10))])
def test_struck_at_random_moments_it_ends_with_the_same_bytes_and_computes_little_twice(
    seed: int, trained: tuple, tmp_path: Path
) -> None:
    name, forge, whole, _ = trained
    dice = random.Random("%s %d" % (name, seed))
    signals = [signal.SIGKILL] * KILLS + [signal.SIGTERM] * TERMS
    dice.shuffle(signals)
    every, log = dice.choice([1, 3, 5]), tmp_path / "log"
    more = ("pause_s=0.06", "every_steps=%d" % every, "log=%s" % log)
    args = (tmp_path / "ckpt", tmp_path / "out", EPOCHS, *more)
    strike_until_done(forge, dice, signals, 0.5, tmp_path, name + "_net.py", *args)
    assert (tmp_path / "out").read_bytes() == whole
    # Behind the last batch of an epoch, Lightning's state is no longer what it was: that save comes a batch later.
    twice = computed_twice(log)
    assert max(twice, default=0) <= every + (name == "lightning"), twice
    assert sorted({int(line) for line in log.read_text().split()}) == list(range(1, STEPS + 1))
    left = [path for path in (tmp_path / "ckpt").iterdir() if path.is_dir()]
    assert 0 < len(left) <= 2 and all(sealed.check(str(path)) for path in left)
    assert not any((tmp_path / "out.work").iterdir() if (tmp_path / "out.work").exists() else ())


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
    assert (
        "ckpt-t000001-s00000060 is damaged and passed over: %s is not what was sealed" % victim.name in said.read_text()
    )
    assert "goes on from ckpt-t000001-s00000056: step 56, every byte checked" in said.read_text()
    assert (tmp_path / "out").read_bytes() == whole


def test_started_again_when_it_is_over_it_trains_nothing(trained: tuple, tmp_path: Path) -> None:
    name, forge, whole, folder = trained
    shutil.copytree(str(folder), str(tmp_path / "ckpt"))
    said, log = tmp_path / "said", tmp_path / "log"
    args = (tmp_path / "ckpt", tmp_path / "out", EPOCHS, "log=%s" % log)
    assert forge.run(name + "_net.py", *args, said=said) == [0], said.read_text()
    assert "goes on from ckpt-t000001-s00000060" in said.read_text() and not log.exists()


def test_an_attempt_that_was_overtaken_stops(trained: tuple, tmp_path: Path) -> None:
    name, forge, _, _ = trained
    (tmp_path / "ckpt").mkdir()
    (tmp_path / "ckpt" / ".t000009.fence").touch()
    said = tmp_path / "said"
    args = (tmp_path / "ckpt", tmp_path / "out", EPOCHS)
    rc = forge.run(name + "_net.py", *args, said=said, SOJOURN_TOKEN="3")
    assert rc == [1] and re.search(r"A later attempt \(fencing token 9\)", said.read_text()), said.read_text()
