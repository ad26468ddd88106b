"""Faults that are planted for real, each a function of a rig and a folder: tried once, and in a campaign often."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, Callable

import pytest

from tests import reliability
from tests.box.rig import Rig

Fault = Callable[[Rig, Path], None]
# Once is enough: that an old Python asks the same is what test_evidence shows.
MARKS = [pytest.mark.lab, pytest.mark.skipif(sys.version_info < (3, 11), reason="shown on the client's Python")]


def tests_of(faults: list[Fault], title: str, about: str) -> tuple[Any, Any]:
    """(the test of one trial of each fault, that of many, which writes its section of docs/reliability.md)."""

    @pytest.mark.campaign(keep=2)
    @pytest.mark.parametrize("fault", faults, ids=lambda fault: fault.__name__)
    def once(fault: Fault, rig: Rig, tmp_path: Path) -> None:
        fault(rig, tmp_path)

    @pytest.mark.campaign
    @pytest.mark.trials(campaign=2, soak=20)
    @pytest.mark.timeout(4 * 3600)
    def often(trial_count: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        began_s = time.monotonic()
        wrong: dict[str, list[str]] = {}
        for fault in faults:
            wrong[fault.__name__] = [story for trial in range(trial_count) if (story := _trial(fault, trial, tmp_path))]
            with capsys.disabled():  # a silent hour would be a bug
                print(fault.__name__, trial_count, "trials,", len(wrong[fault.__name__]), "wrong", flush=True)
        rows = [f"| {name.replace('_', ' ')} | {trial_count} | {len(told)} |" for name, told in wrong.items()]
        lines = [about, "", "| fault | trials | wrong |", "| --- | ---: | ---: |", *rows]
        reliability.put(title, lines, time.monotonic() - began_s)
        assert not any(wrong.values()), wrong

    return once, often


def _trial(fault: Fault, number: int, folder: Path) -> str:
    """One trial on a box of its own; "" where it held, else what did not."""
    own = folder / f"{fault.__name__}-{number}"
    own.mkdir()
    rig = Rig(own)
    try:
        fault(rig, own)
    except AssertionError as error:
        return str(error)[:300] or "it did not hold"
    finally:
        rig.close()
    return ""
