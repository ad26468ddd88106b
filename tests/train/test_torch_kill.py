"""A PyTorch training killed at any moment ends with the very same bytes (CPU): loaders of several kinds, two
optimizers, EMA.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Iterator

import pytest

from tests.train import trials
from tests.train.forging import Forge
from tests.train.killing import run, start, wait_for

pytestmark = pytest.mark.torch
LOADERS = {"here": (), "workers": ("workers=2",)}
EPOCHS = 14


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[trials.Trials]:
    with Forge(*trials.KINDS["torch"].modules) as forge:
        yield trials.Trials("torch", forge, tmp_path_factory.mktemp("trials"))


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("seed", range(len(trials.KINDS["torch"].ways)))
def test_struck_at_random_moments_it_ends_with_the_same_bytes_and_computes_little_twice(
    seed: int, played: trials.Trials
) -> None:
    verdict = played.play(seed)
    assert not verdict.breaches, trials.stories([verdict])


@pytest.mark.campaign
@pytest.mark.parametrize("kind", ["here", "workers"])
def test_a_signal_to_the_whole_process_group_saves_and_leaves_with_75(
    kind: str, tmp_path: Path, played: trials.Trials
) -> None:
    """As a keeper sends it. DataLoader workers die of it, which ends the loader in the middle of a pass."""
    plain = (tmp_path / "plain", tmp_path / "plain-out", EPOCHS, *LOADERS[kind])
    assert played.forge.run("torch_net.py", *plain, said=tmp_path / "said") == [0], (tmp_path / "said").read_text()
    hold = ("hold=%s" % (tmp_path / "struck"), "hold_at=14")  # in the second epoch, until the signal has been sent
    args = (tmp_path / "ckpt", tmp_path / "out", EPOCHS, "every_s=1000", *hold, *LOADERS[kind])
    process = start("torch_net.py", *args, start_new_session=True)
    wait_for(tmp_path / "ckpt", "ckpt-*.pt")  # the first epoch's
    os.killpg(process.pid, signal.SIGTERM)
    (tmp_path / "struck").touch()
    said = process.communicate(timeout=60)[0].decode()
    assert process.returncode == 75, said
    hit = re.search(r"SIGTERM at step (\d+): saved at step (\d+); exiting with 75", said)
    assert hit and hit.group(1) == hit.group(2), said
    rc, said = run("torch_net.py", *args)
    assert rc == 0 and "step %s, every byte" % hit.group(2) in said
    assert (tmp_path / "out").read_bytes() == (tmp_path / "plain-out").read_bytes()
    assert subprocess.run(["pgrep", "-g", str(process.pid)], stdout=subprocess.PIPE).stdout == b""
