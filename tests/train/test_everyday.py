"""Loops that people write, killed: two of them here, all in test_trials."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.train import trials
from tests.train.forging import Forge

pytestmark = pytest.mark.torch


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("by", ["persistent", "evaluating"])
def test_struck_at_random_moments_it_ends_with_the_same_bytes(by: str, tmp_path: Path) -> None:
    kind = f"everyday-{by}"
    with Forge(*trials.KINDS[kind].modules) as forge:
        verdict = trials.Trials(kind, forge, tmp_path).play(1, kills=2, terms=1)
    assert not verdict.breaches, trials.stories([verdict])
