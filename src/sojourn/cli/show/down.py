"""The outcome of `down`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sojourn.cli.show.text import clean, command, cut_start, line
from sojourn.wire.units import say_money

if TYPE_CHECKING:
    from sojourn.verbs.answers import Down


_BESIDE = 5


def lines(answer: Down, columns: int) -> list[str]:
    """The lease, what the provider did, what was given up or lost, what it cost."""
    word = "released" if answer.released else "closed" if answer.settled else "cleared"
    out = line(word, f"{clean(answer.lease)}  ({', '.join(clean(run) for run in answer.runs) or 'no runs'})", columns)
    for label, texts in (
        ("", (answer.line,) if answer.line else ()),
        ("missing", answer.acknowledged),
        ("gave up", answer.abandoned),
        ("accepted", answer.accepted),
        ("lost", answer.lost),
    ):
        for text in texts:
            out += line(label, clean(text), columns)
    for text in answer.beside[:_BESIDE]:
        out.append("beside   " + cut_start(clean(text), columns - 9))
    if len(answer.beside) > _BESIDE:
        out += line("beside", f"and {len(answer.beside) - _BESIDE} more of other clients", columns)
    for one in answer.billing:
        price = f"{_amount(one['month'])} a month" if one["month"] else "price unknown"
        what = " ".join(str(part) for part in (one["kind"], one["native"], one["name"]) if part)
        out += line("billing", clean(f"{what}: {price}"), columns)
        out += [command("to end", clean(one["next"]))] if one["next"] else []
    if answer.billing_unknown:
        out += line("unknown", clean(f"{answer.billing_unknown} (sojourn leases --audit)"), columns)
    spent = "unknown" if answer.spent_micro is None else say_money(answer.spent_micro, answer.currency)
    out += line("cost", "free" if answer.spent_micro == 0 else spent, columns)
    return [*out, command("next", clean(answer.next))] if answer.next else out


def _amount(told: Mapping[str, Any]) -> str:
    return say_money(int(told["micro"]), str(told["currency"]))
