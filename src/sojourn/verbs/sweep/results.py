"""`sweep results`: the metrics of every cell that is home and loaded, with its parameters, spread and changes.

Asks no box: what counts is what was pulled and proven, read again from the very bytes that its receipts name. A cell
without a metric file has the numbers that the run reported while it ran, marked as such.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sojourn.core.outcome import (
    Comparison,
    Group,
    Outcome,
    Spread,
    best,
    comparisons,
    direction,
    grouped,
    is_seed,
    short,
    with_plan,
)
from sojourn.core.values import State
from sojourn.store.index import NotFound
from sojourn.store.records import RunRecord
from sojourn.verbs.answers import document
from sojourn.verbs.context import Context
from sojourn.verbs.sweep.measured import Changed, File, best_stated, read_files, reported
from sojourn.wire.errors import Misuse

CODE = "(code)"  # no variable of a job file is called so


class NoSuchMetric(Misuse):
    """No loaded cell of {sweep} has the metric {metric}; they have: {known}."""

    code = "no-such-metric"
    next_step = "sojourn sweep results {sweep} --json"


@dataclass(frozen=True)
class Metric:
    """One metric. `direction`: max, min or ""; `by`: who said so: stated, sweep, checkpoint, name or ""."""

    name: str
    direction: str = ""
    by: str = ""


@dataclass(frozen=True)
class Measured:
    """One cell that counts. `is_reported`: its metrics are what the run said of itself; no file at home holds them."""

    run: str
    site: str
    attempt: int
    values: Mapping[str, str]
    metrics: Mapping[str, float]
    files: tuple[File, ...]
    is_reported: bool = False
    code: str = ""  # digest of the code that made them


@dataclass(frozen=True)
class Results:
    """What `sweep results` found. `varied`: variables that differ between cells; `seeds`: of them those that repeat.

    `left_out`: (cell, why) of every other cell of the sweep, except the `pruned`, which were stopped early as planned;
    `held`: variables that are the same in all.
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
    pruned: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    next: str = ""

    @property
    def reported(self) -> tuple[str, ...]:
        """Metrics that some cell only reported."""
        return tuple(m.name for m in self.metrics if any(c.is_reported and m.name in c.metrics for c in self.cells))

    @property
    def exit_status(self) -> int:
        """0: every cell that is expected counts, and has a metric; else 1."""
        return 0 if self.cells and self.metrics and not self.left_out else 1

    def best(self, metric: Metric) -> tuple[int, ...]:
        """Places of the best groups; none where no direction is known."""
        return best(self.groups, metric.name, metric.direction)

    @property
    def winner(self) -> tuple[Metric, tuple[Group, ...]] | None:
        """The metric that decides, and the groups with its best mean; None where no direction is known.

        That of --metric, else of `early_stop`, else of the checkpoints, else the first whose direction is known.
        """
        known = [metric for metric in self.metrics if self.best(metric)]
        if not known:
            return None
        chosen = min(known, key=lambda metric: ("stated", "sweep", "checkpoint", "name").index(metric.by))
        return chosen, tuple(self.groups[n] for n in self.best(chosen))

    def short(self, metric: Metric) -> tuple[int, ...]:
        """Places of the groups that miss planned cells and have fewer values than another: they are not ranked."""
        return short(self.groups, metric.name)

    def as_json(self) -> dict[str, Any]:
        """The `results` document."""
        return document(
            self,
            "results",
            without=("held",),
            loaded=len(self.cells),
            held=dict(self.held),
            metrics=[
                {
                    "name": m.name,
                    "direction": m.direction or None,
                    "by": m.by or None,
                    "reported": m.name in self.reported,
                }
                for m in self.metrics
            ],
            cells=[
                {
                    "run": cell.run,
                    "site": cell.site,
                    "attempt": cell.attempt,
                    "values": dict(cell.values),
                    "metrics": dict(cell.metrics),
                    "files": [{"path": file.path, "sha256": file.sha256} for file in cell.files],
                    "reported": cell.is_reported,
                    "code": cell.code or None,
                }
                for cell in self.cells
            ],
            groups=[
                {
                    "values": dict(group.values),
                    "cells": list(group.cells),
                    "planned": group.planned,
                    "metrics": {name: _spread_json(one) for name, one in group.spreads.items()},
                }
                for group in self.groups
            ],
            winner=_winner_json(self.winner),
            best={metric.name: list(self.best(metric)) for metric in self.metrics if metric.direction},
            not_ranked={metric.name: list(self.short(metric)) for metric in self.metrics if self.short(metric)},
            comparisons=[_comparison_json(one) for one in self.comparisons],
            left_out=[{"run": run, "why": why} for run, why in self.left_out],
            exit=self.exit_status,
        )

    def rows(self) -> list[list[str]]:
        """A table for other programs: a head, then one row a cell; "" where a cell lacks a value or a metric.

        Where a cell only reported its metrics, a last column `reported` says yes or no.
        """
        named = [*self.held, *self.varied]
        ends = ["reported"] if self.reported else []
        out = [["run", "site", "attempt", *named, *(metric.name for metric in self.metrics), *ends]]
        for cell in self.cells:
            numbers = [repr(cell.metrics[m.name]) if m.name in cell.metrics else "" for m in self.metrics]
            told = ["yes" if cell.is_reported else "no"] if ends else []
            values = (cell.values.get(name, "") for name in named)
            out.append([cell.run, cell.site, str(cell.attempt), *values, *numbers, *told])
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
        if why and not record.status.is_pruned:
            left_out.append((record.id, why))
    doubled = _doubled([files for _, files in read])
    cells = tuple(_measured(record, files, doubled) for record, files in read)
    cells, said = _by_code(cells)
    remarks.update(dict.fromkeys(said))
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
    plan = {record.id: _values(record) for record in records}
    groups = with_plan(grouped(outcomes, repeats), plan, lambda name: name in seeds if seeds else is_seed(name))
    remarks.update(dict.fromkeys([*_remarks(cells, varied, groups), *_uneven(groups, told)]))
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
        tuple(record.id for record in records if record.status.is_pruned),
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
        return f"{said}, as last seen" if status.state.is_alive else said
    if record.is_pulled:
        return f"its results at home are incomplete: {record.problems[0]}"
    return "it succeeded but is not home"


