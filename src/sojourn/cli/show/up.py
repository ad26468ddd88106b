"""A machine that was rented, and what its platform does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.cli.show.offers import platform
from sojourn.cli.show.text import clean, command, line
from sojourn.wire.units import say_bytes, say_money

if TYPE_CHECKING:
    from sojourn.verbs.rent.up import Up


def lines(answer: Up, columns: int) -> list[str]:
    """The machine; what it has; what survives, the clocks and, the first time, the peculiarities; the next command."""
    facts = answer.facts
    what = "is there already" if answer.did == "nothing" else f"rented from {clean(answer.provider)}"
    out = line("machine", f"{clean(answer.lease)}  {what}, at {clean(answer.address)}", columns)
    gpus = ", ".join(str(one.get("name")) for one in facts.get("gpus") or ())
    memory = f"{say_bytes(facts['memory_bytes'])} of memory" if facts.get("memory_bytes") else ""
    cpus = f"{facts['cpus']} CPUs" if facts.get("cpus") else ""
    has = ", ".join(part for part in (gpus, cpus, memory) if part)
    out += line("has", clean(has or facts.get("trouble") or "unknown"), columns)
    rate = "unknown" if answer.rate is None else say_money(answer.rate["micro"], answer.rate["currency"])
    out += line("meter", f"{rate} an hour until you release it: sojourn down {clean(answer.lease)}", columns)
    for label, text in platform(answer.provider, answer.platform):
        out += line(label, clean(text), columns)
    for lesson in answer.lessons:
        out += line("know", clean(lesson), columns)
    return [*out, command("next", clean(answer.next))]
