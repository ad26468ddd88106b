"""Killed at any moment and started again, a training ends with the very same bytes. numpy here, PyTorch in
test_torch_kill.
"""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest

from sojourn.formats.torch import zip as torch_zip
from tests.train.killing import SCRIPTS, run, run_killed


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, float]:
    """(final bytes, seconds) of the uninterrupted training."""
    folder = tmp_path_factory.mktemp("whole")
    began_s = time.monotonic()
    rc, said = run("numpy_mlp.py", folder / "ckpt", folder / "out", 5, "pause_s=0.005")
    assert rc == 0, said
    return (folder / "out").read_bytes(), time.monotonic() - began_s


def check_folder(folder: Path) -> None:
    """Every file that bears a checkpoint's name is one, and nothing half-written lies about."""
    names = sorted(path.name for path in folder.iterdir())
    good = [name for name in names if re.fullmatch(r"ckpt-t\d{6}-s\d{8}\.pt|best\.pt", name)]
    assert set(names) - set(good) <= {"latest.json", ".lock"}
    assert all(torch_zip.walk(str(folder / name)).problems == () for name in good)


@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.campaign) for seed in range(6, 100))]
)
def test_ends_with_the_same_bytes_after_any_number_of_kills(seed: int, tmp_path: Path, whole: tuple) -> None:
    dice = random.Random(seed)
    pace = dice.choice(["every_steps=1", "every_steps=7", "every_s=0.05", "every_s=1000"])
    args = (tmp_path / "ckpt", tmp_path / "out", 5, "pause_s=0.005", pace, "background=%d" % (seed % 2))
    run_killed(dice, dice.randint(1, 6), whole[1], "numpy_mlp.py", *args)
    assert (tmp_path / "out").read_bytes() == whole[0]
    check_folder(tmp_path / "ckpt")


def effects(tmp_path: Path) -> int:
    args = (0, SCRIPTS / "numpy_mlp.py", tmp_path / "count", tmp_path / "count-out", 2, "every_steps=9")
    rc, said = run("die_at.py", *args)
    assert rc == 0, said
    return int(said.rpartition("effects")[2])


def die_and_finish(tmp_path: Path, at: int) -> bytes:
    folder, out = tmp_path / ("ckpt%d" % at), tmp_path / ("out%d" % at)
    rc, said = run("die_at.py", at, SCRIPTS / "numpy_mlp.py", folder, out, 2, "every_steps=9")
    assert rc == -9, said
    good = [path for path in folder.glob("ckpt-*.pt") if folder.exists()]
    assert all(torch_zip.walk(str(path)).problems == () for path in good)
    rc, said = run("numpy_mlp.py", folder, out, 2, "every_steps=9")
    assert rc == 0, said
    assert ("resumes from" in said) == bool(good)
    check_folder(folder)
    return out.read_bytes()


def test_survives_a_kill_at_everything_it_does_to_the_disk(tmp_path: Path) -> None:
    """Every tenth here, every single one in `make campaign`."""
    count = effects(tmp_path)
    assert count > 40
    for at in range(1, count + 1, 10):
        assert die_and_finish(tmp_path, at) == (tmp_path / "count-out").read_bytes(), "killed at effect %d" % at


@pytest.mark.campaign
def test_survives_a_kill_at_every_single_thing_it_does_to_the_disk(tmp_path: Path) -> None:
    for at in range(1, effects(tmp_path) + 1):
        assert die_and_finish(tmp_path, at) == (tmp_path / "count-out").read_bytes(), "killed at effect %d" % at


@pytest.mark.parametrize("signal_name", ["SIGTERM", "SIGUSR1"])
def test_a_preemption_signal_saves_the_present_step_and_leaves_with_75(
    signal_name: str, tmp_path: Path, whole: tuple
) -> None:
    import signal

    from tests.train.killing import start, wait_for

    args = (tmp_path / "ckpt", tmp_path / "out", 5, "every_s=1000", "hold=%s" % (tmp_path / "struck"))
    process = start("numpy_mlp.py", *args)
    wait_for(tmp_path / "ckpt", "ckpt-*.pt")  # the first epoch's
    process.send_signal(getattr(signal, signal_name))
    (tmp_path / "struck").touch()
    said = process.communicate(timeout=60)[0].decode()
    assert process.returncode == 75, said
    hit = re.search(signal_name + r" at step (\d+): saved at step (\d+); exiting with 75", said)
    assert hit and hit.group(1) == hit.group(2), said
    rc, said = run("numpy_mlp.py", *args)
    assert rc == 0 and "step %s, every byte" % hit.group(2) in said
    assert (tmp_path / "out").read_bytes() == whole[0]


def test_started_again_when_it_is_over_it_changes_nothing(tmp_path: Path) -> None:
    args = (tmp_path / "ckpt", tmp_path / "out", 2)
    assert run("numpy_mlp.py", *args)[0] == 0
    before, stood = (
        (tmp_path / "out").read_bytes(),
        sorted((p.name, p.stat().st_mtime_ns) for p in (tmp_path / "ckpt").iterdir()),
    )
    rc, said = run("numpy_mlp.py", *args)
    assert rc == 0 and "start 2 26 True" in said
    assert (tmp_path / "out").read_bytes() == before
    assert sorted((p.name, p.stat().st_mtime_ns) for p in (tmp_path / "ckpt").iterdir()) == stood


def test_a_longer_training_goes_on_from_a_shorter_one(tmp_path: Path, whole: tuple) -> None:
    assert run("numpy_mlp.py", tmp_path / "ckpt", tmp_path / "out", 3)[0] == 0
    assert run("numpy_mlp.py", tmp_path / "ckpt", tmp_path / "out", 5)[0] == 0
    assert (tmp_path / "out").read_bytes() == whole[0]
