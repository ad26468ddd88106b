"""The product on request: the program itself, on the CPU for want of a card, with the Python that has torch."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from sojourn.box import evidence
from sojourn.box.probes import sampling


def lines(entry: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in entry["stdout"].splitlines()]


@pytest.mark.torch
def test_the_product_comes_out_the_same_each_time_and_is_told_by_card(tmp_path: Path) -> None:
    sample = {"seconds": 0.3, "matmul": True, "device": "cpu", "python": sys.executable}
    entry = evidence.of_box(str(tmp_path), ["cards"], sample)["probes"]["matmul"]
    told = lines(entry)
    assert entry["rc"] == 0 and entry["python"] == sys.executable, entry
    assert {"begin": [0]} in told and told[-1]["card"] == 0 and told[-1]["ok"] is True and told[-1]["tflops"] >= 0


@pytest.mark.torch
def test_a_python_whose_torch_sees_no_card_says_so_and_multiplies_nothing(tmp_path: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a card")
    entry = sampling._multiply({"seconds": 0.3, "python": sys.executable}, ["0"], lambda: None)
    assert entry["rc"] == 0 and lines(entry)[0]["avail"] is False and not any("card" in one for one in lines(entry))


def test_a_machine_without_torch_names_every_python_that_was_tried(tmp_path: Path) -> None:
    for name in ("python3", "python"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\nexit 3\n")
        program.chmod(0o755)
    init = f"PATH={tmp_path}"
    entry = sampling._multiply({"seconds": 0.3, "python": "/nowhere/python", "init": init}, ["0"], lambda: None)
    assert entry["rc"] == 127 and "/nowhere/python: does not start" in entry["stderr"]
    assert "python3: no torch" in entry["stderr"]


def test_cards_in_use_are_left_alone() -> None:
    name = "nvidia-smi --query-gpu=index,memory.total,memory.used,utilization.gpu --format=csv,noheader"
    text = "0, 81559 MiB, 4 MiB, 0 %\n1, 81559 MiB, 70000 MiB, 99 %\n2, 16384 MiB, 16000 MiB, 0 %\n"
    assert sampling._idle(name, text) == (["0"], "GPU 1 is busy (99 %), GPU 2 has 384 MiB free")
