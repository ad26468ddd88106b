"""`resume`: the same argv, the next attempt; also after `stop`."""

from __future__ import annotations

from sojourn.core.need import Need
from sojourn.core.values import State
from sojourn.store.records import OTHER
from sojourn.verbs.answers import Launch
from sojourn.verbs.context import Context
from sojourn.verbs.launch.launch import adopt, answer, begin, journal_launching, read_secrets, unmasked, wait_proven
from sojourn.verbs.observe.refresh import not_refreshed, refresh_one
from sojourn.wire.errors import Misuse


class NotResumable(Misuse):
    """{run} cannot be resumed: {why}."""

    code = "not-resumable"
    next_step = "{following}"


def resume(ctx: Context, run: str, *, wait_s: float = 60.0) -> Launch:
    """Start the next attempt of a run that ended without success, with its own code, keeper and argv.

    No-op while it is alive (a keeper is put back where it is gone). Like `run`, it comes back when the process is
    proven alive or has ended, after `wait_s` at most.
    Raises: NotResumable (never launched, succeeded), Unreachable, WorldError, Misuse (not-found, a secret not set).
    """
    began_s = ctx.now_s()
    known = ctx.store.index.find(run)
    box = ctx.box(known.site, known.lease)
    with ctx.alone(known.id):
        view = refresh_one(ctx, ctx.store.index.find(known.id))
        record, status = view.record, view.status
        if record.attempt == 0:
            raise NotResumable(run=record.id, why="it was never launched", following="sojourn run")
        if status.state is State.SUCCEEDED:
            raise NotResumable(run=record.id, why="it has succeeded", following=f"sojourn pull {record.id}")
        if record.phase == "cleaned":
            why = "its root was removed from its box by `clean`"
            raise NotResumable(run=record.id, why=why, following="sojourn run --name ANOTHER")
        if view.reach.ok is False:
            raise not_refreshed(view)
        if view.is_other:
            raise NotResumable(run=record.id, why=OTHER, following=f"sojourn status {record.id}")
        if status.state is State.QUEUED:
            return answer(ctx, box, view, "nothing", f"it waits in the queue of {record.site_name}", began_s)
        if status.state.is_alive and view.keeper in ("alive", "queued"):
            return answer(ctx, box, view, "nothing", f"attempt {status.attempt} is {status.state.value}", began_s)
        values: dict[str, str] = {}
        if status.state.is_alive:
            did, attempt = "adopted", status.attempt
            begun = adopt(ctx, box, view, "resume", wait_s)
        else:
            did, attempt = "launched", max(record.attempt, record.heard.attempt + 1)
            values = read_secrets(ctx, record.run.spec)
            token = journal_launching(ctx, box, record.id, attempt, Need())
            want = {"op": "want", "run": record.id, "attempt": attempt, "by": "resume", "token": token}
            asked = [{**want, "secrets": values}]
            begun = begin(ctx, box, record.id, attempt, asked, view.argv, wait_s=wait_s)
    view = wait_proven(ctx, box, record.id, attempt, wait_s, begun)
    remarks = [*unmasked(values), *begun.remarks]
    return answer(ctx, box, view, did, f"attempt {attempt} was started", began_s, remarks)
