"""`run` with a mended job under the name of a run that left nothing: that one stays on its box as NAME@1, NAME@2 ..."""

from __future__ import annotations

from dataclasses import replace

from sojourn.core.values import State
from sojourn.store.records import RunRecord
from sojourn.verbs.context import Box, Context
from sojourn.verbs.launch.decide import Decision
from sojourn.verbs.observe.view import RunView
from sojourn.wire import names
from sojourn.wire.errors import WorldError

REVISE_S = 120.0  # what was not sealed is read again


def or_replaced(ctx: Context, view: RunView | None, decision: Decision) -> Decision:
    """The decision, or in place of a refusal to replace that run: its box was asked just now, and it left nothing.

    Raises: Unreachable, WorldError.
    """
    if view is None or decision.do != "refuse" or not decision.differs or not _may_be(ctx, view):
        return decision
    if "site" in decision.differs:  # the same job elsewhere: nothing was mended
        return decision
    record = view.record
    box = ctx.box(record.site, record.lease)
    try:
        answer = box.answer("left", timeout_s=REVISE_S, run=record.id, identity=record.run.spec_digest).value
    except WorldError as error:
        if error.code != "alive":
            raise
        return decision
    if answer["left"]:
        some = ", ".join(answer["left"][:3]) + (" and more" if len(answer["left"]) > 3 else "")
        return replace(decision, left=f"; it left {some}")
    if not answer["root"]:  # nothing of it is there; what it was is known here alone
        return decision
    last = max(int(answer["last"]), record.attempt)
    why = f"attempt {view.status.attempt} ended: {view.status.state.value}, and left nothing"
    return Decision("replace", last + 1, why, decision.differs)


def replaced(ctx: Context, record: RunRecord) -> str:
    """Make that run a revision, on its box and then in the records; its new id. Cut off in between, the same again does
    it. Raises: Unreachable, WorldError (it left something after all).
    """
    box: Box = ctx.box(record.site, record.lease)
    answer = box.answer("revise", timeout_s=REVISE_S, run=record.id, identity=record.run.spec_digest).value
    kept = str(answer["root"])
    ctx.store.append("revised", run=record.id, to=kept, last=int(answer["last"]))
    return kept


def kept_words(ctx: Context, decision: Decision, run: str) -> tuple[str, ...]:
    """Of a run that has replaced another: where that one is; else ()."""
    if decision.do != "replace":
        return ()
    newest = max((one.id for one in ctx.store.index.revisions(run)), key=names.revision_of, default=run)
    return (f"{decision.why}: it is kept as {newest}",)


def _may_be(ctx: Context, view: RunView) -> bool:
    """It is over for good, without success, and its box is still ours to ask."""
    record, state = view.record, view.status.state
    is_over = state is State.CANCELLED or state.is_dead
    lease = ctx.store.index.lease(record.lease)
    is_there = lease is None or lease.is_open or not lease.lease.token
    return is_over and record.is_settled and not record.sweep and record.phase != "cleaned" and is_there
