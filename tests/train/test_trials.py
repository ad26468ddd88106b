"""A hundred SIGKILLs and twenty SIGTERMs at random moments for every kind of training, for docs/reliability.md.

A tenth of it is in test_torch_kill, test_adapters and test_ranks. One trial again, with its story:
`.venv/bin/python -m tests.train --kind hf --seed 1003`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.train import trials
from tests.train.forging import Forge
from tests.violation import held

TITLE = "Training is killed at random"
WHAT = """\
A training of 60 steps gets six real signals, five SIGKILLs and one SIGTERM, each at a random moment of the process (a
third of the SIGKILLs while it starts and reads its checkpoint). The same command restarts it each time, and at last it
runs to its end. The seed determines the training, the cadence (every 1, 3 or 5 steps), the order of the signals and
which of several processes is hit. Each start is a separate process, forked from one that has imported the libraries.
The Trainers of Hugging Face and Lightning are the real ones (a quarter of Lightning's each: as it is, validating every
so many batches across epochs, reading a loader without a length, and torchdata's); several processes means two, on
gloo."""
HELD = """\
Held in every trial that is not broken: the final weights, the optimizers' state and the next random draws are those of
the uninterrupted training, bit for bit on a CPU; SIGTERM ended it with 75; after every strike, what the pointer called
saved existed and was whole; nothing half-written is left; no strike made it compute more steps twice than the cadence,
even when another process writes (with `when_behind="wait"`)."""
AGAIN = "Repeat a trial, with its story: `.venv/bin/python -m tests.train --kind hf --seed 1003`."
NAMES = {
    "torch": "PyTorch", "hf": "Hugging Face Trainer", "lightning": "Lightning",
    "ddp": "DistributedDataParallel", "fsdp": "FSDP", "hf2": "Hugging Face Trainer, two processes",
    "lightning2": "Lightning, two processes", "accumulated": "PyTorch, accumulated gradients",
    "accelerate": "Accelerate, accumulated gradients", "hf-accumulated": "Hugging Face Trainer, accumulated gradients",
    "lightning-accumulated": "Lightning, accumulated gradients",
    **{f"everyday-{by}": f"PyTorch, {words}" for by, words in trials.EVERYDAY.items()},
}  # fmt: skip


@pytest.mark.campaign
@pytest.mark.trials(campaign=3, soak=20)
@pytest.mark.adapters
@pytest.mark.timeout(6 * 3600)
def test_a_hundred_kills_of_every_kind_of_training(
    trial_count: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Writes docs/reliability.md. `trial_count`: trials of each kind, of six signals each."""
    from tests import reliability

    began_s = time.monotonic()
    verdicts = []
    for kind, about in trials.KINDS.items():
        with Forge(*about.modules) as forge:
            played = trials.Trials(kind, forge, tmp_path)
            for seed in range(1000, 1000 + trial_count):
                verdicts.append(played.play(seed))
                with capsys.disabled():  # a silent hour would be a bug
                    print(verdicts[-1], flush=True)
    reliability.put(TITLE, [WHAT, "", HELD, "", AGAIN, "", *table(verdicts)], time.monotonic() - began_s)
    held(not trials.stories(verdicts), trials.stories(verdicts))


def table(verdicts: Sequence[trials.Verdict]) -> list[str]:
    """A row for each kind of training and way to save; then what broke."""
    rows: dict[str, list[trials.Verdict]] = {}
    for one in verdicts:
        way = trials.KINDS[one.kind].way(one.seed)
        name = NAMES[one.kind] + (", another process writes" if "background=1" in way.args else "")
        rows.setdefault(name, []).append(one)
    out = ["| training | trials | broken | SIGKILL | SIGTERM | starts | steps computed twice | most by one strike |"]
    out.append("| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
    for name, ones in rows.items():
        broken = sum(bool(one.breaches) for one in ones)
        sums = [sum(row) for row in zip(*((one.kills, one.terms, one.attempts, sum(one.twice)) for one in ones))]
        worst = {one.every: 0 for one in sorted(ones, key=lambda one: one.every)}
        for one in ones:
            worst[one.every] = max(worst[one.every], *one.twice, 0)
        most = ", ".join(f"{most} at every {every}" for every, most in worst.items())
        out.append(f"| {name} | {len(ones)} | {broken} | {' | '.join(f'{number:,}' for number in sums)} | {most} |")
    return out + [f"\nBroken: {one.kind} seed {one.seed}: {one.breaches[0][:200]}" for one in verdicts if one.breaches]


def test_the_page_tells_how_many_signals_came_and_what_broke() -> None:
    good = trials.Verdict("torch", 1000, every=3, kills=5, terms=1, attempts=7, twice=[2, 3])
    bad = trials.Verdict("torch", 1004, every=1, kills=2, attempts=2, breaches=["it ended with other bytes"])
    other = trials.Verdict("torch", 1001, every=3, kills=5, terms=1, attempts=7, twice=[6])
    assert table([good, bad, other])[2:] == [
        "| PyTorch | 2 | 1 | 7 | 1 | 9 | 5 | 0 at every 1, 3 at every 3 |",
        "| PyTorch, another process writes | 1 | 0 | 5 | 1 | 7 | 6 | 6 at every 3 |",
        "\nBroken: torch seed 1004: it ended with other bytes",
    ]
