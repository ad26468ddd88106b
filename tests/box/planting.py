"""Faults that are planted for real, each a function of a rig and a folder: tried once, and in a soak twenty times."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.box.rig import Rig

Fault = Callable[[Rig, Path], None]
# Once is enough: that an old Python asks the same is what test_evidence shows.
MARKS = [pytest.mark.lab, pytest.mark.skipif(sys.version_info < (3, 11), reason="shown on the client's Python")]


def tests_of(faults: list[Fault]) -> tuple[Any, Any]:
    """(the test of one trial of each fault, that of twenty). SOJOURN_SOAK_TRIALS: another number of trials."""

    @pytest.mark.parametrize("fault", faults, ids=lambda fault: fault.__name__)
    def once(fault: Fault, rig: Rig, tmp_path: Path) -> None:
        fault(rig, tmp_path)

    @pytest.mark.soak
    @pytest.mark.parametrize("trial", range(int(os.environ.get("SOJOURN_SOAK_TRIALS", "20"))))
    @pytest.mark.parametrize("fault", faults, ids=lambda fault: fault.__name__)
    def often(fault: Fault, trial: int, rig: Rig, tmp_path: Path) -> None:
        fault(rig, tmp_path)

    return once, often
