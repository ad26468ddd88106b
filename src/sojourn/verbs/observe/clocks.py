"""Danger clocks counted down: when a platform takes something away, by when the machine began, stopped or fell idle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sojourn.core.values import Clock, Lease
from sojourn.wire import units

RENTAL = "the rental ends"  # of a machine that is rented until a moment, as its provider says


def counted(
    lease: Lease, now_s: float, *, idle_s: float | None = None, stopped_s: float | None = None
) -> tuple[Mapping[str, Any], ...]:
    """The clocks of a lease, each with `left_s`: seconds until it strikes, None where nothing tells when that is.

    `idle_s`: since when nothing runs; `stopped_s`: when it was stopped so that its disk stays. Of a lease that was
    stopped only those clocks hold that run from there.
    """
    clocks = [one for one in lease.clocks if stopped_s is None or one.since == "stop"]
    out = [_counted(one, _start_s(one, lease, now_s, idle_s, stopped_s), now_s) for one in clocks]
    ends_s = lease.facts.get("ends_s")
    if stopped_s is None and isinstance(ends_s, (int, float)) and not isinstance(ends_s, bool):
        end = Clock(RENTAL, units.stamp(float(ends_s)), "the machine, with its disk")
        out.append(_counted(end, None, now_s))
    return tuple(out)


def _start_s(clock: Clock, lease: Lease, now_s: float, idle_s: float | None, stopped_s: float | None) -> float | None:
    if clock.since == "begin":
        return lease.began_s
    if clock.since == "idle":
        return None if idle_s is None else now_s - idle_s
    return stopped_s if clock.since == "stop" else None


def _counted(clock: Clock, start_s: float | None, now_s: float) -> dict[str, Any]:
    fields = {key: value for key, value in asdict(clock).items() if key not in ("after_h", "since")}
    if start_s is not None and clock.after_h:
        fields["at"] = units.stamp(start_s + clock.after_h * 3600)
    try:
        left_s = round(units.unstamp(fields["at"]) - now_s, 1)
    except ValueError:
        return {**fields, "left_s": None}
    return {**fields, "left_s": left_s}
