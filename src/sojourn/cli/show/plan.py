"""What `run` would do and cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sojourn.cli.show import findings
from sojourn.cli.show.text import clean, command, count, danger_clock, line
from sojourn.wire.units import say_bytes, say_money

if TYPE_CHECKING:
    from sojourn.verbs.answers import Plan

_DO = {
    "new": "start attempt 1",
    "continue": "finish the interrupted start",
    "adopt": "put a keeper back in charge of the live process",
    "next-attempt": "start the next attempt",
    "again": "start the next attempt on another machine",
    "nothing": "none",
    "refuse": "refuse",
    "unknown": "unknown",
}


def lines(answer: Plan, columns: int) -> list[str]:
    """What, where, what would be copied, what survives, what it costs; then the next command."""
    decision, push, disk, survival = answer.decision, answer.push, answer.disk, answer.survival
    out = line("run", f"{clean(answer.id)}  on {clean(answer.site)}", columns)
    why = f": {clean(decision['why'])}" if decision.get("why") else ""
    out += line("action", _DO.get(decision["do"], decision["do"]) + why, columns)
    for what in decision.get("differs") or ():
        out += line("differs", clean(what), columns)
    out += line("push", _push(push), columns)
    if answer.setup.get("text"):
        reused = {True: "already there", False: "built now", None: "not known if it is there"}[answer.setup["reused"]]
        out += line("setup", f"{clean(answer.setup['text'])}  ({reused})", columns)
    if disk:
        room = f"needs {say_bytes(disk['needed_bytes'])} and {count(disk['needed_inodes'], 'inode')}"
        room += f"; {say_bytes(disk['free_bytes'])} and {disk['free_inodes']:,} free at {clean(disk['path'])}"
        out += line("disk", room, columns)
    if survival:
        word = {True: "keeps", False: "loses", None: "unsure"}[survival["survives"]]
        how = f"on release: {clean(survival['verb'])}; {clean(survival['why'])}"
        out += line(word, f"{clean(survival['path'])}  ({how})", columns)
    if answer.persist:
        kept = ", ".join(clean(path) for path in answer.persist)
        out += line("persist", f"{kept}  (of the script: the next attempt finds them again)", columns)
    if answer.platform_env:
        out += line("sets", _sets(answer.platform_env), columns)
    out += line("outputs", ", ".join(clean(glob) for glob in answer.outputs) or "none named in the job file", columns)
    out += line("cost", _cost(answer), columns)
    for danger in answer.clocks:
        out += line("clock", danger_clock(danger, 0.0), columns)
    if answer.reach.ok is False:
        out += line("box", f"no answer ({clean(answer.reach.error)}), so its contents are unknown", columns)
    out += findings.lines(answer.findings, columns)
    for remark in answer.remarks:
        out += line("remark", clean(remark), columns)
    if answer.script:
        out += ["script", *("  " + clean(text) for text in answer.script.splitlines())]
    return [*out, command("next", clean(answer.next))] if answer.next else out


def _sets(wanted: Mapping[str, Any]) -> str:
    """What the platform adds to the run's environment, where nobody has set it."""
    values = [f"{name}={clean(value)}" for name, value in (wanted.get("set") or {}).items()]
    hook = f"; before `init`: {clean(wanted['hook'])}" if wanted.get("hook") else ""
    return " ".join(values) + hook


def _push(push: Mapping[str, Any]) -> str:
    what, new_bytes = f"{count(push['files'], 'file')}  {say_bytes(push['bytes'])}", push.get("new_bytes")
    if new_bytes is None:
        return what
    if new_bytes in (0, push["bytes"]):
        return f"{what}, {'all new' if new_bytes else 'all there already'}"
    return f"{what}, {say_bytes(new_bytes)} of it new"


def _cost(answer: Plan) -> str:
    if answer.rate_micro_per_h is None:
        return "unknown"
    if not answer.rate_micro_per_h:
        return "free"
    most = (
        f", at most {say_money(answer.max_spent_micro, answer.currency)}" if answer.max_spent_micro is not None else ""
    )
    return f"{say_money(answer.rate_micro_per_h, answer.currency)} per hour{most or ', no limit'}"
