"""`reconcile`: every cell that is expected, against what is there, against what loads here. A sweep's "done" is this.

The roster is what this machine journaled, never what boxes happen to show: a cell that no box knows is missing, not
forgotten.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sojourn.core.values import NoAnswer, State
from sojourn.store.index import NotFound
from sojourn.store.records import RunRecord
from sojourn.verbs.answers import Reach, document
from sojourn.verbs.context import Context
from sojourn.verbs.observe.reasons import alike, line_of
from sojourn.verbs.observe.refresh import refresh
from sojourn.verbs.observe.view import RunView
from sojourn.verbs.sweep import twins
from sojourn.verbs.sweep.fate import (
    FAILED,
    LOADED,
    MISSING,
    NEVER,
    PRESENT,
    PRUNED,
    RUNNING,
    STOPPED,
    UNKNOWN,
    WAITING,
    Fate,
    is_own_error,
)
from sojourn.wire.errors import Unreachable, WorldError


@dataclass(frozen=True)
class Reconciled:
    """What `reconcile` came to. Every cell is in exactly one of `fates`; `duplicates`: cells begun on two boxes.

    `relaunched`: by --repair, now; their fate is as it was before.
    """

    id: str
    fates: tuple[Fate, ...]
    duplicates: tuple[Mapping[str, Any], ...] = ()
    relaunched: tuple[str, ...] = ()
    remarks: tuple[str, ...] = field(default=())
    next: str = ""

    def of(self, *what: str) -> list[str]:
        """The cells of these fates, in their order."""
        return [fate.id for fate in self.fates if fate.what in what]

    @property
    def exit_status(self) -> int:
        """0: every cell is home and loads, once. 5: a box answered with what cannot be right. 3: all else that is not
        home is on boxes that do not answer. Else 1.
        """
        rest = {fate.what for fate in self.fates} - {LOADED, PRUNED}
        if any(fate.what == UNKNOWN and fate.view.reach.is_sick for fate in self.fates):
            return 5
        return 1 if self.duplicates or rest - {UNKNOWN} else 3 if rest else 0

    def causes(self) -> list[tuple[str, str, str, list[str]]]:
        """(fate, id of a gotcha or "", why, cells) of what is neither well nor on its way; those of one cause together.

        `why` is that of the first cell: the others' may hold other numbers.
        """
        found: dict[tuple[str, str, str], list[Fate]] = {}
        for fate in self.fates:
            if fate.what not in (LOADED, WAITING, RUNNING):
                found.setdefault(alike(fate.what, fate.cause, fate.why), []).append(fate)
        return [(some[0].what, some[0].cause, some[0].why, [one.id for one in some]) for some in found.values()]

    def as_json(self) -> dict[str, Any]:
        """The `reconcile` document: lists of cells. `present` are those whose outputs exist, the loaded ones too."""
        return document(
            self,
            "reconcile",
            without=("fates", "duplicates"),
            expected=[fate.id for fate in self.fates],
            present=self.of(PRESENT, LOADED),
            loaded=self.of(LOADED),
            missing=self.of(MISSING),
            failed=self.of(FAILED),
            duplicates=[dict(one) for one in self.duplicates],
            never_started=self.of(NEVER),
            waiting=self.of(WAITING),
            running=self.of(RUNNING),
            stopped=self.of(STOPPED),
            pruned=self.of(PRUNED),
            unknown=self.of(UNKNOWN),
            causes=[
                {"what": what, "cause": cause or None, "why": why, "cells": cells}
                for what, cause, why, cells in self.causes()
                if why
            ],
            exit=self.exit_status,
        )


def reconcile(
    ctx: Context, sweep: str, *, repair: bool = False, abandon: Sequence[str] = (), sites: Sequence[str] = ()
) -> Reconciled:
    """Tell every cell of a sweep apart. One poll a box; files at home are looked at, not read again (`verify` does).

    `repair`: cells that failed, were lost with their box, or never began are asked for again, each with the very same
    specification: where its box is there in that box's queue, as its next attempt; else on the sweep's other sites, or
    on `sites`. A cell leaves a box only when the box let go of it, its lease is gone, or the box is in `abandon`, which
    is journaled first. What was stopped, and what made no output though it succeeded, is left alone.
    Raises: Misuse (not-found, still-there), Unreachable, WorldError.
    """
    name = ctx.store.index.sweep(sweep)
    if not name:
        raise NotFound(what="sweep", wanted=sweep, hint="")
    if not repair:
        return with_next(_look(ctx, name))
    from sojourn.verbs.sweep.repair import mend

    with ctx.alone(f"sweep {name}"):
        seen = _look(ctx, name)
        relaunched, remarks = mend(ctx, name, seen.fates, frozenset(abandon), sites)
    fresh = _look(ctx, name) if relaunched else seen
    again = Reconciled(name, fresh.fates, fresh.duplicates, relaunched, (*seen.remarks, *remarks))
    return with_next(again)


def fate(view: RunView, is_gone: bool = False) -> Fate:
    """The outcome of one cell in its current state. `is_gone`: its box's lease has been released."""
    record, status = view.record, view.status
    state = status.state
    if record.is_home:
        lost = [receipt.path for receipt in record.receipts if not _is_there(receipt.home, receipt.bytes)]
        if not lost:
            return Fate(view, LOADED)
        if state is State.SUCCEEDED and not is_gone and view.reach.ok is not False:
            return Fate(view, PRESENT, f"{lost[0]} was home but is missing now")
        return Fate(view, MISSING, f"{lost[0]} was home but is missing now; its box cannot send it again")
    if is_gone:
        return Fate(view, NEVER if view.never_began else MISSING, f"its box, {record.site_name}, was let go")
    if view.reach.ok is False:
        # What ended there, ended; whether its files still exist is not known.
        return Fate(view, UNKNOWN, f"{record.site_name} does not answer ({view.reach.error})")
    if view.reach.ok and not view.has_root and record.heard.attempt and not view.is_other:
        return Fate(view, MISSING, f"{record.site_name} no longer has any of its files")
    if state is State.SUCCEEDED:
        if status.missing:
            return Fate(view, MISSING, f"it succeeded, but no file matches {', '.join(status.missing)}")
        if record.is_pulled:
            return Fate(view, MISSING, f"what came home does not load: {record.problems[0]}")
        return Fate(view, PRESENT)
    if status.is_pruned:
        return Fate(view, PRUNED, status.reason)
    if state is State.CANCELLED:
        return Fate(view, STOPPED, status.reason or "stopped")
    if state.is_dead:
        said = line_of(status)
        word = "" if state is State.FAILED and said else state.value
        return Fate(view, FAILED, f"{word}: {said}".strip(": ") if said else word, status.cause_id)
    if state is State.QUEUED:
        return Fate(view, WAITING)
    if state.is_alive:
        return Fate(view, RUNNING)
    return Fate(view, NEVER, status.reason or "it was planned but never requested")


