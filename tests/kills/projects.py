"""The projects of tests/projects, each as its author wrote it, and how the walk reads and lengthens them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

_TORCH, _ADAPTERS = pytest.mark.torch, pytest.mark.adapters


@dataclass(frozen=True)
class Project:
    """A folder of tests/projects.

    `command`: how `run` and `resume` are said, from what `init` wrote ({}) to the step ({last}) where it shall end.
    `step`: what the log says for each step; times `scale` where that counts in other units. `every`: the steps between
    two of its own saves, which take `every_s` seconds. `saves`: globs of what a save writes, in the working copy.
    `slack`: steps that its log says again though they were not done again.
    """

    name: str
    command: str
    step: str
    every: int
    every_s: float
    saves: tuple[str, ...]
    scale: int = 1
    slack: int = 0
    marks: tuple[pytest.MarkDecorator, ...] = ()


ALL = (
    Project(
        "shell",
        "STEPS={last} PAUSE=0.3 {}",
        r"step (\d+)/\d+ ",
        5,
        3.5,
        ("model.pt",),
        marks=(_TORCH,),
    ),
    Project(
        "numpy_loop",
        "{} --pause 0.2 --epochs {last}",
        r"Epoch (\d+)/\d+",
        1,
        2.0,
        ("weights/*",),
    ),
    Project(
        "nanogpt",
        "{} --max_iters={last} --pause=0.1",
        r"iter (\d+): loss",
        20,
        2.3,
        ("out/*",),
        marks=(_TORCH,),
    ),
    Project(
        "hf",
        "{} --max_steps {last} --save_steps 20 --logging_steps 1 --pause 0.1 --disable_tqdm True --use_cpu True",
        r"'loss': .*'epoch': '([\d.]+)'",
        20,
        2.5,
        ("out/*", "out/*/*"),
        scale=64,
        marks=(_ADAPTERS,),
    ),
    Project(
        "lightning",
        "{} --max_steps {last} --pause 0.1",
        r"\| +([1-9]\d*)/(?:\d+|\?) \[",
        20,
        2.3,
        ("checkpoints/*",),
        slack=1,
        marks=(_ADAPTERS,),
    ),
)
NAMED = {one.name: one for one in ALL}
