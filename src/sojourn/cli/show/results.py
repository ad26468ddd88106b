"""Results of a sweep: a row per group of seeds, the best marked, then each change of one variable."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from sojourn.cli.show.text import clean, command, count, line, table

if TYPE_CHECKING:
    from sojourn.core.outcome import Change, Comparison, Group, Spread
    from sojourn.verbs.sweep.results import Metric, Results

_METRICS = 4  # columns of metrics; a terminal is 80 wide
_GROUPS = 40
_CHANGES = 12
_LISTED = 6
_WAYS = {"max": "higher is better", "min": "lower is better", "": "direction unknown"}
_SAID = {
    "stated": "from --metric",
    "sweep": "from early_stop",
    "checkpoint": "from the training",
    "name": "from its name",
    "": "",
}


def lines(answer: Results, columns: int) -> list[str]:
    """The sweep, its metrics with their direction, the groups, the changes, what is left out, the next command."""
    out = line("sweep", f"{clean(answer.id)}, {len(answer.cells)} of {count(answer.expected, 'cell')} loaded", columns)
    shown = _shown(answer.metrics)
    for metric in shown:
        said = f" ({_SAID[metric.by]})" if metric.by else f": set one with --metric {metric.name}=max"
        said += "; reported by the run, not verified" if metric.name in answer.reported else ""
        out += line("metric", f"{clean(metric.name)}, {_WAYS[metric.direction]}{clean(said)}", columns)
    if len(shown) < len(answer.metrics):
        rest = [metric.name for metric in answer.metrics if metric not in shown]
        out += line(
            "", f"and {len(rest)} more: {clean(', '.join(rest[:_LISTED]))}{' ...' * (len(rest) > _LISTED)}", columns
        )
    if answer.held:
        out += line("fixed", ", ".join(f"{clean(name)} {clean(value)}" for name, value in answer.held.items()), columns)
    if answer.seeds:
        out += line("seeds", ", ".join(map(clean, answer.seeds)), columns)
    if answer.groups and shown:
        out += ["", *_table(answer, shown, columns)]
    if answer.winner:
        out += ["", *line("best", _winner(*answer.winner), columns)]
    if answer.pruned:
        out += line("pruned", f"{count(len(answer.pruned), 'cell')}, stopped early as planned", columns)
    changes = [(one, metric) for one in answer.comparisons for metric in shown if metric.name in one.metrics]
    if changes:
        out += ["", *line("effect", "of changing one variable, all else equal", columns)]
        for one, metric in changes[:_CHANGES]:
            out += line("", _change(one, metric), columns)
        if len(changes) > _CHANGES:
            out += line("", f"and {len(changes) - _CHANGES} more: --json", columns)
    causes: dict[str, list[str]] = {}
    for run, why in answer.left_out:
        causes.setdefault(why, []).append(run)
    for why, runs in causes.items():
        named = ", ".join(map(clean, runs[:_LISTED])) + (f" and {len(runs) - _LISTED} more" * (len(runs) > _LISTED))
        out += line("left out", f"{len(runs)}: {clean(why)}: {named}", columns)
    return [*out, command("next", clean(answer.next))] if answer.next else out


def csv_lines(answer: Results) -> list[str]:
    """RFC 4180, except for the line ends."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(answer.rows())
    return [clean(text) for text in out.getvalue().splitlines()]


def number(value: float) -> str:
    """Four significant digits."""
    return f"{value:.4g}"


def label(values: dict[str, str]) -> str:
    """A group, by its varying values."""
    return " ".join(f"{name}={value}" for name, value in values.items()) or "all"


def _shown(metrics: tuple[Metric, ...]) -> list[Metric]:
    """Those with a direction come first."""
    return sorted(metrics, key=lambda metric: not metric.direction)[:_METRICS]


def _table(answer: Results, shown: list[Metric], columns: int) -> list[str]:
    varied = [name for name in answer.varied if name not in answer.seeds]
    short = {n for metric in shown for n in answer.short(metric)}
    best = {metric.name: answer.best(metric) for metric in shown}
    rows = []
    for n, group in enumerate(answer.groups[:_GROUPS]):
        told = [
            _spread(group.spreads[m.name]) + (" *" if n in best[m.name] else "") if m.name in group.spreads else ""
            for m in shown
        ]
        rows.append((*(clean(group.values.get(name, "")) for name in varied), _seeds(group, n in short), *told))
    head = (*map(clean, varied), "N", *(clean(metric.name) for metric in shown))
    out = table(head, rows, columns)
    more = len(answer.groups) - _GROUPS
    rest = [f"and {more} more: --csv or --json"] if more > 0 else []
    unranked = ["? cells of this group do not count, and other groups have more: not ranked"] if short else []
    return [*out, *rest, "* best mean; +- is the standard deviation", *unranked]


def _seeds(group: Group, is_short: bool) -> str:
    """2; 1 of 2, if planned cells do not count; with ? if that leaves the group unranked."""
    n = len(group.cells)
    return (f"{n} of {group.planned}" if n < group.planned else str(n)) + " ?" * is_short


def _winner(metric: Metric, groups: tuple[Group, ...]) -> str:
    """The best group, its metric with its spread over seeds, and its cells; of several, the first in full."""
    group = groups[0]
    spread = group.spreads[metric.name]
    values = {clean(name): clean(value) for name, value in group.values.items()}
    spans = f", from {number(spread.least)} to {number(spread.most)} over {spread.n} seeds" if spread.n > 1 else ""
    cells = ", ".join(map(clean, group.cells[:_LISTED])) + " ..." * (len(group.cells) > _LISTED)
    equal = f"; {len(groups) - 1} more are equal" if len(groups) > 1 else ""
    return f"{label(values)}: {clean(metric.name)} {_spread(spread)}{spans} ({cells}){equal}"


def _spread(spread: Spread) -> str:
    return number(spread.mean) + (f" +-{spread.sd:.2g}" if spread.sd is not None else "")


def _change(one: Comparison, metric: Metric) -> str:
    change = one.metrics[metric.name]
    held = f" ({label({clean(k): clean(v) for k, v in one.held.items()})})" if one.held else ""
    difference = f"{change.after - change.before:+.3g}"
    return (
        f"{clean(one.variable)} {clean(one.before)} -> {clean(one.after)}{held}: {clean(metric.name)}"
        f" {number(change.before)} -> {number(change.after)} ({difference}{_judged(change)})"
    )


def _judged(change: Change) -> str:
    word = "" if change.is_better is None else ", better" if change.is_better else ", worse"
    apart = "" if change.is_apart is None else ", ranges apart" if change.is_apart else ", ranges overlap"
    return word + apart
