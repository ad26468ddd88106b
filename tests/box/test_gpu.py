"""Cards through NVML: a stand-in of the driver's library answers, by a text file. No real card was asked here."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict

import pytest

from sojourn.box.supervise.vitals import GpuLook
from sojourn.box.system import gpu
from tests.box.rig import Rig, until

pytest_plugins = ["tests.lab.nvml_fixtures"]


def test_cards_are_told_with_what_they_do_and_a_lost_one_shows(rig: Rig, nvml: Dict[str, str]) -> None:
    argv = [sys.executable, "-I", "-S", str(rig.keeper), "gpu"]
    done = subprocess.run(argv, capture_output=True, env=dict(os.environ, **nvml), timeout=60)
    assert gpu.parse(done.stdout) == [
        {
            "index": 0,
            "name": "NVIDIA A100-SXM4-80GB",
            "uuid": "GPU-aaaa",
            "memory_bytes": 80 << 30,
            "used_bytes": 1 << 30,
            "util_pct": 97,
            "temperature_c": 61,
            "power_w": 312.5,
        },
        {"index": 1, "error": 15},
    ]


@pytest.mark.parametrize("how", ["no library", "no driver"])
def test_a_machine_that_cannot_be_asked_says_why_and_costs_nothing(rig: Rig, nvml: Dict[str, str], how: str) -> None:
    env = dict(os.environ, **({} if how == "no library" else dict(nvml, NVML_STUB="/nowhere")))
    if how == "no library" and gpu.exists():
        pytest.skip("this machine has a driver")
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(rig.keeper), "gpu"], capture_output=True, env=env, timeout=60
    )
    assert done.returncode == 0 and json.loads(done.stdout)["error"]
    assert gpu.parse(done.stdout) is None


def test_a_look_comes_back_by_itself_and_is_told_once(
    rig: Rig, nvml: Dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "DEVICE", os.devnull)
    monkeypatch.setattr(sys, "argv", [str(rig.keeper)])
    for name, value in nvml.items():
        monkeypatch.setenv(name, value)
    look = GpuLook()
    look.begin()
    pid = look._pid
    cards: Any = until(look.take)
    assert [card["index"] for card in cards] == [0, 1]
    assert look.take() is None and os.waitpid(pid, 0) == (pid, 0)


def test_a_look_never_holds_a_beat_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "hangs"
    program.write_text("import time; time.sleep(600)")
    monkeypatch.setattr(gpu, "DEVICE", os.devnull)
    monkeypatch.setattr(sys, "argv", [str(program)])
    look = GpuLook()
    began = time.monotonic()
    look.begin()
    pid = look._pid
    assert pid and look.take() is None
    look.begin()
    assert look._pid == pid  # one at a time
    assert time.monotonic() - began < 30  # it never ends at all
    look.drop()
    assert os.waitpid(pid, 0)[0] == pid


def test_a_machine_without_a_driver_is_not_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(gpu, "DEVICE", str(tmp_path / "nothing"))
    look = GpuLook()
    look.begin()
    assert look._pid == 0 and look.take() is None


@pytest.mark.parametrize("data", [b"", b"[]", b"7", b"{", b'{"error": "no"}', b'{"gpus": 3}'])
def test_a_look_that_told_nothing_is_nothing(data: bytes) -> None:
    assert gpu.parse(data) is None
