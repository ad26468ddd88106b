"""`status --json` of all runs: rows of runs that are over are kept as text in the index, the others are made anew.

A row is kept where neither a clock nor another run can change it: nothing more is to be heard of its run, and its
lease costs nothing. What is written of the run, or of its lease, forgets it (store/rows.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sojourn.core.plain import json_text
from sojourn.store.program import read_code
from sojourn.store.records import LeaseRecord, RunRecord
from sojourn.verbs.answers import Status
from sojourn.verbs.context import Context
from sojourn.verbs.hear import as_known, hear
from sojourn.verbs.status import of_views, row

TOGETHER = 500  # rows that are made and kept at once; other commands wait for that


@dataclass(frozen=True)
class Shown:
    """The `status` document of all runs, its parts as JSON. `anew`: the rows and sweeps that were not kept."""

    runs: tuple[str, ...]
    sweeps: tuple[str, ...]
    anew: Status

    def json_text(self) -> str:
        """The document on one line, as it is written of `status`."""
        head, between, tail = json_text(Status((), self.anew.at).as_json()).split("[]")
        return f"{head}[{', '.join(self.runs)}]{between}[{', '.join(self.sweeps)}]{tail}"


def shown(ctx: Context, *, timeout_s: float = 20.0) -> Shown:
    """`status` of all runs, as JSON. Asks each site and waits as that does; what has ended since is kept for later."""
    code = read_code()
    known = _known(ctx, code)
    runs = [run for run, *_ in known]
    texts = {run: text for run, _, _, _, text in known if text is not None}
    cells: dict[str, list[str]] = {}
    for run, sweep, *_ in known:
        if sweep:
            cells.setdefault(sweep, []).append(run)
    over = {sweep: _digest(code, texts, ours) for sweep, ours in cells.items() if texts.keys() >= set(ours)}
    kept = ctx.store.index.shown_sweeps() if over else {}
    sweeps = {sweep: kept[cells_say] for sweep, cells_say in over.items() if cells_say in kept}
    wanted = [run for run, sweep, *_ in known if run not in texts or (sweep and sweep not in sweeps)]
    anew = _anew(ctx, runs, wanted, sweeps.keys(), timeout_s)
    texts.update((one.id, json_text(one.as_json())) for one in anew.rows)
    for tally in anew.sweeps:
        sweep, text = tally["id"], json_text(tally)
        sweeps[sweep] = text
        if sweep in over and over[sweep] == _digest(code, texts, cells[sweep]):
            ctx.store.index.show_sweep(sweep, over[sweep], text)
    return Shown(tuple(texts[run] for run in runs), tuple(sweeps[sweep] for sweep in cells), anew)


def _known(ctx: Context, code: str) -> list[tuple[str, str, str, bool, str | None]]:
    """`index.shown`, after the rows of runs that have ended since are kept."""
    index = ctx.store.index
    known = index.shown(code)
    leases = {record.name: record for record in index.leases(open_only=False)}
    new = [run for run, _, lease, is_over, text in known if is_over and text is None and _is_free(leases.get(lease))]
    if not new or not code:
        return known
    for first in range(0, len(new), TOGETHER):
        if not index.show(code, new[first : first + TOGETHER], _text):
            break
    return index.shown(code)


def _text(record: RunRecord, lease: LeaseRecord | None) -> str | None:
    if not record.is_settled or not _is_free(lease):
        return None
    return json_text(row(as_known(record), {record.lease: lease} if lease else {}, {}).as_json())


def _is_free(lease: LeaseRecord | None) -> bool:
    """What a run costs follows from nothing but the run: no meter is shared, and none is stopped."""
    return lease is None or not lease.lease.rate_micro_per_h


def _anew(ctx: Context, runs: Sequence[str], wanted: Sequence[str], kept: Iterable[str], timeout_s: float) -> Status:
    """`status` of the runs `wanted`, and of those that were over and go on after all, as their boxes say now.

    A sweep `kept` one of whose cells does so is counted anew, which takes all of its cells.
    """
    index = ctx.store.index
    views = hear(ctx, index.some(wanted), timeout_s=timeout_s, also_settled=True)
    for sweep in {view.record.sweep for view in views.values()}.intersection(kept):
        for record in index.cells(sweep):
            views.setdefault(record.id, as_known(record))
    return of_views(ctx, [views[run] for run in runs if run in views])


def _digest(code: str, texts: Mapping[str, str], runs: Iterable[str]) -> str:
    """Of what the cells of a sweep show: where none of them is alive, all that is counted of them follows from it."""
    return hashlib.sha256("\n".join([code, *(texts[run] for run in runs)]).encode()).hexdigest()
