"""`cost`: every lease there ever was, and what each run's processes took of them."""

from __future__ import annotations

from collections.abc import Sequence

from sojourn.verbs.answers import Leases, Reach, money
from sojourn.verbs.context import Context
from sojourn.verbs.observe.balances import balances
from sojourn.verbs.observe.leases import lease_row, totals, unpriced
from sojourn.verbs.observe.spending import spent_micro, taken_s
from sojourn.verbs.observe.status import chosen
from sojourn.verbs.observe.view import RunView
from sojourn.wire import units


def cost(ctx: Context, names: Sequence[str] = ()) -> Leases:
    """Money by lease and by run (those named, or all). Asks only what is left on the accounts of
    open leases. The total is of the leases: it is what is billed.

    With names, only the leases that these runs are on. Raises: Misuse (not-found, ambiguous).
    """
    records = chosen(ctx, names)
    every = ctx.store.index.leases(open_only=False)
    newest = {lease.name: lease for lease in every}
    shown = [lease for lease in every if not names or any(record.lease == lease.name for record in records)]
    rows = tuple(lease_row(ctx, lease) for lease in shown)
    runs = []
    views = [RunView(record, record.status, Reach()) for record in records]
    taken = taken_s(ctx, views, newest)
    for record, view in zip(records, views, strict=True):
        lease = newest.get(record.lease)
        spent = spent_micro(view, lease, taken)
        currency = lease.lease.currency if lease else record.site.currency
        runs.append({"id": record.id, "lease": record.lease or None, "spent": money(spent, currency)})
    left = balances(ctx, shown, {row.id: row for row in rows if not row.ended})
    return Leases("cost", rows, totals(rows), tuple(runs), units.stamp(ctx.now_s()), unpriced(rows), left)
