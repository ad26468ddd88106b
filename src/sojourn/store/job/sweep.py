"""The `sweep` of a job file: a matrix, a list of cells, or a queue file."""

from __future__ import annotations

import os
from collections.abc import Mapping

from sojourn.core import money
from sojourn.store.job.reader import Reader, without_zero
from sojourn.store.job.tree import Tree
from sojourn.store.job.values import SweepSpec

KINDS = ["matrix", "cells", "queue"]
# Words of a line of a queue file.
QUEUE_NAMES = ["config", "task", "epochs"]


def read_sweep(r: Reader, tree: Tree) -> SweepSpec:
    """Exactly one kind of sweep; mistakes are noted in `r`."""
    found = r.table(tree, [*KINDS, "budget"], "sweep")
    given = [kind for kind in KINDS if kind in found]
    if len(given) != 1:
        r.wrong(
            tree, f"`sweep` takes exactly one of {', '.join(KINDS)}{', not ' if given else ''}{' and '.join(given)}"
        )
    queue = r.value(found.get("queue"), "sweep.queue", r.local_path, "")
    if queue and not os.path.isfile(queue):
        r.wrong(found["queue"], f"`sweep.queue`: there is no file {queue}")
    budget = r.value(found.get("budget"), "sweep.budget", money.read_money, None)
    return SweepSpec(_matrix(r, found.get("matrix")), _cells(r, found.get("cells")), queue, budget)


def sweep_names(sweep: SweepSpec | None) -> list[str]:
    """What the cells of a sweep declare for `${NAME}`."""
    if sweep is None:
        return []
    if sweep.queue:
        return QUEUE_NAMES
    return [*sweep.matrix, *dict.fromkeys(name for _, envs in sweep.cells for name in envs)]


def _matrix(r: Reader, tree: Tree | None) -> dict[str, tuple[str, ...]]:
    out: dict[str, tuple[str, ...]] = {}
    for key, inner in r.entries(tree, "`sweep.matrix` takes a mapping of names to lists"):
        where = f"sweep.matrix.{key.text}"
        values = tuple(r.value(item, where, without_zero, "") for item in r.items(inner, where))
        if not values or len(set(values)) < len(values):
            r.wrong(inner, f"`{where}` takes different values, at least one")
        if r.is_env_name(key, "sweep.matrix"):
            out[key.text] = values
    return out


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
