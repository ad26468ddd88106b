"""`reap`: ends what holds a card, or is left over of our runs, and is proven to be nobody's. Nothing else, and nothing
without its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sojourn.verbs.answers import document
from sojourn.verbs.confirm import Ask, Confirm, confirmed
from sojourn.verbs.context import Context
from sojourn.verbs.explain import holders
from sojourn.verbs.explain.holders import Holder
from sojourn.wire import quote, units
from sojourn.wire.errors import Misuse

GRACE_S = 10.0


class NoSuchHolder(Misuse):
    """{name} is not among the orphans on {site}: {why}."""

    code = "no-such-holder"
    next_step = "sojourn reap {site}"


@dataclass(frozen=True)
class Reap:
    """What holds cards there, and what became of the orphans. `did`: listed, or ended."""

    site: str
    did: str
    facts: Mapping[str, Any]  # {"host","boot_id","hidden"}
    holders: tuple[Holder, ...]
    ended: tuple[Mapping[str, Any], ...] = ()  # {"name","comm","why"}
    kept: tuple[Mapping[str, Any], ...] = ()
    next: str = ""
    exit_status: int = 0

    def as_json(self) -> dict[str, Any]:
        """The `reap` document: the fields, with `exit` for `exit_status`."""
        held = [one.as_json() for one in self.holders]
        return document(self, "reap", without=("exit_status", "holders"), holders=held, exit=self.exit_status)

    @property
    def orphans(self) -> tuple[Holder, ...]:
        """Those that may be ended."""
        return holders.orphans(self.holders)


def look(ctx: Context, site: str = "") -> Reap:
    """Who holds the cards of the site's box, and what is left over of our runs there. Ends nothing.

    Raises: Misuse (unknown-site, ...), Unreachable, WorldError.
    """
    box = ctx.box_of(site)
    ctx.say(f"asking {box.machine} which processes hold its GPUs")
    answer = box.answer("look", probes=["cards", "holders"]).value
    held, hidden = holders.read_holders(answer["evidence"].get("probes") or {})
    facts = {"host": answer["evidence"].get("host"), "boot_id": answer.get("boot_id"), "hidden": hidden}
    found = Reap(box.machine, "listed", facts, held)
    orphans = found.orphans
    words = ["sojourn", "reap", box.machine, "--confirm", _name(found, orphans)] if orphans else _nothing(found)
    return replace(found, next=quote.join(words))


def end(ctx: Context, found: Reap, names: Sequence[str] = (), *, confirm: Confirm) -> Reap:
    """End the orphans that were `found` (with `names`, PID@START each, those alone): SIGTERM, then SIGKILL.

    Asks for the name: of one process PID@START, of several the site's. The box proves each one again, by pid, start and
    record, before it ends it. Without orphans nothing is asked. Repeatable.
    Raises: NoSuchHolder, NotConfirmed, Unreachable, WorldError (other-boot).
    """
    victims = [_named(found, name) for name in dict.fromkeys(names)] if names else list(found.orphans)
    if not victims:
        return found
    name = _name(found, victims)
    words = ["sojourn", "reap", found.site, *(one.name for one in victims if names), "--confirm", name]
    lines = [f"end on {found.site}, {facts(one)}" for one in victims]
    lines.append(f"each gets SIGTERM, {units.say_seconds(GRACE_S)}, then SIGKILL; this cannot be undone")
    confirmed(confirm, Ask("reap", name, tuple(lines), quote.join(words)))
    box = ctx.box_of(found.site)
    answer = box.answer(
        "reap",
        victims=[[one.pid, one.start] for one in victims],
        boot_id=found.facts["boot_id"],
        grace_s=GRACE_S,
        timeout_s=GRACE_S + 60.0,
    ).value
    comms = {(one.pid, one.start): one for one in victims}
    ended, kept = (
        tuple(
            {
                "name": comms[row["pid"], row["start"]].name,
                "comm": comms[row["pid"], row["start"]].comm,
                "why": row["why"],
            }
            for row in answer[what]
        )
        for what in ("ended", "kept")
    )
    following = quote.join(["sojourn", "reap" if kept else "gpu", found.site])
    return replace(found, did="ended", ended=ended, kept=kept, next=following, exit_status=1 if kept else 0)


def facts(one: Holder) -> str:
    """One process in a line: what it is, how old, and why nobody waits for it."""
    age = "" if one.age_s is None else f", {units.say_seconds(one.age_s)} old"
    size = "" if one.gpu_bytes is None else f", {units.say_bytes(one.gpu_bytes)} of GPU memory"
    return f"{one.words}{size}{age}: {one.why}"


def _named(found: Reap, name: str) -> Holder:
    for one in found.holders:
        if one.name == name:
            if one.kind != "orphan":
                raise NoSuchHolder(name=name, site=found.site, why=one.why)
            return one
    raise NoSuchHolder(name=name, site=found.site, why="no such process holds a GPU or is left over")


def _name(found: Reap, victims: Sequence[Holder]) -> str:
    return victims[0].name if len(victims) == 1 else found.site


def _nothing(found: Reap) -> list[str]:
    return ["sojourn", "gpu", *([] if found.site == "local" else [found.site])]
