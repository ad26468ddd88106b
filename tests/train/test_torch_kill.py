"""A PyTorch training killed at any moment ends with the very same bytes (CPU): loaders of several kinds, two
optimizers, EMA.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.train.killing import run, start, strike, wait_for

pytestmark = pytest.mark.torch
LOADERS = {"here": (), "workers": ("workers=2",), "generator": ("generator=1",)}
EPOCHS = 14
# SIGKILLs, SIGTERMs, how it is saved; ten seeds are the hundred and twenty of the promise, one is run by `make test`.
STRIKES = {"here": (6, 1, "background=1"), "workers": (1, 0, "background=1"), "generator": (3, 1, "background=0")}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """Final bytes of the uninterrupted training, by kind of loader."""
    out = {}
    for kind, more in LOADERS.items():
        folder = tmp_path_factory.mktemp(kind)
        rc, said = run("torch_net.py", folder / "ckpt", folder / "out", EPOCHS, *more)
        assert rc == 0, said
        out[kind] = (folder / "out").read_bytes()
    return out


@pytest.mark.parametrize("kind", LOADERS)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 10))])
def test_struck_at_random_moments_it_ends_with_the_same_bytes_and_computes_little_twice(
    kind: str, seed: int, tmp_path: Path, whole: dict
) -> None:
    dice = random.Random("%s %d" % (kind, seed))
    kills, terms, how = STRIKES[kind]
    signals = [signal.SIGKILL] * kills + [signal.SIGTERM] * terms
    dice.shuffle(signals)
    every, log = dice.choice([1, 3, 5]), tmp_path / "log"
    more = ("pause_s=0.03", "every_steps=%d" % every, how, "log=%s" % log, *LOADERS[kind])
    strike(dice, signals, 0.5, "torch_net.py", tmp_path / "ckpt", tmp_path / "out", EPOCHS, *more)
    assert (tmp_path / "out").read_bytes() == whole[kind]
    computed = [int(line) for line in log.read_text().split()]
    twice = [before - now + 1 for before, now in zip(computed, computed[1:]) if now <= before]
    # The cadence; while one save is being written by another process, the next one's steps are at stake too.
    assert max(twice, default=0) <= every * (2 if how == "background=1" else 1), twice
    assert sorted(set(computed)) == list(range(1, 12 * EPOCHS + 1))


@pytest.mark.parametrize("kind", ["here", "workers"])
def test_a_signal_to_the_whole_process_group_saves_and_leaves_with_75(kind: str, tmp_path: Path, whole: dict) -> None:
    """As a keeper sends it. DataLoader workers die of it, which ends the loader in the middle of a pass."""
    args = (tmp_path / "ckpt", tmp_path / "out", EPOCHS, "pause_s=0.02", "every_s=1000", *LOADERS[kind])
    process = start("torch_net.py", *args, start_new_session=True)
    wait_for(tmp_path / "ckpt", "ckpt-*.pt")  # the first epoch's
    os.killpg(process.pid, signal.SIGTERM)
    said = process.communicate(timeout=60)[0].decode()
    assert process.returncode == 75, said
    hit = re.search(r"SIGTERM at step (\d+): saved at step (\d+); leaving with 75", said)
    assert hit and hit.group(1) == hit.group(2), said
    rc, said = run("torch_net.py", *args)
    assert rc == 0 and "step %s, every byte" % hit.group(2) in said
    assert (tmp_path / "out").read_bytes() == whole[kind]
    assert subprocess.run(["pgrep", "-g", str(process.pid)], stdout=subprocess.PIPE).stdout == b""
