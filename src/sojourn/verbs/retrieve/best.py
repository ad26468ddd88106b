"""The best cells of a sweep, by what they last reported, for `pull --best`: known before anything is home."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sojourn.core.outcome import HIGHER, direction
from sojourn.core.values import State
from sojourn.store.records import RunRecord
from sojourn.verbs.sweep.measured import reported
from sojourn.wire.errors import Misuse


@dataclass(frozen=True)
class Part:
    """What of the runs to bring. `is_metrics`: only logs and small metric files; `best`: so many cells, 0 = all.

    `metric`: (name, max, min or "") to rank by; ("", "") = that of `early_stop`.
    """

    is_metrics: bool = False
    best: int = 0
    metric: tuple[str, str] = ("", "")


ALL = Part()


class NotRanked(Misuse):
    """--best cannot rank the cells of {sweep}: {why}."""

    code = "not-ranked"
    next_step = "sojourn pull {sweep} --best {count} --metric NAME=max"


class NoSweepToRank(Misuse):
    """--best takes the name of one sweep."""

    code = "no-sweep-to-rank"
    next_step = "sojourn pull SWEEP --best 3"


def best_cells(sweep: str, records: Sequence[RunRecord], part: Part) -> list[RunRecord]:
    """The `part.best` cells with the best last value among those that succeeded, best first; equal ones in their order.

    Raises: NotRanked (no metric, no direction, or no succeeded cell reported it).
    """

    def refused(why: str) -> NotRanked:
        return NotRanked(sweep=sweep, why=why, count=part.best)

    rule = next((one.run.spec["early_stop"] for one in records if one.run.spec.get("early_stop")), {})
    name, way = part.metric if part.metric[0] else (str(rule.get("metric", "")), "")
    done = [one for one in records if one.status.state is State.SUCCEEDED]
    numbers = {one.id: reported(one.status.metrics, list(one.local.get("values") or {})) for one in done}
    known = sorted({metric for told in numbers.values() for metric in told})
    if not done:
        raise refused("none has succeeded yet")
    if not name:
        raise refused(f"name a metric; they reported {', '.join(known[:20]) or 'none'}")
    if name not in known:
        raise refused(f"no cell that succeeded reported {name}; they reported {', '.join(known[:20]) or 'none'}")
    way = way or (str(rule["mode"]) if rule.get("metric") == name else direction(name))
    if not way:
        raise refused(f"whether more or less {name} is better is unknown")
    ranked = [one for one in done if name in numbers[one.id]]
    sign = -1.0 if way == HIGHER else 1.0
    return sorted(ranked, key=lambda one: sign * numbers[one.id][name])[: part.best]
