"""What could be rented, ranked, and what there is to know of each provider."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sojourn.cli.show.text import clean, command, danger_clock, line, table
from sojourn.wire.units import say_money

if TYPE_CHECKING:
    from sojourn.verbs.rent.offers import OfferRow, Offers

HEAD = ("THE RUN", "PER HOUR", "GPUS", "SITE", "REGION", "UP", "MEMORY", "DISK", "CPUS")
SHOWN = 20


def lines(answer: Offers, columns: int) -> list[str]:
    """The ranking; who did not answer; of each provider what survives, and its clocks; then the next command."""
    if answer.rows:
        rows = [_cells(row) for row in answer.rows[:SHOWN]]
        out = table(HEAD, rows, columns, right=(0, 1, 5, 6, 7, 8), leave_out=(8, 7, 6, 4, 5))
        if len(answer.rows) > SHOWN:
            out.append(f"and {len(answer.rows) - SHOWN} more (--json lists all)")
    else:
        out = ["no offers"]
    for one in answer.failed:
        if one.error:
            out += line("failed", f"{clean(one.site.name)}: {clean(one.error.message)}", columns)
    if answer.without_key:
        missing = ", ".join(f"{name} ({env})" for name, env in answer.without_key.items())
        out += line("no key", clean(missing), columns)
    out.append("")
    for name, told in answer.platforms.items():
        for label, text in platform(name, told):
            out += line(label, clean(text), columns)
    for remark in answer.remarks:
        out += line("remark", clean(remark), columns)
    return [*out, command("next", clean(answer.next))]


def _cells(row: OfferRow) -> tuple[str, ...]:
    offer, facts = row.offer, row.offer.facts
    rate = say_money(offer.rate_micro_per_h, offer.currency) if offer.is_rate_known else "unknown"
    reliability = facts.get("reliability")
    gpu = clean(facts.get("gpu") or "")
    memory = f"{facts['gpu_memory_gib']:.0f} GB" if facts.get("gpu_memory_gib") else ""
    name = f"{facts.get('gpus') or 1} x {gpu}" + (f" {memory}" if memory and memory not in gpu else "")
    return (
        "unknown" if row.cost is None else "~" + say_money(row.cost.total_micro, offer.currency),
        rate,
        name if gpu else clean(offer.native),
        clean(row.site.name) + (", spot" if facts.get("is_spot") else ""),
        clean(facts.get("region") or ""),
        f"{reliability * 100:.1f} %" if isinstance(reliability, (int, float)) else "",
        _number(facts.get("memory_gib"), " GiB"),
        _number(facts.get("disk_gib"), " GiB"),
        _number(facts.get("cpus"), ""),
    )


def _number(value: object, unit: str) -> str:
    return f"{value:.0f}{unit}" if isinstance(value, (int, float)) else ""


def platform(name: str, told: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Of one platform: what a stop and the end keep, and what happens by itself."""
    untried = " (untried: sojourn has never used it on a live account)" if told["untried"] else ""
    stays = ", ".join(told["survives_stop"]) or "nothing"
    kept = ", ".join(told["survives_destroy"]) or "nothing"
    stop = f"stopped, it keeps: {stays}; " if told["stop"] else "it cannot be stopped; "
    yield "platform", f"{name}{untried}: {stop}released, it keeps: {kept}"
    for clock in told["clocks"]:
        yield "clock", f"{name}: {danger_clock(clock, 0.0)}"
