"""Runs on the screen: a table, or everything about one run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sojourn.cli.show.text import clean, clock, command, count, fold, line, table
from sojourn.verbs.observe.reasons import alike
from sojourn.wire.units import say_money, say_seconds, unstamp

if TYPE_CHECKING:
    from sojourn.verbs.answers import Row, StatusReport

HEAD = ("RUN", "STATE", "TRY", "STEP", "DONE", "LEFT", "HOME", "COST", "METER", "AGE", "SITE", "BOX")
_LEAVE_OUT = (9, 4, 2, 5, 10, 11, 7, 3)  # in this order, if the screen is too narrow for all; a note repeats BOX

_TOGETHER = 4  # cells that ended alike share one note from this number on, and so many are named
_METERS = {"running": "on", "stopped": "off", "unknown": "unknown"}


def lines(answer: StatusReport, columns: int, *, finals: int | None = None, sought: str = "") -> list[str]:
    """One line per run, then notes and the next command. `finals`: list at most this many finished runs. `sought`: what
    was asked for, if not every run.
    """
    now_s = unstamp(answer.at)
    rows, hidden = _newest(answer.rows, finals)
    hidden += answer.hidden
    if not rows and sought:
        return [f"no run {sought}", command("next", "sojourn status")]
    if not rows:
        return ["no runs yet", command("next", "sojourn init")] if not hidden else _hidden(hidden)
    several = len({row.site for row in rows}) > 1
    out = table(HEAD, [cells_of(row, now_s, several) for row in rows], columns, right=(2, 4), leave_out=_LEAVE_OUT)
    notes = list(_notes(rows, now_s))
    advice = {row.site: row.reach.next for row in rows if row.reach.next}  # once per site
    notes += [f"{clean(site)}: {clean(text)}" for site, text in advice.items()]
    for note in notes:
        out += fold(note, columns)
    out += _hidden(hidden)
    step = next_of(rows)
    return [*out, command("next", clean(step))] if step else out


def one(row: Row, now_s: float, columns: int) -> list[str]:
    """Everything known about one run."""
    facts = [
        ("run", f"{clean(row.id)}  on {clean(row.site)}" + (f", attempt {row.attempt}" if row.attempt > 1 else ""))
    ]
    facts.append(("state", _state(row, now_s)))
    if row.reason:
        facts.append(("reason", clean(row.reason)))
    if row.step is not None:
        facts.append((row.unit or "step", _step_words(row)))
    elif row.epoch is not None:
        facts.append(("epoch", f"{row.epoch:,}"))
    if row.metrics:
        facts.append(("metrics", ", ".join(f"{clean(k)} {_number(v)}" for k, v in row.metrics.items())))
    if row.log_age_s is not None and row.state.is_alive:
        facts.append(("log", f"last written {say_seconds(row.log_age_s)} ago"))
    facts.append(("home", _home_words(row)))
    if row.unnamed:
        facts.append(("unnamed", unnamed(row.id, row.unnamed)))
    if row.at_risk:
        facts.append(("at risk", _risk_words(row)))
    metered = "" if row.meter.value == "free" else f"; meter {_METERS[row.meter.value]}"
    facts.append(("cost", _cost(row) + metered))
    if row.reach.ok is False:
        facts.append(("box", _unreached(row, now_s)))
        if row.reach.next:
            facts.append(("fix", clean(row.reach.next)))
    out = [part for label, text in facts for part in line(label, text, columns)]
    return [*out, command("next", clean(row.next))] if row.next else out


def unnamed(run: str, paths: Sequence[str]) -> str:
    """Which files nobody asked for, and how they come home."""
    some = ", ".join(map(clean, paths[:_TOGETHER])) + ", ..." * (len(paths) > _TOGETHER)
    return f"no output names {some}; sojourn pull {clean(run)}:{clean(paths[0])} brings it home"


def _risk_words(row: Row) -> str:
    steps = row.at_risk["steps"]
    lost = say_seconds(row.at_risk["seconds"]) + ("" if steps is None else f", {count(steps, 'step')}")
    if row.at_risk["checkpoint"]:
        return f"{lost}, if the box vanished now (here: {clean(row.at_risk['checkpoint'])})"
    return f"{lost}, if the box vanished now; sojourn pull {clean(row.id)} --follow brings checkpoints here"


def _notes(rows: Sequence[Row], now_s: float) -> Iterator[str]:
    """The notes of each run; cells of a sweep that ended alike have one together."""
    ended: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        if row.sweep and row.state.is_final and row.reason:
            ended.setdefault((row.sweep, *alike(row.state.value, row.cause, row.reason)), []).append(row)
    together = {some[0].id: some for some in ended.values() if len(some) >= _TOGETHER}
    told = {row.id for some in together.values() for row in some}
    for row in rows:
        if row.id in together:
            some = together[row.id]
            named = ", ".join(clean(one.id) for one in some[:_TOGETHER]) + ", ..." * (len(some) > _TOGETHER)
            yield f"{len(some)} cells of {clean(row.sweep)} {row.state.value}: {clean(row.reason)} ({named})"
        yield from notes_of(replace(row, reason="") if row.id in told else row, now_s)


def notes_of(row: Row, now_s: float) -> list[str]:
    """What does not fit a table: why a run ended or stands still, what is missing, that its box does not answer."""
    name = clean(row.id)
    notes = []
    if row.reason:
        notes.append(f"{name}: {clean(row.reason)}")
    if row.budget_pct and row.state.is_alive:
        notes.append(f"{name}: {row.budget_pct} % of its budget is spent")
    if row.missing and row.state.value == "succeeded":  # after another end, missing files are expected
        notes.append(f"{name}: no file matches {', '.join(clean(glob) for glob in row.missing)}")
    if row.unnamed:
        notes.append(f"{name}: {unnamed(row.id, row.unnamed)}")
    if row.reach.ok is False:
        notes.append(f"{name}: {_unreached(row, now_s)}")
    return notes


def next_of(rows: Sequence[Row]) -> str:
    """The next command for several runs: for final ones not at home, else for those that ended badly, else `watch`. For
    cells of one sweep, the sweep's.
    """
    sweep = rows[0].sweep if len(rows) > 1 else ""
    if sweep and all(row.sweep == sweep for row in rows):
        if any(row.state.is_alive for row in rows):
            return f"sojourn watch {sweep}"
        is_away = any(row.state.value == "succeeded" and not row.is_home for row in rows)
        return f"sojourn {'pull' if is_away else 'reconcile'} {sweep}"
    for wanted in (
        [row for row in rows if row.state.value == "succeeded" and not row.is_home],
        [row for row in rows if row.state.is_dead],
    ):
        if wanted and wanted[0].next:
            return wanted[0].next
    alive = [row for row in rows if row.state.is_alive]
    if alive:
        return alive[0].next if len(rows) == 1 and alive[0].next else "sojourn watch"
    return next((row.next for row in rows if row.next), "")


def cells_of(row: Row, now_s: float, several: bool) -> tuple[str, ...]:
    """The row of a table under HEAD. `several`: the runs are on several sites."""
    return (
        clean(row.id),
        row.state.value,
        str(row.attempt) if row.attempt > 1 else "",
        _place(row),
        "" if row.percentage is None else f"{row.percentage:.0f}%",
        say_seconds(row.remaining_s) if row.remaining_s is not None and row.state.is_alive else "",
        "home" if row.is_home else "" if row.owed is None else f"{row.home} of {row.owed}",
        _cost(row),
        "" if row.meter.value == "free" else _METERS[row.meter.value],
        say_seconds(max(0.0, now_s - unstamp(row.since))) if row.since else "",
        clean(row.site) if several else "",
        "invalid" if row.reach.is_sick else "no answer" if row.reach.ok is False else "",
    )


def _place(row: Row) -> str:
    if row.step is None:
        return "" if row.epoch is None else f"epoch {row.epoch}"
    counted = f"{row.step}/{row.total}" if row.total else str(row.step)
    return f"{row.unit} {counted}" if row.unit else counted


def _step_words(row: Row) -> str:
    words = f"{row.step:,}"
    if row.total:
        words += f" of {row.total:,}" + (f" ({row.percentage:.1f} %)" if row.percentage is not None else "")
    if row.remaining_s is not None and row.state.is_alive:
        words += f", about {say_seconds(row.remaining_s)} left"
    return words


def _state(row: Row, now_s: float) -> str:
    if not row.since:
        return row.state.value
    since_s = unstamp(row.since)
    ago = say_seconds(max(0.0, now_s - since_s))
    how = f"for {ago}, since" if row.state.is_alive else f"{ago} ago,"
    return f"{row.state.value} {how} {clock(since_s, now_s)}"


def _home_words(row: Row) -> str:
    missing = f"; no file matches {', '.join(clean(glob) for glob in row.missing)}" if row.missing else ""
    if row.is_home:
        return "every required output is here and loads" + missing
    if row.owed is None:
        return "nothing yet: the required outputs are not known" + missing
    return f"{row.home} of {count(row.owed, 'required file')}" + missing


def _cost(row: Row) -> str:
    if row.meter.value == "free":
        return "free"
    return "unknown" if row.spent_micro is None else say_money(row.spent_micro, row.currency)


def _unreached(row: Row, now_s: float) -> str:
    seen = f"; last seen {clock(unstamp(row.reach.last_ok), now_s)}" if row.reach.last_ok else ""
    if row.reach.is_sick:
        return f"invalid answer ({clean(row.reach.error)}){seen}"
    return f"no answer ({clean(row.reach.error) or 'no reason given'}){seen}"


def _number(value: Any) -> str:
    if value is None:
        return "not finite"  # JSON's rendering of a NaN
    return f"{value:.4g}" if isinstance(value, float) else clean(value)


def _newest(rows: Sequence[Row], finals: int | None) -> tuple[list[Row], int]:
    """Runs that are not final, then the newest `finals` of the others; how many are not listed."""
    kept = [row for row in rows if not row.state.is_final]
    final = sorted((row for row in rows if row.state.is_final), key=lambda row: row.since, reverse=True)
    most = len(final) if finals is None else finals
    return [*kept, *final[:most]], max(0, len(final) - most)


def _hidden(hidden: int) -> list[str]:
    return [f"and {count(hidden, 'older finished run')}: sojourn status --all"] if hidden else []
