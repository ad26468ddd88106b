"""A plot of a sweep's results: for each metric the mean of each group, its spread, and every single cell."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any

from sojourn.cli.show.results import label
from sojourn.wire import atomic
from sojourn.wire.errors import Misuse

if TYPE_CHECKING:
    from sojourn.verbs.sweep.results import Metric, Results

_MOST = 6  # metrics in one plot
_WAYS = {"max": "higher is better", "min": "lower is better", "": "direction unknown"}
_LABELS = 30  # groups with written names
_FORMATS = ("png", "svg", "pdf")


class NoPicture(Misuse):
    """Cannot draw the plot: {why}."""

    code = "no-picture"
    next_step = "{following}"


def write(answer: Results, path: str) -> str:
    """Write the plot to `path` (.png, .svg or .pdf by its name), whole or not at all; returns its absolute path.

    Raises: NoPicture (no matplotlib, nothing to show, another suffix), OSError.
    """
    suffix = os.path.splitext(path)[1].lstrip(".").lower()
    again = f"sojourn sweep results {answer.id} --csv"
    if suffix not in _FORMATS:
        raise NoPicture(why=f"the file name must end in one of {', '.join(_FORMATS)}, not {suffix!r}", following=again)
    metrics = sorted(answer.metrics, key=lambda metric: not metric.direction)[:_MOST]
    if not metrics:
        raise NoPicture(why="no loaded cell has a metric", following=answer.next or f"sojourn reconcile {answer.id}")
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        why = "matplotlib is not installed (results without --plot do not need it)"
        raise NoPicture(why=why, following="pip install 'sojourn[plot]'") from error
    high = max(3.0, 0.28 * min(len(answer.groups), _LABELS))
    figure = Figure(figsize=(8, high * len(metrics)), layout="constrained")
    figure.suptitle(f"{answer.id}: {len(answer.cells)} of {answer.expected} cells loaded")
    figure.supxlabel("dot: one cell; diamond: mean (green: best); bar: standard deviation", fontsize="small")
    for axes, metric in zip(figure.subplots(len(metrics), 1, squeeze=False)[:, 0], metrics, strict=True):
        _draw(axes, answer, metric)
    data = io.BytesIO()
    figure.savefig(data, format=suffix, dpi=120)
    whole = os.path.abspath(path)
    atomic.write(whole, data.getvalue(), durable=False)
    return whole


def _draw(axes: Any, answer: Results, metric: Metric) -> None:
    """A line per group, the first on top: its cells as dots, its mean as a diamond, its standard deviation as a bar."""
    found = {cell.run: cell.metrics[metric.name] for cell in answer.cells if metric.name in cell.metrics}
    best = answer.best(metric)
    for place, group in enumerate(answer.groups):
        spread = group.spreads.get(metric.name)
        if spread is None:
            continue
        each = [found[cell] for cell in group.cells if cell in found]
        axes.plot(each, [place] * len(each), "o", color="0.6", markersize=4)
        colour = "C2" if place in best else "C0"
        axes.errorbar(spread.mean, place, xerr=spread.sd or None, fmt="D", color=colour, capsize=3, markersize=5)
    axes.set_xlabel(f"{metric.name} ({_WAYS[metric.direction]})".replace("$", r"\$"))
    axes.set_ylim(len(answer.groups) - 0.5, -0.5)
    if len(answer.groups) <= _LABELS:
        names = [label(dict(group.values)).replace("$", r"\$") for group in answer.groups]
        axes.set_yticks(range(len(names)), names)
    else:
        axes.set_ylabel("group, in the order of --csv")
    axes.grid(axis="x", alpha=0.3)
