"""`run --queue`: a plain run into the queue of its box, which starts it when a GPU is free, whoever is watching."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sojourn.core.need import Need, fits
from sojourn.core.values import State
from sojourn.verbs.answers import Launch, worst
from sojourn.verbs.context import Context
from sojourn.verbs.launch import launch
from sojourn.verbs.launch import run as plainly
from sojourn.verbs.launch.bidding import BLOCKED, Bid, best_bid
from sojourn.verbs.launch.prepare import Prepared, prepare
from sojourn.verbs.launch.renting import reopen
from sojourn.verbs.launch.request import RunRequest
from sojourn.verbs.launch.revise import kept_words
from sojourn.verbs.observe.refresh import refresh_one
from sojourn.verbs.observe.view import RunView
from sojourn.verbs.project.foresight import foresee
from sojourn.verbs.rent.price import Wish
from sojourn.verbs.sweep.batch import Batch, CellRequest
from sojourn.verbs.sweep.enqueue import enqueue
from sojourn.verbs.sweep.slots import SiteSlots, lanes
from sojourn.wire import names
from sojourn.wire.errors import Misuse, WorldError

if TYPE_CHECKING:
    from sojourn.wire.documents import Hello

LOOK_S = 15.0  # for the queue's keeper to show, or begin the run
STAYS_S = 1.5  # a run that waits that long beside a living queue has to wait
_DEFAULT = "--queue is already the default on {site}: its scheduler queues every run"


class NoQueueThere(Misuse):
    """{site} only transfers files, so it has no queue: every run gets a machine of its own."""

    code = "no-queue-there"
    next_step = "sojourn run"


def queue_run(ctx: Context, asked: RunRequest, *, wait_s: float = 60.0) -> Launch:
    """Queue the job on its box: one run per GPU at a time (per box where it has none), in the order of asking, beside
    whatever else of sojourn's lives there. Comes back when the run waits, or lives, or has ended.

    The arguments, what the identical call means, and the errors are those of `run`. On a site with a scheduler it is
    `run`, with a remark.
    """
    began_s = ctx.now_s()
    prepared = prepare(ctx, asked)
    plainly.refuse_sweep(ctx, prepared, asked.site)
    with ctx.alone(prepared.id):
        wish = Wish(prepared.need, prepared.job.budget, asked.yes, asked.another, waits=asked.waits)
        bid = best_bid(ctx, prepared, asked.site, wish, may_rent=True)
        box, decision = bid.box, bid.decision
        if not box.scheduler:
            plainly.refuse(ctx, prepared, bid)
            if box.is_blind:
                raise NoQueueThere(site=box.site.name)
            if decision.do == "nothing" and bid.view is not None:
                return launch.answer(ctx, box, bid.view, "nothing", decision.why, began_s, prepared.job.warnings)
            if worst(bid.findings) == BLOCKED:
                return plainly.blocked(ctx, prepared, bid, began_s)
            if decision.do != "adopt":
                values = launch.read_secrets(ctx, prepared.spec)
                said = _queue(ctx, prepared, bid, values)
    if box.scheduler or decision.do == "adopt":  # it has a queue of its own; or it lives already
        answer = plainly.run(ctx, asked, wait_s=wait_s)
        remarks = [_DEFAULT.format(site=box.site.name)] if box.scheduler else []
        return replace(answer, remarks=(*answer.remarks, *remarks))
    view = _seen(ctx, prepared.id)
    if view.status.state is not State.QUEUED:
        view = launch.wait_proven(ctx, box, prepared.id, decision.attempt, wait_s, launch.Begun(view, False, ()))
    did = "queued" if view.status.state is State.QUEUED else "launched"
    foreseen = foresee(prepared.job, prepared.pushed) if decision.do == "new" else ()
    meter = plainly.meter_words(ctx, view.record.site, view.record.lease, bool(view.record.local.get("budget")))
    kept = kept_words(ctx, decision, prepared.id)
    remarks = [*prepared.job.warnings, *kept, *foreseen, *launch.unmasked(values), *said, *meter]
    return launch.answer(ctx, box, view, did, f"attempt {decision.attempt} is running", began_s, remarks)


def cards(need: Need, hello: Hello, envs: Mapping[str, str]) -> dict[str, Any]:
    """The GPUs that a run waits for, as its line in the queue has them: as many as `resources` says, else one; all of
    them where the job itself says which it uses.
    """
    if "CUDA_VISIBLE_DEVICES" in envs:
        return {"whole": True}
    gpus = [gpu for gpu in hello.get("gpus") or () if isinstance(gpu, Mapping)]
    for kind, count in need.accelerators:
        fitting = [str(gpu.get("uuid") or gpu.get("index")) for gpu in gpus if fits(kind, str(gpu.get("name")))]
        if len(fitting) >= count:
            return {"count": count, "of": fitting}
    return {"count": 1}


def _queue(ctx: Context, prepared: Prepared, bid: Bid, values: Mapping[str, str]) -> tuple[str, ...]:
    """Journal it, push it, put it into the queue, and start the queue's keeper where none lives; remarks."""
    box, attempt = bid.box, bid.decision.attempt
    assert bid.hello is not None  # nothing is queued that was not just asked for
    reopen(ctx, box)
    spec = plainly.journal_planned(ctx, prepared, box, bid.decision)
    # The box knows how its queue is started, and says so where this is not it.
    base, argv = bid.hello["base"], list(bid.hello["argv"])
    hello: Any = {**bid.hello, "argv": [*argv[:-1], f"{base}/queues/{names.RUNS_QUEUE}"]}
    slots = SiteSlots(box, hello, bid.lacking, lanes(box.site.name, bid.hello, Need()))
    wish = cards(prepared.need, bid.hello, prepared.spec.get("envs") or {})
    known = ctx.store.index.find(prepared.id)
    request = CellRequest(spec, attempt, is_recoded=bool(known.run.earlier), cards=wish)
    try:
        return enqueue(
            ctx, Batch(names.RUNS_QUEUE, slots, (request,), prepared.need, trees=prepared.trees, secrets=values)
        )
    except WorldError as error:
        if error.code != "name-taken":
            raise
        raise plainly.taken(ctx, prepared, box, attempt) from error


def _seen(ctx: Context, run: str) -> RunView:
    """Look until the run has begun, or is seen to wait beside a keeper of its queue; LOOK_S at most."""
    began_s, pause_s = ctx.now_s(), launch.FIRST_LOOK_S
    while True:
        view = refresh_one(ctx, ctx.store.index.find(run))
        past_s = ctx.now_s() - began_s
        has_to_wait = view.queue.get("place") and view.queue["keeper"] == "alive" and past_s >= STAYS_S
        if view.status.state is not State.QUEUED or has_to_wait or view.reach.ok is False or past_s >= LOOK_S:
            return view
        ctx.sleep(pause_s)
        pause_s = min(pause_s * 1.5, launch.LAST_LOOK_S)