def _look(ctx: Context, sweep: str) -> Reconciled:
    records = ctx.store.index.cells(sweep)
    views = _reached(ctx, refresh(ctx, records))
    open_leases = {one.name for one in ctx.store.index.leases()}
    fates = []
    for record in records:
        is_gone = bool(record.lease) and record.lease not in open_leases
        fates.append(fate(views[record.id], is_gone))
    duplicates, remarks = begun_twice(ctx, sweep)
    return Reconciled(sweep, tuple(fates), tuple(duplicates), remarks=tuple(remarks))


def _reached(ctx: Context, views: Mapping[str, RunView]) -> dict[str, RunView]:
    """Boxes of which all ends are known were not asked: whether they still have what is not home must be."""
    found = dict(views)
    silent: dict[str, list[RunView]] = {}
    for view in views.values():
        record = view.record
        if view.reach.ok is None and record.attempt and not record.is_home and record.phase != "cleaned":
            silent.setdefault(record.machine, []).append(view)
    for some in silent.values():
        there: set[str] = set()
        reach = Reach(True)
        try:
            box = ctx.box(some[0].record.site, some[0].record.lease)
            said = box.ask("since", runs={v.record.id: v.record.offset for v in some})
            if isinstance(said, NoAnswer):
                reach = Reach(False, some[0].reach.last_ok, said.kind, said.next_step)
            else:
                there = {row["id"] for row in said.value["runs"]}
        except WorldError as error:
            is_sick = not isinstance(error, Unreachable)
            reach = Reach(False, some[0].reach.last_ok, error.message, error.next, is_sick)
        for view in some:
            found[view.record.id] = replace(view, reach=reach, has_root=view.record.id in there)
    return found


