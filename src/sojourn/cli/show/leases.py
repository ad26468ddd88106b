"""Leases and money on the screen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sojourn.cli.show.text import clean, clock, command, count, danger_clock, line, table
from sojourn.wire.units import say_money, say_seconds, unstamp

if TYPE_CHECKING:
    from sojourn.verbs.answers import LeaseRow, Leases

HEAD = ("LEASE", "SITE", "METER", "RATE", "COST", "SINCE", "IDLE", "RUNS")


def lines(answer: Leases, columns: int) -> list[str]:
    """A table, then the danger clocks, the total, the next command. `cost` also lists what each run spent."""
    if not answer.rows:
        if answer.kind != "leases":
            return ["no leases yet", command("next", "sojourn run")]
        return _nothing(answer, columns)
    now_s = unstamp(answer.at)
    out = table(HEAD, [_cells(row, now_s) for row in answer.rows], columns, right=(7,), leave_out=(5, 1, 6))
    for row in answer.rows:
        if row.idle_s is not None and not row.ended and row.rate_micro_per_h != 0:
            out += line("idle", f"{clean(row.id)}: {_idle(row)}", columns)
        if beside := _beside(row):
            out += line("beside", f"{clean(row.id)}: {beside}", columns)
        clocks = [danger for danger in row.clocks if not row.ended or danger.get("left_s") is not None]
        for danger in clocks:
            out += line("clock", f"{clean(row.id)}: {danger_clock(danger, now_s)}", columns)
    out += _unrecorded(answer, columns)
    for one in answer.balances:
        out += line("balance", _balance(one), columns)
    if answer.runs:
        free = {row.id for row in answer.rows if row.rate_micro_per_h == 0}
        spent = [
            (clean(run["id"]), clean(run["lease"] or ""), "free" if run["lease"] in free else _amount(run["spent"]))
            for run in answer.runs
        ]
        out += ["", *table(("RUN", "LEASE", "COST"), spent, columns)]
    totals = [say_money(micro, currency) for micro, currency in answer.total if micro]
    is_free = all(row.rate_micro_per_h == 0 for row in answer.rows)
    known = ", ".join(totals) or ("free" if is_free else "" if len(answer.unpriced) == len(answer.rows) else "0.00")
    missing = f"cost of {', '.join(map(clean, answer.unpriced))} unknown" if answer.unpriced else ""
    out += line("total", "; ".join(part for part in (known, missing) if part), columns)
    if not is_free and answer.rows:
        out += line("note", "costs are estimates; the provider's bill decides", columns)
    still = sorted((row for row in answer.rows if not row.ended), key=lambda row: row.rate_micro_per_h == 0)
    step = f"sojourn down {still[0].id}" if still else ""
    return [*out, command("next", clean(step))] if step and answer.kind == "leases" else out


def _nothing(answer: Leases, columns: int) -> list[str]:
    """No lease is open: what bills all the same, only the providers know."""
    out = ["no open leases in the records of this machine", *_unrecorded(answer, columns)]
    if answer.unrecorded:
        return [*out, command("next", str(answer.unrecorded[0]["next"]))]
    if answer.asked and not answer.unasked:
        out += line("asked", f"{', '.join(map(clean, answer.asked))}: no machine there is ours", columns)
    return [*out, command("ask", "sojourn leases --audit"), command("next", "sojourn run")]


def _unrecorded(answer: Leases, columns: int) -> list[str]:
    """Machines of ours that no lease is of, and who could not be asked for them."""
    out: list[str] = []
    for one in answer.unrecorded:
        price = f" at {_amount(one['rate'])} an hour" if one["rate"] else ""
        what = f"{clean(one['provider'])}: {clean(one['native'])} ({clean(one['name'])})"
        out += line("unknown", f"{what} bills{price}, without a lease here: {clean(one['next'])}", columns)
    for one in answer.unasked:
        out += line("unasked", f"{clean(one['provider'])}: {clean(one['why'])}", columns)
    return out


def _cells(row: LeaseRow, now_s: float) -> tuple[str, ...]:
    rate, cost = "free", "free"
    if row.rate_micro_per_h != 0:
        rate = "unknown" if row.rate_micro_per_h is None else say_money(row.rate_micro_per_h, row.currency) + "/h"
        cost = "unknown" if row.spent_micro is None else say_money(row.spent_micro, row.currency)
    return (
        clean(row.id),
        clean(row.site) if row.site != row.id else "",
        "released" if row.ended else row.meter.value,
        rate,
        cost,
        clock(unstamp(row.began), now_s) if row.began else "",
        say_seconds(row.idle_s) if row.idle_s is not None else "",
        count(len(row.runs), "run") if row.runs else "",
    )


def _amount(spent: dict[str, float | str] | None) -> str:
    return "unknown" if spent is None else say_money(int(spent["micro"]), str(spent["currency"]))


def _idle(row: LeaseRow) -> str:
    """ "done and billing since 3 h: 7.20 USD"."""
    cost = "at an unknown rate"
    if row.idle_spent_micro is not None:
        cost = say_money(row.idle_spent_micro, row.currency)
    return f"done and billing since {say_seconds(row.idle_s or 0.0)}: {cost}"


def _beside(row: LeaseRow) -> str:
    parts = []
    if row.disk_rate_micro_per_h:
        so_far = say_money(row.disk_micro or 0, row.currency)
        parts.append(f"disk {say_money(24 * row.disk_rate_micro_per_h, row.currency)} a day, {so_far} so far")
    if row.traffic_micro:
        parts.append(f"traffic {say_money(row.traffic_micro, row.currency)} for what was pulled")
    return "; ".join(parts)


def _balance(one: Mapping[str, Any]) -> str:
    """The balance left with a provider, and how long it lasts."""
    left = clean(one["provider"]) + ": " + (_amount(one["balance"]) if one["balance"] else "unknown")
    if one["lasts_s"] is not None:
        left += f", lasts {say_seconds(one['lasts_s'])} at the rate of {', '.join(map(clean, one['leases']))}"
    return left + (f" ({clean(one['why'])})" if one["why"] else "")
