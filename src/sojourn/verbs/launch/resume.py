"""`resume`: the same argv, the next attempt; also after `stop`. With other code only where that is asked for."""

from __future__ import annotations

from typing import Any

from sojourn.core.need import Need
from sojourn.core.values import State
from sojourn.store.records import OTHER, RunRecord
from sojourn.verbs.answers import Launch
from sojourn.verbs.context import Box, Context
from sojourn.verbs.launch.launch import adopt, answer, begin, journal_launching, read_secrets, unmasked, wait_proven
from sojourn.verbs.launch.push import ask_missing, push
from sojourn.verbs.launch.recode import Recoded, recoded
from sojourn.verbs.launch.rosters import remember
from sojourn.verbs.observe.refresh import not_refreshed, refresh_one
from sojourn.wire.errors import Misuse


class NotResumable(Misuse):
    """{run} cannot be resumed: {why}."""

    code = "not-resumable"
    next_step = "{following}"


def resume(ctx: Context, run: str, *, new_code: bool = False, wait_s: float = 60.0) -> Launch:
    """Start the next attempt of a run that ended without success, with its own code, keeper and argv.

    `new_code`: with the code, `run` and `setup` of its job file as they are now, for this and all later attempts.

    No-op while it is alive (a keeper is put back where it is gone). Like `run`, it comes back when the process is
    proven alive or has ended, after `wait_s` at most.
    Raises: NotResumable (never launched, succeeded, alive with other code), OtherJob, Unreachable, WorldError, Misuse
    (not-found, a secret not set).
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
        if record.has_vanished:
            why = "its machine is gone, and another one has to be rented for it"
            raise NotResumable(run=record.id, why=why, following="sojourn run")
        if view.reach.ok is False:
            raise not_refreshed(view)
        if view.is_other:
            raise NotResumable(run=record.id, why=OTHER, following=f"sojourn status {record.id}")
        if new_code and (status.state.is_alive or status.state is State.QUEUED):
            why = f"attempt {status.attempt} is {status.state.value}, with the code before"
            raise NotResumable(run=record.id, why=why, following=f"sojourn stop {record.id}")
        if new_code and record.sweep:
            why = f"it is a cell of {record.sweep}, whose failed cells run again together"
            raise NotResumable(run=record.id, why=why, following="sojourn sweep --with-code new")
        if status.state is State.QUEUED:
            return answer(ctx, box, view, "nothing", f"it waits in the queue of {record.site_name}", began_s)
        if status.state.is_alive and view.keeper in ("alive", "queued"):
            return answer(ctx, box, view, "nothing", f"attempt {status.attempt} is {status.state.value}", began_s)
        values: dict[str, str] = {}
        words = ""
        if status.state.is_alive:
            did, attempt = "adopted", status.attempt
            begun = adopt(ctx, box, view, "resume", wait_s)
        else:
            did, attempt = "launched", max(record.attempt, record.heard.attempt + 1)
            values = read_secrets(ctx, record.run.spec)
            asked: list[dict[str, Any]] = []
            blobs: list[bytes] = []
            if new_code:
                asked, blobs, words = _bring(ctx, box, record)
                record = ctx.store.index.find(record.id)
            token = journal_launching(ctx, box, record.id, attempt, Need())
            want: dict[str, Any] = {"op": "want", "run": record.id, "attempt": attempt, "by": "resume", "token": token}
            if record.run.earlier:  # the box may not have heard of its newest code yet
                want["spec"] = record.run.spec
            asked.append({**want, "secrets": values})
            begun = begin(ctx, box, record.id, attempt, asked, view.argv, blobs=blobs, wait_s=wait_s)
    view = wait_proven(ctx, box, record.id, attempt, wait_s, begun)
    remarks = [*unmasked(values), *begun.remarks]
    return answer(ctx, box, view, did, f"attempt {attempt} was started{words}", began_s, remarks)


def _bring(ctx: Context, box: Box, record: RunRecord) -> tuple[list[dict[str, Any]], list[bytes], str]:
    """Bring today's code to the box and journal that the run has it; (ops and their data, for the call that starts the
    attempt; what changed, in words). Raises: OtherJob, NoJobOfIt, Misuse, Unreachable, WorldError.
    """
    new = recoded(ctx, record, box)
    if new.is_same:
        return [], [], " with the same code: nothing changed"
    trains = {"op": "have", "kind": "train", "names": [box.keeper.train_file]}
    hello, *lacks = box.answer_all([{"op": "hello", "run": record.id}, ask_missing(_digests(new)), trains])
    lacking = {name for one in lacks for name in one.value["missing"]}
    base = str(hello.value["base"])
    ops, blobs = push(ctx, box, base, new.trees, lacking)
    if box.keeper.train_file in lacking:
        box.must(box.keeper.put_train(base))
    ctx.store.append("recoded", template=new.spec, cells=[{}])
    remember(new.trees[0][1])
    some = ", ".join(new.files[:3]) + (f" and {len(new.files) - 3} more" if len(new.files) > 3 else "")
    return ops, blobs, f" with today's code{f' ({some} changed)' if some else ''}"


def _digests(new: Recoded) -> list[str]:
    return [tree.digest for _, tree in new.trees]
