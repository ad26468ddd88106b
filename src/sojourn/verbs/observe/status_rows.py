"""`status --json` of all runs: rows of runs that are over are kept as text in the index, the others are made anew.

A row is kept where no clock can change it: nothing more is to be heard of its run. What is written of the run, or of
its lease, forgets it (store/rows.py). What it spent is left open where runs share a meter, and filled in at each look.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sojourn.core import money
from sojourn.core.plain import json_text
from sojourn.store.program import read_code
from sojourn.store.records import LeaseRecord, RunRecord
from sojourn.verbs.answers import StatusReport
from sojourn.verbs.answers import money as amount
from sojourn.verbs.context import Context
from sojourn.verbs.observe.refresh import as_known, refresh
from sojourn.verbs.observe.spending import Ran, is_metered, ran, taken_of
from sojourn.verbs.observe.status import of_views, row
from sojourn.verbs.observe.view import RunView

TOGETHER = 500  # rows that are made and kept at once; other commands wait for that
_GAP = "\0"  # JSON has no such character


@dataclass(frozen=True)
class StatusRows:
    """The `status` document of all runs, its parts as JSON. `anew`: the rows and sweeps that were not kept."""

    runs: tuple[str, ...]
    sweeps: tuple[str, ...]
    anew: StatusReport

    def json_text(self) -> str:
        """The document on one line, as it is written of `status`."""
        head, between, tail = json_text(StatusReport((), self.anew.at).as_json()).split("[]")
        return f"{head}[{', '.join(self.runs)}]{between}[{', '.join(self.sweeps)}]{tail}"


def status_rows(ctx: Context, *, timeout_s: float = 20.0) -> StatusRows:
    """`status` of all runs, as JSON. Asks each site and waits as that does; what has ended since is kept for later.

    A sweep of which a cell is made anew is counted anew, which takes all of its cells.
    """
    index, code = ctx.store.index, read_code()
    known = _known(ctx, code)
    views = refresh(
        ctx, index.some([run.id for run in known if run.text is None]), timeout_s=timeout_s, also_settled=True
    )
    leases = {record.name: record for record in index.leases(open_only=False)}
    taken = _taken(ctx, leases, known, views)
    texts = {run.id: _filled(run, leases, taken) for run in known if run.text is not None and run.id not in views}
    cells: dict[str, list[str]] = {}
    for run in known:
        if run.sweep:
            cells.setdefault(run.sweep, []).append(run.id)
    over = {sweep: _digest(code, texts, ours) for sweep, ours in cells.items() if texts.keys() >= set(ours)}
    kept = index.shown_sweeps() if over else {}
    sweeps = {sweep: kept[cells_say] for sweep, cells_say in over.items() if cells_say in kept}
    for sweep in cells.keys() - sweeps.keys():
        for record in index.cells(sweep):
            views.setdefault(record.id, as_known(record))
    anew = of_views(ctx, [views[run.id] for run in known if run.id in views], taken=taken)
    texts.update((one.id, json_text(one.as_json())) for one in anew.rows)
    for tally in anew.sweeps:
        sweep, text = tally["id"], json_text(tally)
        sweeps[sweep] = text
        if sweep in over and over[sweep] == _digest(code, texts, cells[sweep]):
            index.show_sweep(sweep, over[sweep], text)
    return StatusRows(tuple(texts[run.id] for run in known), tuple(sweeps[sweep] for sweep in cells), anew)


class _Known(NamedTuple):
    """A run, and what is kept of its row: see `Index.status_texts`."""

    id: str
    sweep: str
    lease: str
    is_over: bool
    text: str | None
    ran: str | None


def _known(ctx: Context, code: str) -> list[_Known]:
    """All runs, after the rows of those that have ended since are kept."""
    index = ctx.store.index
    known = [_Known(*one) for one in index.status_texts(code)]
    new = [run.id for run in known if run.is_over and run.text is None]
    if not new or not code:
        return known
    for first in range(0, len(new), TOGETHER):
        if not index.show(code, new[first : first + TOGETHER], _texts):
            break
    return [_Known(*one) for one in index.status_texts(code)]


def _texts(record: RunRecord, lease: LeaseRecord | None) -> tuple[str, str] | None:
    """The row of a run that is over, with a gap for what it spent where that is shared; and when it ran."""
    if not record.is_settled:
        return None
    one = row(as_known(record), {record.lease: lease} if lease else {}, {})
    text = json_text(one.as_json())
    if is_metered(lease):
        before, _, after = text.rpartition(_spent(one.spent_micro, one.currency))
        text = before + _GAP + after
    return text, json_text(ran(record.status))


def _filled(run: _Known, leases: Mapping[str, LeaseRecord], taken: Mapping[str, float]) -> str:
    text = run.text or ""
    if _GAP not in text:
        return text
    lease = leases[run.lease].lease
    micro = money.spent_micro(lease.rate_micro_per_h, 0.0, taken.get(run.id, 0.0))
    return text.replace(_GAP, _spent(micro, lease.currency))


def _spent(micro: int | None, currency: str) -> str:
    return f'"spent": {json_text(amount(micro, currency))}'


def _taken(
    ctx: Context, leases: Mapping[str, LeaseRecord], known: Sequence[_Known], views: Mapping[str, RunView]
) -> dict[str, float]:
    """`taken_s` of all runs, for which those that are over need not be read."""
    ours: dict[str, dict[str, Ran]] = {}
    for run in known:
        if is_metered(leases.get(run.lease)):
            when = ran(views[run.id].status) if run.id in views else json.loads(run.ran or "")
            ours.setdefault(run.lease, {})[run.id] = when
    return {run: second for lease, runs in ours.items() for run, second in taken_of(ctx, lease, runs).items()}


def _digest(code: str, texts: Mapping[str, str], runs: Iterable[str]) -> str:
    """Of what the cells of a sweep show: where none of them is alive, all that is counted of them follows from it."""
    return hashlib.sha256("\n".join([code, *(texts[run] for run in runs)]).encode()).hexdigest()
