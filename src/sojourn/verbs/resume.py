"""`resume`: the same argv, the next attempt; also after `stop`."""

from __future__ import annotations

from sojourn.core.need import Need
from sojourn.core.values import State
from sojourn.store.records import RunRecord
from sojourn.verbs.answers import Launch
from sojourn.verbs.context import Box, Context
from sojourn.verbs.hear import OTHER, hear_one
from sojourn.verbs.launch import answer, launch, read_secrets, unmasked, wait_proven
from sojourn.verbs.renting import moving_in
from sojourn.wire.errors import Misuse, Unreachable


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
    box = ctx.box(known.site)
    with ctx.alone(known.id):
        view = hear_one(ctx, ctx.store.index.find(known.id))
        record, status = view.record, view.status
        if record.attempt == 0:
            raise NotResumable(run=record.id, why="it was never launched", following="sojourn run")
        if status.state is State.SUCCEEDED:
            raise NotResumable(run=record.id, why="it has succeeded", following=f"sojourn pull {record.id}")
        if record.phase == "cleaned":
            why = "its root was removed from its box by `clean`"
            raise NotResumable(run=record.id, why=why, following="sojourn run --name ANOTHER")
        if view.reach.ok is False:
            raise Unreachable(site=record.site_name, detail=view.reach.error)
        if view.is_other:
            raise NotResumable(run=record.id, why=OTHER, following=f"sojourn status {record.id}")
        if status.state.is_alive and view.keeper == "alive":
            return answer(ctx, box, view, "nothing", f"attempt {status.attempt} is {status.state.value}", began_s)
        remarks: list[str] = []
        if status.state.is_alive:
            did, attempt = "adopted", status.attempt
            argv = box.answer("want", run=record.id, attempt=attempt, by="resume").value["argv"]
        else:
            did, attempt = "launched", max(record.attempt, record.heard.attempt + 1)
            values = read_secrets(ctx, record.run.spec)
            remarks = unmasked(values)
            argv = _ask_for(ctx, box, record, attempt, values)
        remarks = [*remarks, *launch(ctx, box, record.id, attempt, argv)]
    view = wait_proven(ctx, box, record.id, attempt, wait_s)
    return answer(ctx, box, view, did, f"attempt {attempt} was started", began_s, remarks)


def _ask_for(ctx: Context, box: Box, record: RunRecord, attempt: int, values: dict[str, str]) -> list[str]:
    """Journal the intent and lay the want on the box; the argv that starts the keeper.

    The token of an intent that was cut short is used again.
    """
    token = record.token if record.attempt == attempt and record.token else ctx.token()
    with moving_in(ctx, box, Need()) as lease:
        ctx.store.append("launching", run=record.id, attempt=attempt, token=token, lease=lease.name)
    asked = box.answer("want", run=record.id, attempt=attempt, by="resume", token=token, secrets=values)
    argv: list[str] = asked.value["argv"]
    return argv
