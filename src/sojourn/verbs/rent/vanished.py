"""A machine that does not answer because it is gone, by its provider's word: its lease and its runs are settled."""

from __future__ import annotations

import os
from dataclasses import replace

from sojourn.backends.client.https import patient_for
from sojourn.core import money
from sojourn.core.values import Pulse
from sojourn.store.records import RunRecord
from sojourn.verbs.context import Context, provider_of
from sojourn.verbs.rent.gone import is_gone
from sojourn.wire.errors import SojournError

ASK_S = 10.0  # of its provider, which is asked because somebody waits for an answer about a run
LINE = "its provider says that it is gone"


def settled_if_gone(ctx: Context, run: RunRecord) -> Pulse:
    """How the rented machine that this run was on stands; if it is gone, what it had is settled as lost.

    Nothing is done while another command moves into its lease or lets go of it. Raises: StateUnwritable, DiskFull.
    """
    record = ctx.store.index.lease(run.lease) if run.lease else None
    if record is None or not record.is_open or not record.lease.token or not record.lease.native:
        return Pulse.UNKNOWN
    held = ctx.try_alone(f"lease {record.name}")
    if held is None:
        return Pulse.UNKNOWN
    lease = record.lease
    try:
        provider = provider_of(run.site)
        with patient_for(ASK_S):
            pulse = provider.look(lease) if provider.rents else Pulse.UNKNOWN
            if pulse is not Pulse.GONE or not is_gone(ctx, provider, replace(lease, is_final=True)):
                return Pulse.UNKNOWN if pulse is Pulse.GONE else pulse
        ctx.say(f"{record.name}: {LINE}")
        runs = ctx.store.index.runs_on(record.name)
        lost = [f"{one.id}: whatever of it is not home" for one in runs if one.attempt and not one.is_home]
        spent = money.spent_micro(lease.rate_micro_per_h, lease.began_s, ctx.now_s()) if lease.is_rate_known else None
        ctx.store.append("settled", lease=record.name, lost=lost, line=LINE, spent_micro=spent, vanished=True)
    except SojournError:
        return Pulse.UNKNOWN
    finally:
        os.close(held)
    return Pulse.GONE