def _values(record: RunRecord) -> Mapping[str, str]:
    return record.local.get("values") or {}


def _doubled(cells: Sequence[Sequence[File]]) -> set[str]:
    """Metric names that occur in more than one file of a cell: these are prefixed with the file."""
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
    said = {} if metrics else reported(record.status.metrics, list(_values(record)))
    place = (record.id, record.site_name, record.status.attempt, _values(record))
    code = record.heard.code or record.run.code_digest
    return Measured(*place, metrics or said, tuple(files), bool(said), code)


def _by_code(cells: tuple[Measured, ...]) -> tuple[tuple[Measured, ...], list[str]]:
    """Where not all were made by the same code, it is a variable that tells them apart; and a remark."""
    codes = list(dict.fromkeys(cell.code for cell in cells))
    if len(codes) < 2:
        return cells, []
    counts = ", ".join(f"{code[:8] or 'unknown'} {sum(cell.code == code for cell in cells)}" for code in codes)
    told = tuple(replace(cell, values={**cell.values, CODE: cell.code[:8]}) for cell in cells)
    return told, [f"the cells were made by {len(codes)} versions of the code: {counts}"]


def _metrics(
    sweep: str, records: Sequence[RunRecord], cells: Sequence[Measured], wanted: Sequence[tuple[str, str]]
) -> tuple[Metric, ...]:
    known = list(dict.fromkeys(name for cell in cells for name in cell.metrics))
    said = dict(wanted)
    for name in said:
        if name not in known:
            raise NoSuchMetric(sweep=sweep, metric=name, known=", ".join(known[:20]) or "none")
    trained = dict(stated for record in records if (stated := best_stated(record.receipts)))
    rule = next((record.run.spec["early_stop"] for record in records if record.run.spec.get("early_stop")), {})
    found = []
    for name in said or known:
        last = name.rsplit(":", 1)[-1]
        of_sweep, own = str(rule["mode"]) if rule.get("metric") == last else "", trained.get(last, "")
        way = said.get(name) or of_sweep or own or direction(name)
        by = "stated" if said.get(name) else "sweep" if of_sweep else "checkpoint" if own else "name" if way else ""
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
        out.append(f"{len(bare)} loaded cells have no metric file and reported no metric: {', '.join(bare[:5])}")
    told = [cell.run for cell in cells if cell.is_reported]
    if told:
        out.append(
            f"not verified: the metrics of {len(told)} cells are the last that the run reported, in its log or its"
            f" tracker's files; no metric file came home: {', '.join(told[:5])}"
        )
    if varied and all(len(group.cells) == 1 for group in groups) and len(groups) > 1:
        out.append("one seed each: the random variation of a metric is unknown")
    return out


def _uneven(groups: Sequence[Group], metrics: Sequence[Metric]) -> list[str]:
    """A best group that was planned with fewer seeds than another keeps its mark, and this is said."""
    out = []
    for metric in metrics:
        ns = [group.spreads[metric.name].n for group in groups if metric.name in group.spreads]
        for place in best(groups, metric.name, metric.direction):
            n = groups[place].spreads[metric.name].n
            if n < max(ns):
                out.append(f"the best group by {metric.name} has {n} of the up to {max(ns)} seeds that others have")
    return out


def _next(sweep: str, left_out: Sequence[tuple[str, str]]) -> str:
    if not left_out:
        return ""
    is_away = any(why == "it succeeded but is not home" for _, why in left_out)
    return f"sojourn pull {sweep}" if is_away else f"sojourn reconcile {sweep}"


def _spread_json(one: Spread) -> dict[str, Any]:
    return {"n": one.n, "mean": one.mean, "sd": one.sd, "min": one.least, "max": one.most}


def _winner_json(found: tuple[Metric, tuple[Group, ...]] | None) -> dict[str, Any] | None:
    if found is None:
        return None
    metric, groups = found
    cells = [run for group in groups for run in group.cells]
    return {"metric": metric.name, "cells": cells, **_spread_json(groups[0].spreads[metric.name])}


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
