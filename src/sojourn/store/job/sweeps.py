"""The key `sweep` of a job file: one way to list the cells, and when a cell is stopped early."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from sojourn.core import money
from sojourn.core.draw import Range, Space, is_range, read_range
from sojourn.store.job.reader import Reader
from sojourn.store.job.scalars import whole, without_zero
from sojourn.store.job.tree import Scalar, Table, Tree, is_null
from sojourn.store.job.values import EarlyStop, SweepSpec

KINDS = ["matrix", "cells", "queue", "random"]
RULES = ["median", "asha"]
MODES = ["max", "min"]
GRACE = 1
NONE = Range("uniform", 0.0, 1.0)  # stands in for a mistake
_LOWER = re.compile(r"loss|err|perplexity|ppl|mae|mse|wer|cer|fid", re.I)


def read_sweep(r: Reader, tree: Tree) -> SweepSpec:
    """Exactly one kind of sweep; mistakes are recorded in `r`."""
    found = r.table(tree, [*KINDS, "count", "seed", "early_stop", "budget"], "sweep")
    given = [kind for kind in KINDS if kind in found]
    if len(given) != 1:
        r.wrong(
            tree, f"`sweep` takes exactly one of {', '.join(KINDS)}{', not ' if given else ''}{' and '.join(given)}"
        )
    for key in ("count", "seed"):
        if key in found and "random" not in found:
            r.wrong(found[key], f"`sweep.{key}` belongs to `random`")
    if "random" in found and "count" not in found:
        r.wrong(found["random"], "`sweep.random` needs a `count`: how many cells to draw")
    queue = r.value(found.get("queue"), "sweep.queue", r.local_path, "")
    if queue and not os.path.isfile(queue):
        r.wrong(found["queue"], f"`sweep.queue`: there is no file {queue}")
    return SweepSpec(
        _matrix(r, found.get("matrix")),
        _cells(r, found.get("cells")),
        queue,
        r.value(found.get("budget"), "sweep.budget", money.read_money, None),
        _random(r, found.get("random")),
        r.value(found.get("count"), "sweep.count", whole, 0),
        r.value(found.get("seed"), "sweep.seed", _seed, 0),
        _early_stop(r, found["early_stop"]) if "early_stop" in found else None,
    )


def _matrix(r: Reader, tree: Tree | None) -> dict[str, tuple[str, ...]]:
    out: dict[str, tuple[str, ...]] = {}
    for key, inner in r.entries(tree, "`sweep.matrix` takes a mapping of names to lists"):
        values = _different(r, inner, f"sweep.matrix.{key.text}")
        if r.is_env_name(key, "sweep.matrix"):
            out[key.text] = values
    return out


def _random(r: Reader, tree: Tree | None) -> dict[str, Space]:
    """name -> a range, or a list to draw from."""
    out: dict[str, Space] = {}
    for key, inner in _rejoined(r.entries(tree, "`sweep.random` takes a mapping of names to ranges and lists")):
        where = f"sweep.random.{key.text}"
        space: Space = ()
        if isinstance(inner, Scalar) and is_range(inner.text):
            space = r.value(inner, where, read_range, NONE)
        elif isinstance(inner, Scalar):
            r.wrong(inner, f"`{where}` takes a range such as loguniform(1e-5, 1e-2), or a list to draw from")
        else:
            space = _different(r, inner, where)
        if r.is_env_name(key, "sweep.random"):
            out[key.text] = space
    return out


def _rejoined(entries: tuple[tuple[Scalar, Tree], ...]) -> list[tuple[Scalar, Tree]]:
    """The entries with ranges rejoined: in `{lr: uniform(0, 1)}` YAML ends the entry at the comma."""
    out: list[tuple[Scalar, Tree]] = []
    for key, inner in entries:
        before = out[-1][1] if out else None
        is_rest = is_null(inner) and key.text.endswith(")") and isinstance(before, Scalar) and "(" in before.text
        if is_rest and isinstance(before, Scalar) and ")" not in before.text:
            out[-1] = out[-1][0], Scalar(before.line, before.column, f"{before.text}, {key.text}")
        else:
            out.append((key, inner))
    return out


def _different(r: Reader, tree: Tree, where: str) -> tuple[str, ...]:
    values = tuple(r.value(item, where, without_zero, "") for item in r.items(tree, where))
    if not values or len(set(values)) < len(values):
        r.wrong(tree, f"`{where}` takes different values, at least one")
    return values


def _early_stop(r: Reader, tree: Tree) -> EarlyStop | None:
    found = r.table(tree, ["metric", "mode", "rule", "grace"], "sweep.early_stop")
    if "metric" not in found:
        if isinstance(tree, Table):
            r.wrong(tree, "`sweep.early_stop` needs a `metric`: a name that cells report with their progress")
        return None
    metric = r.value(found["metric"], "sweep.early_stop.metric", without_zero, "")
    mode = r.one_of(found["mode"], "sweep.early_stop.mode", MODES) if "mode" in found else ""
    rule = r.one_of(found["rule"], "sweep.early_stop.rule", RULES) if "rule" in found else "asha"
    grace = r.value(found.get("grace"), "sweep.early_stop.grace", whole, GRACE)
    return EarlyStop(metric, mode or ("min" if _LOWER.search(metric) else "max"), rule, grace)


def _seed(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,15}", text):
        raise ValueError(f"{text!r} is not a whole number of at least 0")
    return int(text)


def _cells(r: Reader, tree: Tree | None) -> tuple[tuple[str, Mapping[str, str]], ...]:
    out: dict[str, Mapping[str, str]] = {}
    for item in r.items(tree, "sweep.cells", tables=True):
        found = r.table(item, ["name", "envs"], "sweep.cells")
        name = r.value(found.get("name"), "sweep.cells.name", without_zero, "")
        if not name or name in out:
            r.wrong(item, "a cell needs a `name` of its own")
        envs = {}
        for key, inner in r.entries(found.get("envs"), "`sweep.cells.envs` takes a mapping of names to values"):
            if r.is_env_name(key, "sweep.cells.envs"):
                envs[key.text] = r.value(inner, f"sweep.cells.envs.{key.text}", without_zero, "")
        out[name] = envs
    return tuple(out.items())
