"""What came of the cells of a sweep: spread over seeds, which way a metric is better, what one change did. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

HIGHER, LOWER = "max", "min"
# How a metric is commonly called, as whole words of its name; a name of both kinds, or of neither, states no direction.
_HIGHER = (
    "acc accuracy auc auroc f1 ap map precision recall iou miou dice bleu rouge meteor cider psnr ssim r2 reward return"
    " score throughput mfu top1 top5"
).split()
_LOWER = "loss nll error err mse mae rmse ppl perplexity wer cer fid kl bpc bpb latency rank_loss eer".split()
_SEED = re.compile(r"(.*[_.-])?(seeds?|random_?state|replicates?|repeats?)", re.IGNORECASE)


@dataclass(frozen=True)
class Outcome:
    """One cell that is home: the values that it was planned with and the numbers that its files hold."""

    run: str
    values: Mapping[str, str]
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class Spread:
    """A metric over the cells of one group. `sd`: of the sample (n - 1); None of a single cell."""

    n: int
    mean: float
    sd: float | None
    least: float
    most: float


@dataclass(frozen=True)
class Group:
    """Cells whose values differ in seeds alone."""

    values: Mapping[str, str]
    cells: tuple[str, ...]
    spreads: Mapping[str, Spread]


@dataclass(frozen=True)
class Change:
    """One metric of two groups. `is_better`: of the second, None where no direction is known or both are equal.

    `is_apart`: no value of the one lies within the range of the other; None unless both have two seeds or more.
    """

    before: float
    after: float
    is_better: bool | None
    is_apart: bool | None


@dataclass(frozen=True)
class Comparison:
    """Two groups (their places in the list) that differ in one variable and in nothing else."""

    variable: str
    before: str
    after: str
    held: Mapping[str, str]
    groups: tuple[int, int]
    metrics: Mapping[str, Change]


def is_seed(variable: str) -> bool:
    """It is there to repeat a cell, by its name: seed, data_seed, random_state, repeat ..."""
    return _SEED.fullmatch(variable) is not None


def direction(metric: str) -> str:
    """max, min, or "" where the metric's name does not tell which way is better."""
    words = re.findall(r"[a-z]+[0-9]*", metric.rsplit(".", 1)[-1].lower())
    ways = {HIGHER for word in words if word in _HIGHER} | {LOWER for word in words if word in _LOWER}
    return ways.pop() if len(ways) == 1 else ""


def spread(numbers: Sequence[float]) -> Spread:
    """Of at least one number."""
    # Of equal numbers it is that number: their sum may be none that a float can say.
    mean = numbers[0] if min(numbers) == max(numbers) else math.fsum(numbers) / len(numbers)
    off = math.fsum((number - mean) ** 2 for number in numbers)
    sd = math.sqrt(off / (len(numbers) - 1)) if len(numbers) > 1 else None
    return Spread(len(numbers), mean, sd, min(numbers), max(numbers))


def grouped(cells: Sequence[Outcome], seeds: Sequence[str]) -> tuple[Group, ...]:
    """The cells by all their values but `seeds`, in the order of each group's first cell."""
    found: dict[tuple[tuple[str, str], ...], list[Outcome]] = {}
    for cell in cells:
        key = tuple((name, value) for name, value in cell.values.items() if name not in seeds)
        found.setdefault(tuple(sorted(key)), []).append(cell)
    out = []
    for some in found.values():
        values = {name: value for name, value in some[0].values.items() if name not in seeds}
        names = dict.fromkeys(name for cell in some for name in cell.metrics)
        spreads = {name: spread([c.metrics[name] for c in some if name in c.metrics]) for name in names}
        out.append(Group(values, tuple(cell.run for cell in some), spreads))
    return tuple(out)


def best(groups: Sequence[Group], metric: str, way: str) -> tuple[int, ...]:
    """Places of the groups with the best mean; several where they are equal, none where no direction is known."""
    means = {n: group.spreads[metric].mean for n, group in enumerate(groups) if metric in group.spreads}
    if not way or not means:
        return ()
    first = max(means.values()) if way == HIGHER else min(means.values())
    return tuple(n for n, mean in means.items() if mean == first)


def comparisons(groups: Sequence[Group], ways: Mapping[str, str]) -> tuple[Comparison, ...]:
    """For each group and each variable, against the first group that has all else equal: one change at a time.

    `ways`: metric -> its direction. At most one comparison for each group and variable.
    """
    firsts: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
    found = []
    for n, group in enumerate(groups):
        for variable, value in group.values.items():
            held = tuple(sorted((name, other) for name, other in group.values.items() if name != variable))
            first = firsts.setdefault((variable, held), n)
            if first == n:
                continue
            old = groups[first]
            shared = [metric for metric in old.spreads if metric in group.spreads]
            metrics = {name: _change(old.spreads[name], group.spreads[name], ways.get(name, "")) for name in shared}
            found.append(Comparison(variable, old.values[variable], value, dict(held), (first, n), metrics))
    return tuple(found)


def _change(old: Spread, new: Spread, way: str) -> Change:
    is_better = None if not way or new.mean == old.mean else (new.mean > old.mean) == (way == HIGHER)
    is_apart = None if min(old.n, new.n) < 2 else old.most < new.least or new.most < old.least
    return Change(old.mean, new.mean, is_better, is_apart)
