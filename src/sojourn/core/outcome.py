"""Results of a sweep's cells: spread over seeds, which way a metric is better, the effect of one change. Pure."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

HIGHER, LOWER = "max", "min"
# Common names of metrics, as whole words; a name that matches both kinds, or neither, states no direction.
_HIGHER = (
    "acc accuracy auc auroc f1 ap map precision recall iou miou dice bleu rouge meteor cider psnr ssim r2 reward return"
    " score throughput mfu top1 top5"
).split()
_LOWER = "loss nll error err mse mae rmse ppl perplexity wer cer fid kl bpc bpb latency rank_loss eer".split()
_SEED = re.compile(r"(.*[_.-])?(seeds?|random_?state|replicates?|repeats?)", re.IGNORECASE)


@dataclass(frozen=True)
class Outcome:
    """One cell at home: its planned values and the numbers in its files."""

    run: str
    values: Mapping[str, str]
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class Spread:
    """A metric over the cells of one group. `sd`: of the sample (n - 1); None for a single cell."""

    n: int
    mean: float
    sd: float | None
    least: float
    most: float


@dataclass(frozen=True)
class Group:
    """Cells whose values differ in seeds alone. `planned`: cells the sweep has for it; 0 if unknown."""

    values: Mapping[str, str]
    cells: tuple[str, ...]
    spreads: Mapping[str, Spread]
    planned: int = 0


@dataclass(frozen=True)
class Change:
    """One metric of two groups. `is_better`: of the second; None if the direction is unknown or both are equal.

    `is_apart`: no value of one lies within the other's range; None unless both have two seeds or more.
    """

    before: float
    after: float
    is_better: bool | None
    is_apart: bool | None


@dataclass(frozen=True)
class Comparison:
    """Two groups (by list position) that differ in exactly one variable."""

    variable: str
    before: str
    after: str
    held: Mapping[str, str]
    groups: tuple[int, int]
    metrics: Mapping[str, Change]


def is_seed(variable: str) -> bool:
    """By its name it only repeats a cell: seed, data_seed, random_state, repeat ..."""
    return _SEED.fullmatch(variable) is not None


def direction(metric: str) -> str:
    """max, min, or "" if the metric's name does not say which is better."""
    words = re.findall(r"[a-z]+[0-9]*", metric.rsplit(".", 1)[-1].lower())
    ways = {HIGHER for word in words if word in _HIGHER} | {LOWER for word in words if word in _LOWER}
    return ways.pop() if len(ways) == 1 else ""


def spread(numbers: Sequence[float]) -> Spread:
    """Of one number or more."""
    # If all are equal, use that number: their sum may overflow a float.
    mean = numbers[0] if min(numbers) == max(numbers) else math.fsum(numbers) / len(numbers)
    off = math.fsum((number - mean) ** 2 for number in numbers)
    sd = math.sqrt(off / (len(numbers) - 1)) if len(numbers) > 1 else None
    return Spread(len(numbers), mean, sd, min(numbers), max(numbers))


def grouped(cells: Sequence[Outcome], seeds: Sequence[str]) -> tuple[Group, ...]:
    """The cells grouped by all values but `seeds`, in the order of each group's first cell."""
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


def with_plan(
    groups: Sequence[Group], plan: Mapping[str, Mapping[str, str]], seeds: Callable[[str], bool]
) -> tuple[Group, ...]:
    """The groups with `planned` set. `plan`: every cell of the sweep -> its values; `seeds`: is this variable one?"""
    keys = {run: frozenset((k, v) for k, v in values.items() if not seeds(k)) for run, values in plan.items()}
    counts = Counter(keys.values())
    return tuple(replace(group, planned=counts[keys[group.cells[0]]]) for group in groups)


def short(groups: Sequence[Group], metric: str) -> tuple[int, ...]:
    """Positions of the groups that cannot be ranked: planned cells are missing, and another group has more values.

    The mean of the remaining seeds says little: a failed seed may have been the bad one.
    """
    counts = {n: group.spreads[metric].n for n, group in enumerate(groups) if metric in group.spreads}
    most = max(counts.values(), default=0)
    return tuple(n for n, count in counts.items() if count < min(groups[n].planned, most))


def best(groups: Sequence[Group], metric: str, way: str) -> tuple[int, ...]:
    """Positions of the groups with the best mean; several if equal, none if the direction is unknown.

    A `short` group is never the best.
    """
    left = short(groups, metric)
    means = {
        n: group.spreads[metric].mean for n, group in enumerate(groups) if metric in group.spreads and n not in left
    }
    if not way or not means:
        return ()
    first = max(means.values()) if way == HIGHER else min(means.values())
    return tuple(n for n, mean in means.items() if mean == first)


def comparisons(groups: Sequence[Group], ways: Mapping[str, str]) -> tuple[Comparison, ...]:
    """For each group and variable, a comparison with the first group that has all else equal: one change at a time.

    `ways`: metric -> its direction. At most one comparison per group and variable.
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
