"""A sweep on the screen: cells by state and site, running ones, those that ended badly and why, the next command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sojourn.cli.show.status import HEAD, cells_of
from sojourn.cli.show.text import clean, command, count, fold, line, table
from sojourn.wire.units import say_money, say_seconds, unstamp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sojourn.verbs.answers import StatusReport

_STATES = ("queued", "starting", "running", "stalled", "succeeded", "failed", "killed", "oom", "lost", "timeout")
_REST = ("preempted", "cancelled", "planned")
_SHOWN = 20  # running cells
_LISTED = 8  # names listed after a cause


def lines(answer: StatusReport, columns: int) -> list[str]:
    """The one sweep of this answer."""
    (sweep,) = answer.sweeps
    now_s = unstamp(answer.at)
    states = ", ".join(f"{number} {state}" for state, number in sweep["states"].items())
    out = line("sweep", f"{clean(sweep['id'])}, {count(sweep['cells'], 'cell')}: {states}", columns)
    out += line("done", f"{sweep['percentage']:.0f} %, results of {count(sweep['home'], 'cell')} here", columns)
    if sweep["remaining_s"]:
        out += line("left", f"about {say_seconds(sweep['remaining_s'])}", columns)
    if sweep["spent"] or sweep["unpriced"]:
        out += line("cost", _money(sweep), columns)
    out += _matrix(sweep, columns)
    alive = [row for row in answer.rows if row.state.is_alive and row.state.value != "queued"]
    if alive:
        several = len({row.site for row in answer.rows}) > 1
        out += ["", *table(HEAD, [cells_of(row, now_s, several) for row in alive[:_SHOWN]], columns, right=(2, 4))]
    for one in sweep["causes"]:
        named = ", ".join(map(clean, one["cells"][:_LISTED]))
        more = f" and {len(one['cells']) - _LISTED} more" if len(one["cells"]) > _LISTED else ""
        said = f": {clean(one['why'])}" if one["why"] else ""
        out += fold(f"{len(one['cells'])} {one['what']}{said}: {named}{more}", columns)
    for site in sweep["sites"]:
        if site["reach"]["ok"] is False:
            out += fold(f"{clean(site['site'])}: no answer ({clean(site['reach']['error'])})", columns)
    return [*out, command("next", _next(sweep, answer))]


def _matrix(sweep: Mapping[str, Any], columns: int) -> list[str]:
    shown = [state for state in (*_STATES, *_REST) if state in sweep["states"]]
    head = ("SITE", "CELLS", *(state.upper() for state in shown), "DONE", "HOME", "LEFT", "COST", "BOX")
    rows = [
        (
            clean(one["site"]),
            str(one["cells"]),
            *(str(one["states"].get(state, "")) for state in shown),
            f"{one['percentage']:.0f}%",
            str(one["home"]),
            say_seconds(one["remaining_s"]) if one["remaining_s"] else "",
            _money(one),
            "no answer" if one["reach"]["ok"] is False else "",
        )
        for one in sweep["sites"]
    ]
    return table(head, rows, columns, right=range(1, 2 + len(shown)))


def _money(one: Mapping[str, Any]) -> str:
    known = [say_money(spent["micro"], spent["currency"]) for spent in one["spent"]]
    return ", ".join([*known, *(["unknown"] if one["unpriced"] else [])])


def _next(sweep: Mapping[str, Any], answer: StatusReport) -> str:
    if any(row.state.is_alive for row in answer.rows):
        return f"sojourn watch {sweep['id']}"
    if sweep["home"] < sweep["states"].get("succeeded", 0):
        return f"sojourn pull {sweep['id']}"
    return f"sojourn reconcile {sweep['id']}"
