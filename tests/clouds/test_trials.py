"""Never rented twice, never forgotten: seeded trials over all providers."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.clouds.accounts import CLOUDS, account
from tests.clouds.trials import Trial, warm

DEAR = "compshare"  # a program is started for each question: it is played once where the others are six times


def play(name: str, count: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This provider's part of `count` trials over all providers, seed by seed."""
    warm()
    (answers := folder / "answers").mkdir()
    turns = [one for one in sorted(CLOUDS) for _ in range(1 if one == DEAR else 6)]
    for seed in (seed for seed in range(count) if turns[seed % len(turns)] == name):
        (mine := folder / str(seed)).mkdir()
        with account(name, mine, monkeypatch) as (cloud, site):
            here = replace(site, transport="local", base=str(folder / "base"))  # every machine is this one, to `down`
            Trial(cloud, here, mine / "client", answers, random.Random(f"{name} {seed}")).play()
        shutil.rmtree(mine)


@pytest.mark.trials(test=21, campaign=2000, soak=10_000)
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", sorted(CLOUDS))
def test_whatever_fails_no_machine_is_rented_twice_and_none_is_forgotten(
    trial_count: int, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`trial_count`: over all providers."""
    play(name, trial_count, tmp_path, monkeypatch)
