"""Several processes that train one model: DistributedDataParallel and FSDP on gloo, killed, resumed, fewer or more."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Iterator

import pytest

from sojourn.formats.torch import zip as torch_zip
from sojourn.train import distributed
from sojourn.train.saving import sealed
from tests.train import trials
from tests.train.forging import Forge
from tests.train.killing import SCRIPTS, environment

pytestmark = pytest.mark.torch
EPOCHS, STEPS = 4, 48
DIES = """\
Two processes train 48 steps together on gloo and save every 7 and at the end of epochs. SIGKILL hits one of them at one
disk call of its Python code (in the middle of a write), a different one each time, until all are covered; with
DistributedDataParallel only the first process writes. Held each time: the other process ends by itself; both,
restarted, end with the bytes of the uninterrupted training; nothing half-written is left."""
KILLED = "One of several processes is killed at each of its disk calls"
# Bytes of weights and, of FSDP, of the optimizer's moments, before what each process draws next.
STATE = {"ddp": 4 * (8 * 16 + 16 + 4 * 16 + 16 * 2 + 2) + 8, "fsdp": 3 * 4 * (8 * 16 + 16 + 16 * 2 + 2)}


@pytest.fixture(scope="module")
def forge() -> Iterator[Forge]:
    with Forge(*trials.KINDS["ddp"].modules) as made:
        yield made


@pytest.fixture(scope="module", params=["ddp", "fsdp"])
def trained(request: pytest.FixtureRequest, forge: Forge, tmp_path_factory: pytest.TempPathFactory) -> tuple:
    """(kind, final bytes of both processes of the uninterrupted training, the folder it left)."""
    folder = tmp_path_factory.mktemp(request.param)
    args = (request.param + "_net.py", folder / "ckpt", folder / "out", EPOCHS, "every_steps=7")
    assert forge.run(*args, said=folder / "said", ranks=2) == [0, 0], (folder / "said").read_text()
    return request.param, trials.outcome(folder), folder / "ckpt"


@pytest.mark.campaign(keep=1)
def test_with_any_of_its_processes_struck_it_ends_with_the_same_bytes(
    trained: tuple, forge: Forge, tmp_path: Path
) -> None:
    verdict = trials.Trials(trained[0], forge, tmp_path).play(0)
    assert not verdict.breaches, trials.stories([verdict])


def test_every_process_has_its_own_random_numbers_and_the_same_weights(trained: tuple) -> None:
    kind, whole, _ = trained
    assert len(whole) == 2 and whole[0] != whole[1]  # the files end with what is drawn next
    assert whole[0][: STATE[kind]] == whole[1][: STATE[kind]]


def newest_of(folder: Path) -> Path:
    return sorted(path for path in folder.glob("ckpt-*"))[-1]


@pytest.mark.campaign
def test_another_number_of_processes_goes_on_from_the_end_of_an_epoch_with_the_very_same_state(
    trained: tuple, forge: Forge, tmp_path: Path
) -> None:
    kind, whole, folder = trained
    shutil.copytree(str(folder), str(tmp_path / "ckpt"))
    said, state = tmp_path / "said", STATE[kind]
    for ranks, epochs in ((1, EPOCHS), (3, EPOCHS), (3, EPOCHS + 1), (2, EPOCHS + 1)):
        args = (kind + "_net.py", tmp_path / "ckpt", tmp_path / "out", epochs)
        assert forge.run(*args, said=said, ranks=ranks) == [0] * ranks, said.read_text()
        now = trials.outcome(tmp_path)[0][:state]
        if epochs == EPOCHS:
            assert now == whole[0][:state]
            assert "is of 2 processes, now there are %d" % ranks in said.read_text()
    assert now != whole[0][:state] and "is of 3 processes, now there are 2" in said.read_text()


def samples(folder: Path) -> list[int]:
    return sorted(int(one) for path in folder.glob("log.*") for one in path.read_text().split())


@pytest.mark.parametrize("more", [(), ("workers=1",), ("fsdp=1",)], ids=["ddp", "workers", "fsdp"])
def test_in_mid_epoch_another_number_of_processes_shares_the_rest_each_sample_once(
    more: tuple[str, ...], forge: Forge, tmp_path: Path
) -> None:
    said = tmp_path / "said"
    for ranks, stop_at in ((2, 5), (1, 8), (1, 10), (2, 1000)):  # 10 of 24 batches, then 5 by one, then 9 by both
        args = ("dealt_net.py", tmp_path / "ckpt", tmp_path / "log", stop_at, *more)
        assert forge.run(*args, said=said, ranks=ranks) == [0] * ranks, said.read_text()
    got = samples(tmp_path)  # 36 samples are left for two: 18 each
    assert got == list(range(96))
    assert "is of 1 processes, now there are 2" in said.read_text()


def test_where_the_rest_of_an_epoch_cannot_be_shared_its_end_is_named(forge: Forge, tmp_path: Path) -> None:
    args = ("dealt_net.py", tmp_path / "ckpt", tmp_path / "log", 5, "plain=1")
    assert forge.run(*args, said=tmp_path / "said", ranks=2) == [0, 0], (tmp_path / "said").read_text()
    assert forge.run(*args, said=tmp_path / "said", ranks=1) == [1]
    said = (tmp_path / "said").read_text()
    assert "does not divide the data by a DistributedSampler" in said
    assert "the end of epoch 0, 19 batches on" in said


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
    assert "%s is damaged and skipped" % newest.name in (tmp_path / "said").read_text()
    assert trials.outcome(tmp_path) == whole


def test_what_does_not_fit_a_sharded_state_is_refused(forge: Forge, trained: tuple, tmp_path: Path) -> None:
    kind, _, folder = trained
    if kind == "ddp":
        return
    args = (folder, tmp_path / "out", EPOCHS)
    assert forge.run("ddp_net.py", *args, said=tmp_path / "said", ranks=2) == [1, 1]
    assert "sharded in it: model, optimizer; sharded here: nothing" in (tmp_path / "said").read_text()
    assert forge.run("fsdp_net.py", *args, "width=32", said=tmp_path / "said", ranks=2) == [1, 1]
    assert re.search(
        r"does not match the script's state: Size mismatch.*model.0.weight", (tmp_path / "said").read_text()
    )


def test_a_script_without_ddp_reads_what_ddp_saved(forge: Forge, trained: tuple, tmp_path: Path) -> None:
    kind, whole, folder = trained
    if kind == "ddp":
        shutil.copytree(str(folder), str(tmp_path / "ckpt"))
        args = ("ddp_net.py", tmp_path / "ckpt", tmp_path / "out", EPOCHS, "plain=1")
        assert forge.run(*args, said=tmp_path / "said") == [0], (tmp_path / "said").read_text()
        assert trials.outcome(tmp_path)[0][: STATE[kind]] == whole[0][: STATE[kind]]


@pytest.mark.campaign
def test_the_first_kind_of_fsdp_resumes_too(forge: Forge, tmp_path: Path) -> None:
    for folder, epochs in (("a", 2), ("b", 1), ("b", 2)):
        args = ("fsdp_net.py", tmp_path / folder, tmp_path / (folder + "out"), epochs, "old=1")
        assert forge.run(*args, said=tmp_path / "said", ranks=2) == [0, 0], (tmp_path / "said").read_text()
    assert "every byte checked" in (tmp_path / "said").read_text()
    for rank in ("0", "1"):
        assert (tmp_path / ("aout." + rank)).read_bytes() == (tmp_path / ("bout." + rank)).read_bytes()


def die_and_finish(kind: str, at: str, whole: list[bytes], forge: Forge, folder: Path) -> None:
    """One process is killed at that thing it does to the disk; the others end by themselves. Started again, all is as
    if nothing had been.
    """
    folder.mkdir()
    args = (folder / "ckpt", folder / "out", EPOCHS, "every_steps=7")
    rcs = forge.run("die_at.py", at, SCRIPTS / (kind + "_net.py"), *args, said=folder / "said", ranks=2)
    victim = int(at[0])
    assert rcs[victim] == -9 and rcs[1 - victim] != 0, (at, rcs)
    assert forge.run(kind + "_net.py", *args, said=folder / "said", ranks=2) == [0, 0], (folder / "said").read_text()
    assert trials.outcome(folder) == whole, at
    assert not trials.left_over(folder), at


# Of the second process: in the middle of its first part, and of a later one. Of the first: before, while and after it
# seals a folder, or writes a file.
@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("at", ["1:1", "1:8", "0:9", "0:40"])
def test_a_process_that_dies_in_the_middle_of_a_save_loses_that_save_and_no_other(
    at: str, trained: tuple, forge: Forge, tmp_path: Path
) -> None:
    kind, whole, _ = trained
    if kind == "fsdp" or at[0] == "0":  # of DDP only the first process writes
        die_and_finish(kind, at, whole, forge, tmp_path / "die")


@pytest.mark.campaign
@pytest.mark.timeout(3 * 3600)
def test_a_process_that_dies_at_any_thing_it_does_to_the_disk_loses_one_save_at_most(
    forge: Forge, tmp_path: Path
) -> None:
    """Writes docs/reliability.md."""
    from tests import reliability

    began_s, rows = time.monotonic(), {}
    for kind, name in (("ddp", "DistributedDataParallel"), ("fsdp", "FSDP")):
        folder = tmp_path / kind
        folder.mkdir()
        args = (folder / "ckpt", folder / "out", EPOCHS, "every_steps=7")
        forge.run("die_at.py", "0:0", SCRIPTS / (kind + "_net.py"), *args, said=folder / "said", ranks=2)
        whole = trials.outcome(folder)
        for rank, file in enumerate((folder / "said", folder / "said.1")):
            count = int(file.read_text().rpartition("effects")[2])
            for at in range(1, count + 1):
                trial = folder / ("die%d-%d" % (rank, at))
                die_and_finish(kind, "%d:%d" % (rank, at), whole, forge, trial)
                shutil.rmtree(str(trial))
            if count:  # of DDP only the first process writes
                rows["%s, process %d" % (name, rank)] = count
    lines = [DIES, "", *reliability.table("kills, each held", rows)]
    reliability.put(KILLED, lines, time.monotonic() - began_s)


@pytest.mark.campaign(keep=1)
def test_torchrun_restarts_it_where_it_stood(trained: tuple, tmp_path: Path) -> None:
    """The second process is SIGKILLed in the middle of a save; torchrun starts both again."""
    kind, whole, _ = trained
    if kind != "fsdp":
        return
    log = tmp_path / "log"
    argv = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=2"]
    argv += [str(SCRIPTS / "die_at.py"), "1:8", str(SCRIPTS / "fsdp_net.py"), str(tmp_path / "ckpt")]
    argv += [str(tmp_path / "out"), str(EPOCHS), "every_steps=5", "log=%s" % log]
    # Without it PyTorch 2.13 may hand the addresses of the dead to those it starts again (pytorch issue 135712).
    env = environment(TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")
    done = subprocess.run(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240)
    said = done.stdout.decode()
    assert done.returncode == 0, said[-3000:]
    hit = re.search(r"resumes from ckpt-t000001-s\d+: epoch \d, step (\d+), every byte checked", said)
    assert hit, said[-3000:]
    saved = int(hit.group(1))
    assert [int(line) for line in log.read_text().split()] == [*range(1, saved + 6), *range(saved + 1, STEPS + 1)]
    assert trials.outcome(tmp_path) == whole


def test_without_its_process_group_it_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(distributed.SeveralProcesses, match="4 processes are training together.*init_process_group"):
        distributed.join()
    assert os.environ["WORLD_SIZE"] == "4"