def begun_twice(ctx: Context, sweep: str, cell: str = "") -> tuple[list[dict[str, Any]], list[str]]:
    """Cells that a box they were once placed on began too: {"run", "sites", "progress"} each, with how far each of the
    two has come. A box that does not answer is a remark. `cell`: only this one. Asks no box but those that a cell was
    moved away from.
    """
    found: list[dict[str, Any]] = []
    remarks = []
    by_site: dict[str, list[str]] = {}
    sites = {}
    for run, site, _ in ctx.store.index.earlier(sweep):
        if cell and run != cell:
            continue
        by_site.setdefault(site.name, []).append(run)
        sites[site.name] = site
    for name, runs in by_site.items():
        try:
            there = twins.begun_there(ctx, sites[name], runs)
        except WorldError as error:
            remarks.append(f"{name}: {error.message}")
            continue
        if isinstance(there, NoAnswer):
            remarks.append(f"{name} does not answer: it may have started cells that were placed elsewhere")
            continue
        for run, original in there.items():
            now = ctx.store.index.run(run)
            if original.attempt and now is not None and now.heard.attempt:
                both = [twins.as_json(now.site_name, now.heard), twins.as_json(name, original)]
                found.append({"run": run, "sites": [now.site_name, name], "progress": both})
    return found, remarks


def with_next(seen: Reconciled) -> Reconciled:
    """The command that brings the sweep on."""
    following = ""
    unfinished = seen.of(WAITING, RUNNING)
    if unfinished or seen.relaunched:
        following = f"sojourn watch {seen.id}"
    elif seen.of(PRESENT):
        following = f"sojourn pull {seen.id}"
    elif (
        seen.of(FAILED)
        and not seen.of(NEVER)
        and all(_would_fail_again(one) for one in seen.fates if one.what == FAILED)
    ):
        following = f"sojourn why {seen.of(FAILED)[0]}"
    elif seen.of(FAILED, NEVER):
        following = f"sojourn reconcile {seen.id} --repair"
    elif seen.of(UNKNOWN):
        site = next(one.view.record.site_name for one in seen.fates if one.what == UNKNOWN)
        following = f"sojourn reconcile {seen.id} --repair --abandon {site}"
    elif seen.of(MISSING):
        following = f"sojourn logs {seen.of(MISSING)[0]} --tail 50"
    else:
        lease = next(_leases(one.view.record for one in seen.fates), "")
        following = f"sojourn down {lease}" if lease else ""
    return Reconciled(seen.id, seen.fates, seen.duplicates, seen.relaunched, seen.remarks, following)


def _would_fail_again(one: Fate) -> bool:
    """Its error is the program's own, or it failed again when it was asked for again with the same specification."""
    if is_own_error(one):
        return True
    ends = [end.get("state") for end in one.view.status.ends]
    return len(ends) > 1 and ends[-1] == ends[-2] == State.FAILED.value


def _leases(records: Iterator[RunRecord]) -> Iterator[str]:
    return (record.lease for record in records if record.lease)


def _is_there(path: str, size_bytes: int) -> bool:
    try:
        return os.stat(path).st_size == size_bytes
    except OSError:
        return False
