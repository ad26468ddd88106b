"""Several processes that train one model: DistributedDataParallel and FSDP on gloo, killed, resumed, fewer or more."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Iterator

import pytest

from sojourn.train import distributed, sealed
from sojourn.wire import torch_zip
from tests.train.forging import Forge, computed_twice, strike_until_done
from tests.train.killing import SCRIPTS, environment

pytestmark = pytest.mark.torch
MODULES = ("torch", "torch._dynamo", "torch.distributed.checkpoint.state_dict", "torch.distributed.fsdp")
EPOCHS, STEPS = 4, 48
KILLS, TERMS = 8, 2  # a tenth; ten seeds are the promise's hundred


@pytest.fixture(scope="module")
def forge() -> Iterator[Forge]:
    with Forge(*MODULES) as made:
        yield made


@pytest.fixture(scope="module", params=["ddp", "fsdp"])
def trained(request: pytest.FixtureRequest, forge: Forge, tmp_path_factory: pytest.TempPathFactory) -> tuple:
    """(kind, final bytes of both processes of the uninterrupted training, the folder it left)."""
    folder = tmp_path_factory.mktemp(request.param)
    args = (request.param + "_net.py", folder / "ckpt", folder / "out", EPOCHS, "every_steps=7")
    assert forge.run(*args, said=folder / "said", ranks=2) == [0, 0], (folder / "said").read_text()
    return request.param, outcome(folder), folder / "ckpt"


def outcome(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.glob("out.*"))]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 10))])
def test_with_any_of_its_processes_struck_it_ends_with_the_same_bytes(
    seed: int, trained: tuple, forge: Forge, tmp_path: Path
) -> None:
    kind, whole, _ = trained
    dice = random.Random("%s %d" % (kind, seed))
    signals = [signal.SIGKILL] * KILLS + [signal.SIGTERM] * TERMS
    dice.shuffle(signals)
    every, log = dice.choice([1, 3]), tmp_path / "log"
    more = ("pause_s=0.06", "every_steps=%d" % every, "log=%s" % log)
    args = (kind + "_net.py", tmp_path / "ckpt", tmp_path / "out", EPOCHS, *more)
    strike_until_done(forge, dice, signals, 0.3, tmp_path, *args, ranks=2)
    assert outcome(tmp_path) == whole
    assert max(computed_twice(log), default=0) <= every
    assert sorted({int(line) for line in log.read_text().split()}) == list(range(1, STEPS + 1))


def test_every_process_has_its_own_random_numbers_and_the_same_weights(trained: tuple) -> None:
    kind, whole, _ = trained
    assert len(whole) == 2 and whole[0] != whole[1]  # the files end with what is drawn next
    if kind == "fsdp":
        assert whole[0][:900] == whole[1][:900]


def newest_of(folder: Path) -> Path:
    return sorted(path for path in folder.glob("ckpt-*"))[-1]


def test_another_number_of_processes_goes_on_from_the_end_of_an_epoch(
    trained: tuple, forge: Forge, tmp_path: Path
) -> None:
    kind, _, folder = trained
    shutil.copytree(str(folder), str(tmp_path / "ckpt"))
    said = tmp_path / "said"
    assert "s%08d" % STEPS in newest_of(folder).name
    for ranks, epochs in ((3, EPOCHS + 1), (2, EPOCHS + 2)):
        args = (kind + "_net.py", tmp_path / "ckpt", tmp_path / "out", epochs)
        assert forge.run(*args, said=said, ranks=ranks) == [0] * ranks, said.read_text()
    assert "is of 3 processes, now there are 2" in said.read_text()


def test_another_number_of_processes_is_refused_inside_an_epoch(trained: tuple, forge: Forge, tmp_path: Path) -> None:
    kind, _, folder = trained
    shutil.copytree(str(folder), str(tmp_path / "ckpt"))
    last = newest_of(tmp_path / "ckpt")
    shutil.rmtree(str(last)) if last.is_dir() else last.unlink()
    args = (kind + "_net.py", tmp_path / "ckpt", tmp_path / "out", EPOCHS)
    for path in (tmp_path / "ckpt").glob("best.pt"):
        path.unlink()
    while "s%08d" % STEPS in newest_of(tmp_path / "ckpt").name:
        other = newest_of(tmp_path / "ckpt")
        shutil.rmtree(str(other)) if other.is_dir() else other.unlink()
    assert forge.run(*args, said=tmp_path / "said", ranks=3) == [1] * 3
    assert "inside an epoch that 2 processes read together; now there are 3" in (tmp_path / "said").read_text()


def test_what_fsdp_leaves_is_whole_and_readable_by_the_library_itself(trained: tuple) -> None:
    kind, _, folder = trained
    newest = newest_of(folder)
    if kind == "ddp":
        assert torch_zip.walk(str(newest)).problems == ()
        return
    facts, _ = sealed.check(str(newest))
    assert facts["world_size"] == 2 and facts["step"] == STEPS
    import torch.distributed.checkpoint as dcp

    known = dcp.FileSystemReader(str(newest)).read_metadata().state_dict_metadata
    assert {"model.0.weight", "model.3.bias", "optimizer.state.0.weight.exp_avg"} <= set(known)


def test_a_damaged_shard_is_said_and_the_checkpoint_before_taken(forge: Forge, trained: tuple, tmp_path: Path) -> None:
    kind, whole, folder = trained
    shutil.copytree(str(folder), str(tmp_path / "ckpt"))
    newest = newest_of(tmp_path / "ckpt")
    victim = newest / "__1_0.distcp" if newest.is_dir() else newest
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.unlink()  # best.pt may be a link to it
    victim.write_bytes(data)
    args = (kind + "_net.py", tmp_path / "ckpt", tmp_path / "out", EPOCHS)
    assert forge.run(*args, said=tmp_path / "said", ranks=2) == [0, 0]
    assert "%s is damaged and passed over" % newest.name in (tmp_path / "said").read_text()
    assert outcome(tmp_path) == whole


def test_one_process_alone_cannot_read_what_was_sharded(trained: tuple, forge: Forge, tmp_path: Path) -> None:
    kind, _, folder = trained
    if kind == "ddp":
        pytest.importorskip("torch")
        return
    args = ("ddp_net.py", folder, tmp_path / "out", EPOCHS)
    assert forge.run(*args, said=tmp_path / "said", ranks=2) == [1, 1]
    assert "sharded in it: model, optimizer; sharded here: nothing" in (tmp_path / "said").read_text()


def test_torchrun_restarts_it_where_it_stood(tmp_path: Path) -> None:
    """A process that is SIGKILLed at step 17 takes the others with it; torchrun starts all of them again."""
    log = tmp_path / "log"
    argv = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=2"]
    argv += [str(SCRIPTS / "ddp_net.py"), str(tmp_path / "ckpt"), str(tmp_path / "out"), "3", "every_steps=5"]
    argv += ["log=%s" % log, "die=1:17"]
    done = subprocess.run(argv, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240)
    said = done.stdout.decode()
    assert done.returncode == 0, said[-3000:]
    assert re.search(r"goes on from ckpt-t000001-s00000015.pt: epoch 1, step 15", said)
    assert [int(line) for line in log.read_text().split()] == [*range(1, 18), *range(16, 37)]


def test_without_its_process_group_it_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(distributed.SeveralProcesses, match="4 processes train together.*init_process_group"):
        distributed.join()
    assert os.environ["WORLD_SIZE"] == "4"
