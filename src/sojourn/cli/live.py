"""`watch` on the screen: one table updated in place on a terminal, occasional lines anywhere else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sojourn.cli.screen import Screen
from sojourn.cli.show import status
from sojourn.cli.show.text import clean, clock, danger_clock, fold
from sojourn.wire.units import say_seconds, unstamp

if TYPE_CHECKING:
    from sojourn.verbs.answers import Snapshot

CLOCKS = 3  # lines of danger clocks under the table
FIRST_QUIET_S, LONGEST_QUIET_S = 60.0, 1800.0  # "nothing new" is reported after a minute, then less and less often


def table(looks: Iterator[Snapshot], screen: Screen) -> Snapshot | None:
    """Draw each look over the previous one. Returns the last, which stays on the screen."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    last = None
    with Live(console=Console(highlight=False), auto_refresh=False, vertical_overflow="crop") as live:
        for last in looks:
            columns, height = screen.size()
            drawn = status.lines(last.status, columns)
            below = [part for alarm in last.alarms for part in fold(f"alarm: {clean(alarm.line)}", columns)]
            below += countdown(last, columns)
            if not last.is_last:
                below += fold(_pace(last), columns)
                drawn = _fitting(drawn, height - 2 - len(below))
            drawn += below
            live.update(Text("\n".join(drawn), no_wrap=True, overflow="crop"), refresh=True)
    return last


def lines(looks: Iterator[Snapshot], screen: Screen) -> Snapshot | None:
    """The first look, a line for each change, a line if nothing is new; the last look. Returns the last."""
    last, quiet_s = None, FIRST_QUIET_S
    for look in looks:
        now_s = unstamp(look.status.at)
        screen.show([f"{clock(now_s, now_s)}  {clean(news)}" for news in look.news], stream=True)
        if last is None or look.is_last:
            screen.show([*status.lines(look.status, screen.columns), *countdown(look, screen.columns)], stream=True)
        elif not look.news and look.quiet_s >= quiet_s:
            screen.show([f"{clock(now_s, now_s)}  nothing new since {clock(now_s - look.quiet_s, now_s)}"], stream=True)
            quiet_s = min(quiet_s * 2, quiet_s + LONGEST_QUIET_S)
        if look.news:
            quiet_s = FIRST_QUIET_S
        last = look
    return last


def countdown(look: Snapshot, columns: int) -> list[str]:
    """The danger clocks that run, soonest first, and the runs that another watch asks about."""
    now_s = unstamp(look.status.at)
    out = []
    for one in look.clocks[:CLOCKS]:
        out += fold(f"clock: {clean(one['lease'])}: {danger_clock(one, now_s)}", columns)
    if look.elsewhere:
        names = clean(", ".join(look.elsewhere))
        out += fold(f"another watch asks about {names}; this one shows what it learns", columns)
    return out


def _pace(look: Snapshot) -> str:
    now_s = unstamp(look.status.at)
    new = "; ".join(clean(news) for news in look.news)
    if not new and look.quiet_s >= FIRST_QUIET_S:
        new = f"nothing new since {clock(now_s - look.quiet_s, now_s)}"
    elif not new and look.quiet_s:
        new = f"nothing new for {say_seconds(look.quiet_s)}"
    look_in = f"next check in {say_seconds(look.next_look_s)}; Ctrl-C does not stop any run"
    return f"{clock(now_s, now_s)}  {new}{'; ' if new else ''}{look_in}"


def _fitting(drawn: list[str], most: int) -> list[str]:
    if len(drawn) <= most:
        return drawn
    return [*drawn[: max(1, most - 1)], f"and {len(drawn) - most + 1} more lines: sojourn status --all"]
