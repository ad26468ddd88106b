"""`sweep results`: the metrics of every cell that is home and loaded, with its parameters, spread and changes.

Asks no box: what counts is what was pulled and proven, read again from the very bytes that its receipts name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sojourn.core.outcome import Comparison, Group, Outcome, best, comparisons, direction, grouped, is_seed
from sojourn.core.values import State
from sojourn.store.index import NotFound
from sojourn.store.records import RunRecord
from sojourn.verbs.answers import document
from sojourn.verbs.context import Context
from sojourn.verbs.sweep.measured import Changed, File, best_stated, read_files
from sojourn.wire.errors import Misuse


class NoSuchMetric(Misuse):
    """No loaded cell of {sweep} has the metric {metric}; they have: {known}."""

    code = "no-such-metric"
    next_step = "sojourn sweep results {sweep} --json"


@dataclass(frozen=True)
class Metric:
    """One metric. `direction`: max, min or ""; `by`: who said so: stated, checkpoint, name or ""."""

    name: str
    direction: str = ""
    by: str = ""


@dataclass(frozen=True)
class Measured:
    """One cell that counts."""

    run: str
    site: str
    attempt: int
    values: Mapping[str, str]
    metrics: Mapping[str, float]
    files: tuple[File, ...]


@dataclass(frozen=True)
class Results:
    """What `sweep results` found. `varied`: variables that differ between cells; `seeds`: of them those that repeat.

    `left_out`: (cell, why) of every other cell of the sweep; `held`: variables that are the same in all.
    """

    id: str
    expected: int
    cells: tuple[Measured, ...]
    metrics: tuple[Metric, ...]
    varied: tuple[str, ...]
    seeds: tuple[str, ...]
    held: Mapping[str, str]
    groups: tuple[Group, ...]
    comparisons: tuple[Comparison, ...]
    left_out: tuple[tuple[str, str], ...] = ()
    remarks: tuple[str, ...] = ()
    next: str = ""

    @property
    def exit_status(self) -> int:
        """0: every cell that is expected counts, and has a metric; else 1."""
        return 0 if self.cells and self.metrics and not self.left_out else 1

    def best(self, metric: Metric) -> tuple[int, ...]:
        """Places of the best groups; none where no direction is known."""
        return best(self.groups, metric.name, metric.direction)

    def as_json(self) -> dict[str, Any]:
        """The `results` document."""
        return document(
            self,
            "results",
            without=("held",),
            loaded=len(self.cells),
            held=dict(self.held),
            metrics=[{"name": m.name, "direction": m.direction or None, "by": m.by or None} for m in self.metrics],
            cells=[
                {
                    **asdict(cell),
                    "values": dict(cell.values),
                    "files": [{"path": file.path, "sha256": file.sha256} for file in cell.files],
                }
                for cell in self.cells
            ],
            groups=[
                {
                    "values": dict(group.values),
                    "cells": list(group.cells),
                    "metrics": {
                        name: {"n": s.n, "mean": s.mean, "sd": s.sd, "min": s.least, "max": s.most}
                        for name, s in group.spreads.items()
                    },
                }
                for group in self.groups
            ],
            best={metric.name: list(self.best(metric)) for metric in self.metrics if metric.direction},
            comparisons=[_comparison_json(one) for one in self.comparisons],
            left_out=[{"run": run, "why": why} for run, why in self.left_out],
            exit=self.exit_status,
        )

    def rows(self) -> list[list[str]]:
        """A table for other programs: a head, then one row a cell; "" where a cell lacks a value or a metric."""
        named = [*self.held, *self.varied]
        out = [["run", "site", "attempt", *named, *(metric.name for metric in self.metrics)]]
        for cell in self.cells:
            numbers = [repr(cell.metrics[m.name]) if m.name in cell.metrics else "" for m in self.metrics]
            out.append([cell.run, cell.site, str(cell.attempt), *(cell.values.get(n, "") for n in named), *numbers])
        return out


def results(ctx: Context, sweep: str, *, metrics: Sequence[tuple[str, str]] = (), seeds: Sequence[str] = ()) -> Results:
    """The results of a sweep's cells that succeeded, are home and load.

    `metrics`: (name, max, min or "") of those to tell of, () = all. `seeds`: variables that only repeat a cell, () =
    those called so. Raises: Misuse (not-found, no-such-metric).
    """
    name = ctx.store.index.sweep(sweep)
    if not name:
        raise NotFound(what="sweep", wanted=sweep, hint="")
    records = ctx.store.index.cells(name)
    read: list[tuple[RunRecord, list[File]]] = []
    left_out: list[tuple[str, str]] = []
    remarks: dict[str, None] = {}
    for record in records:
        why = _why_not(record)
        if not why:
            try:
                files, said = read_files(record.receipts, list(_values(record)))
            except Changed as changed:
                why = str(changed)
            else:
                read.append((record, files))
                remarks.update(dict.fromkeys(said))
        if why:
            left_out.append((record.id, why))
    doubled = _doubled([files for _, files in read])
    cells = tuple(_measured(record, files, doubled) for record, files in read)
    told = _metrics(name, records, cells, metrics)
    shown = {metric.name for metric in told}
    held, varied = _variables(cells)
    repeats = tuple(v for v in varied if v in seeds or (not seeds and is_seed(v)))
    outcomes = [
        Outcome(
            cell.run,
            {variable: cell.values.get(variable, "") for variable in varied},
            {metric: number for metric, number in cell.metrics.items() if metric in shown},
        )
        for cell in cells
    ]
    groups = grouped(outcomes, repeats)
    remarks.update(dict.fromkeys(_remarks(cells, varied, groups)))
    return Results(
        name,
        len(records),
        cells,
        told,
        varied,
        repeats,
        held,
        groups,
        comparisons(groups, {metric.name: metric.direction for metric in told}),
        tuple(left_out),
        tuple(remarks),
        _next(name, left_out),
    )


def _why_not(record: RunRecord) -> str:
    """Why a cell does not count, "" where it does."""
    status = record.status
    if status.state is State.SUCCEEDED and record.is_home:
        return ""
    if status.state is not State.SUCCEEDED:
        said = f"{status.state.value}: {status.reason}" if status.reason else status.state.value
        return f"{said}, as last heard" if status.state.is_alive else said
    if record.is_pulled:
        return f"what came home is not whole: {record.problems[0]}"
    return "it succeeded, and is not home"


def _values(record: RunRecord) -> Mapping[str, str]:
    return record.local.get("values") or {}


def _doubled(cells: Sequence[Sequence[File]]) -> set[str]:
    """Names that more than one file of a cell has: these are told with their file."""
    found: set[str] = set()
    for files in cells:
        known: set[str] = set()
        for file in files:
            found |= known & set(file.numbers)
            known |= set(file.numbers)
    return found


def _measured(record: RunRecord, files: Sequence[File], doubled: set[str]) -> Measured:
    metrics = {
        f"{file.path}:{name}" if name in doubled else name: number
        for file in files
        for name, number in file.numbers.items()
    }
    return Measured(record.id, record.site_name, record.status.attempt, _values(record), metrics, tuple(files))


def _metrics(
    sweep: str, records: Sequence[RunRecord], cells: Sequence[Measured], wanted: Sequence[tuple[str, str]]
) -> tuple[Metric, ...]:
    known = list(dict.fromkeys(name for cell in cells for name in cell.metrics))
    said = dict(wanted)
    for name in said:
        if name not in known:
            raise NoSuchMetric(sweep=sweep, metric=name, known=", ".join(known[:20]) or "none")
    trained = dict(stated for record in records if (stated := best_stated(record.receipts)))
    found = []
    for name in said or known:
        own = trained.get(name.rsplit(":", 1)[-1], "")
        way = said.get(name) or own or direction(name)
        by = "stated" if said.get(name) else "checkpoint" if own else "name" if way else ""
        found.append(Metric(name, way, by))
    return tuple(found)


def _variables(cells: Sequence[Measured]) -> tuple[dict[str, str], tuple[str, ...]]:
    """(variables that are the same in all cells, those that are not), in the order they were written."""
    names = dict.fromkeys(name for cell in cells for name in cell.values)
    seen = {name: {cell.values.get(name, "") for cell in cells} for name in names}
    varied = tuple(name for name, values in seen.items() if len(values) > 1)
    return {name: values.pop() for name, values in seen.items() if name not in varied}, varied


def _remarks(cells: Sequence[Measured], varied: Sequence[str], groups: Sequence[Group]) -> list[str]:
    out = []
    bare = [cell.run for cell in cells if not cell.metrics]
    if bare:
        out.append(f"{len(bare)} loaded cells have no metric file: {', '.join(bare[:5])}")
    if varied and all(len(group.cells) == 1 for group in groups) and len(groups) > 1:
        out.append("one seed each: the random variation of a metric is unknown")
    return out


def _next(sweep: str, left_out: Sequence[tuple[str, str]]) -> str:
    if not left_out:
        return ""
    is_away = any(why == "it succeeded, and is not home" for _, why in left_out)
    return f"sojourn pull {sweep}" if is_away else f"sojourn reconcile {sweep}"


def _comparison_json(one: Comparison) -> dict[str, Any]:
    return {
        "variable": one.variable,
        "from": one.before,
        "to": one.after,
        "held": dict(one.held),
        "groups": list(one.groups),
        "metrics": {
            name: {
                "from": change.before,
                "to": change.after,
                "difference": change.after - change.before,
                "better": change.is_better,
                "apart": change.is_apart,
            }
            for name, change in one.metrics.items()
        },
    }
