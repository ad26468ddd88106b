"""A job that is to start after others: what its scheduler calls them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sojourn.core.values import State
from sojourn.verbs.context import Context
from sojourn.verbs.observe.scheduled import handle_of
from sojourn.wire.errors import Misuse

if TYPE_CHECKING:
    from sojourn.wire.documents import Spec


class NeverReady(Misuse):
    """The job is to start `after` {run}, but the scheduler cannot wait for it: {why}. Nothing was started."""

    code = "never-ready"
    next_step = "sojourn status {run}"


def are_done(ctx: Context, names: Sequence[str]) -> bool:
    """Whether all these runs and sweeps have succeeded, as last known. Raises: NotFound, Ambiguous."""
    index = ctx.store.index
    for name in names:
        sweep = index.sweep(name)
        records = index.cells(sweep) if sweep else [index.find(name)]
        if any(record.status.state is not State.SUCCEEDED for record in records):
            return False
    return True


def awaited(ctx: Context, spec: Spec, site: str) -> tuple[str, ...]:
    """What the scheduler calls the runs that this one is to come `after`; () where all of them have succeeded.

    Raises: NotFound, Ambiguous, NeverReady.
    """
    from sojourn.verbs.observe.refresh import refresh

    found = []
    for name in spec.get("after") or ():
        sweep = ctx.store.index.sweep(name)
        records = ctx.store.index.cells(sweep) if sweep else [ctx.store.index.find(name)]
        for view in refresh(ctx, records).values():
            record, state = view.record, view.status.state
            if state is State.SUCCEEDED:
                continue
            handle = handle_of(record)
            if not state.is_alive or record.site_name != site or handle is None:
                why = f"it is on {record.site_name}" if record.site_name != site else f"it is {state.value}"
                raise NeverReady(run=record.id, why=why)
            found.append(handle.native)
    return tuple(found)
