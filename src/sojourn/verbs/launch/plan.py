"""`plan`: what `run` would do and cost. Decides by the same functions as `run`; starts, pushes and rents nothing."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

from sojourn.core import money
from sojourn.core.ports import Offer
from sojourn.core.values import Evidence, Finding, Lease, NoAnswer, Site, State
from sojourn.core.verdict import SICK
from sojourn.store.catalog import platform
from sojourn.store.records import LeaseRecord
from sojourn.verbs import lasting
from sojourn.verbs.answers import Plan, Reach, worst
from sojourn.verbs.answers import money as money_of
from sojourn.verbs.context import Box, Context
from sojourn.verbs.launch import boxcheck, rates, stakes
from sojourn.verbs.launch.bidding import Bid, best_bid, elsewhere, room_of, under_another_name
from sojourn.verbs.launch.decide import decide
from sojourn.verbs.launch.preflight import base_disk
from sojourn.verbs.launch.prepare import Prepared, platform_env, prepare
from sojourn.verbs.launch.push import ask_missing
from sojourn.verbs.launch.renting import is_cleared, lease_of
from sojourn.verbs.launch.request import RunRequest
from sojourn.verbs.launch.run import named
from sojourn.verbs.project.foresight import foresee
from sojourn.verbs.rent.machine import rented_already
from sojourn.verbs.rent.price import OverMaxPrice, Wish, beyond, cheapest, in_words, max_price
from sojourn.wire import quote, units
from sojourn.wire.errors import Unreachable, WorldError

if TYPE_CHECKING:
    from sojourn.wire.documents import Hello

REFUSED = 2


def plan(ctx: Context, asked: RunRequest) -> Plan:
    """What `run` with the same request would do now. A site that does not answer leaves what it has unknown.

    The box is asked, by the keeper program, which is put there where it is not; nothing else changes anywhere. Where
    a machine would be rented, its provider is asked for the price.
    Raises: Misuse (bad-job-file, unknown-site, ...), WorldError.
    """
    prepared = prepare(ctx, asked)
    job = prepared.job
    wish = Wish(
        prepared.need, job.budget, yes=True, another=asked.another, most=job.max_price, run_s=job.max_duration_s
    )
    reach = Reach(True, units.stamp(ctx.now_s()))
    try:
        bid = best_bid(ctx, prepared, asked.site, wish)
        if bid.is_to_rent:
            reach = Reach(None, "", "no machine is rented for it now")
    except Unreachable as error:
        where = ctx.site(asked.site or (prepared.job.candidates or (prepared.job.site,))[0])
        known = ctx.store.index.run(prepared.id)
        bid = Bid(ctx.box(where), None, decide(None, prepared.spec, where.name), None)
        reach = Reach(
            False,
            "" if known is None or known.heard_s is None else units.stamp(known.heard_s),
            error.message,
        )
    return _plan(ctx, prepared, bid, reach, wish)


ACCOUNT_S = 10.0  # for what its provider says of an account
_COPY_MODES = {
    None: "a private copy for each attempt",
    False: "a private copy for each attempt",
    True: "a private copy for each attempt; large files share disk blocks with what was pushed",
}
_BLIND = "{site} only transfers files: its disk, memory and GPUs cannot be checked beforehand"


def _plan(ctx: Context, prepared: Prepared, bid: Bid, reach: Reach, wish: Wish) -> Plan:
    box, decision, job = bid.box, bid.decision, prepared.job
    site = box.site
    hello: Hello | None = bid.hello
    lacking: frozenset[str] | None = None
    if decision.do == "unknown" and bid.view is not None:
        reach = bid.view.reach
    if reach.ok:
        if hello is not None:
            lacking = bid.lacking
        else:
            digests = [tree.digest for _, tree in prepared.trees]
            said, have = box.answer_all([{"op": "hello"}, ask_missing(digests)])
            hello, lacking = cast("Hello", said.value), frozenset(have.value["missing"])
    takes = room_of(prepared, box, lacking or frozenset())
    disk = {} if box.is_blind else base_disk(hello or {})
    lease = lease_of(ctx, box)
    if bid.is_to_rent:
        lease = rented_already(ctx, site, wish) if bid.offer is None else None
    offer, too_dear = (None, None) if lease else (bid.offer, None) if bid.offer else _offered(box, wish)
    rate, currency = rate_of(site, lease, offer)
    script = _script(ctx, box, prepared, bid, hello)
    trial, refused = "", boxcheck.check_launcher(box) if reach.ok else ()
    if script and reach.ok and not refused:
        trial, refused = _tried(box, script)
    survival = _survival(box, hello, prepared.id)
    facts, before = platform(site.platform), stakes.earlier(ctx, prepared)
    needs = {**disk, "needed_bytes": takes.bytes, "needed_inodes": takes.inodes} if disk else {}
    # Where a scheduler makes the machine for each run, its own remarks say what stays of it.
    judged = {} if box.scheduler and not box.batch else survival
    at_stake = stakes.findings(facts, site, job, before, judged, needs)
    account = _account(box) if bid.is_to_rent else ()
    findings = (*bid.findings, *refused, *([_too_dear(too_dear)] if too_dear else []), *account, *at_stake)
    metered = (lease.lease if lease else offer) if lease or offer else None
    traffic = metered.facts.get("egress_micro_per_gib") if metered else None
    differs = named(prepared, bid.view.record, decision) if bid.view and decision.differs else decision.differs
    remarks = [
        *job.warnings,
        *foresee(job, prepared.pushed),
        *(() if job.outputs else ["`outputs` is empty, so no results will come home"]),
        *_checkpoint_words(bid),
        *([_BLIND.format(site=site.name)] if box.is_blind else []),
        *(_renting_words(site, lease, offer, wish) if bid.is_to_rent and not too_dear else ()),
        *([trial] if trial else []),
        *stakes.remarks(facts, job, before, traffic, currency, is_free=rate == 0),
        *(rates.words(site, box.provider.metered, job.budget is not None) if rate is None else []),
        *([f"{lease.name} was cleared for release: `run` asks for its name"] if lease and is_cleared(lease) else []),
    ]
    return Plan(
        id=prepared.id,
        site=site.name,
        identity=prepared.identity,
        decision={**decision.as_json(), "differs": list(differs)},
        push=_push(prepared, lacking),
        copy={
            "bytes": takes.copied_bytes,
            "inodes": takes.copied_inodes,
            "mode": _COPY_MODES[(hello or {}).get("has", {}).get("reflinks")],
        },
        disk=needs,
        survival=survival,
        rate_micro_per_h=rate,
        currency=currency,
        max_spent_micro=_most_micro(prepared, rate),
        clocks=tuple(asdict(c) for c in (lease.lease.clocks if lease else platform(site.platform).clocks)),
        setup=_setup(box, prepared, hello),
        outputs=job.outputs,
        persist=job.persist,
        argv=tuple(prepared.spec["argv"]),
        reach=reach,
        findings=findings,
        remarks=tuple(remarks),
        next=_next(prepared, bid, findings),
        script=script,
        rents=_rents(site, offer) if bid.is_to_rent else None,
        platform_env=platform_env(site),
        exit_status=REFUSED if decision.do == "refuse" else _unheard(reach) or worst(findings),
    )


def _renting_words(site: Site, lease: LeaseRecord | None, offer: Offer | None, wish: Wish) -> list[str]:
    """What `run` would rent first, and what it asks."""
    if lease is not None:
        return [f"`run` first waits for the machine of {lease.name}, which is already rented"]
    if offer is None:
        return [f"{site.provider} currently offers no machine that fits `resources`"]
    why = beyond(site, offer, wish)
    return [
        f"`run` rents {offer.native} at {in_words(offer)} first, and asks before it does",
        *([f"-y does not rent it: {why}"] if why else []),
        "what that machine has is known only once it is rented",
    ]


def _rents(site: Site, offer: Offer | None) -> dict[str, Any] | None:
    """The offer that `run` would take."""
    if offer is None:
        return None
    most = max_price(site)
    return {
        "provider": site.provider,
        "offer": offer.native,
        "rate": money_of(offer.rate_micro_per_h if offer.is_rate_known else None, offer.currency),
        "max_price": None if most is None else money_of(*most),
    }


def _account(box: Box) -> tuple[Finding, ...]:
    """What stands against renting anything with this account: its key, or that it has no money."""
    if not hasattr(box.provider, "check"):  # an older plug
        return ()
    from sojourn.backends.client.https import patient_for

    try:
        with patient_for(ACCOUNT_S):
            told = box.provider.check()
    except WorldError as error:
        return (_against(error.code, error.message, error.next, "its provider's answer"),)
    left = told.get("balance_micro")
    if not isinstance(left, int) or left > 0:
        return ()
    has = f"{box.site.provider} rents nothing: the account has {told.get('balance') or 'nothing'} left"
    return (_against("no-balance", has, "add money in its console", "its provider's answer"),)


def _against(id: str, what: str, fix: str, source: str) -> Finding:
    return Finding(id, "confirmed", what, "blocker", what, fix, evidence=(Evidence("account", what, source),))


def _too_dear(error: OverMaxPrice) -> Finding:
    evidence = (Evidence("offer", error.fields["price"], f"{error.fields['whose']}: {error.fields['offer']}"),)
    cause, fix = "every offer costs more than `max_price` of this site's settings", "raise `max_price`, or wait"
    return Finding(error.code, "confirmed", error.message, "blocker", cause, fix, evidence=evidence)


def _offered(box: Box, wish: Wish) -> tuple[Offer | None, OverMaxPrice | None]:
    """(what `run` would rent, why every offer costs too much)."""
    try:
        return cheapest(box.site, box.provider.offers(wish.need), wish.most), None
    except OverMaxPrice as error:
        return None, error


def _checkpoint_words(bid: Bid) -> list[str]:
    """What an unfinished run owes beside its outputs."""
    status = bid.view.status if bid.view else None
    if status is None or status.state is State.SUCCEEDED or not status.checkpoint:
        return []
    step, size_bytes = status.checkpoint.get("step"), status.checkpoint.get("bytes")
    size = f", {units.say_bytes(size_bytes)}," if size_bytes else ""
    return [f"its newest checkpoint (step {step}){size} is owed too until it has succeeded"]


def _push(prepared: Prepared, lacking: frozenset[str] | None) -> dict[str, Any]:
    trees: list[dict[str, Any]] = [
        {
            "what": what,
            "digest": tree.digest,
            "files": len(tree.rows),
            "bytes": tree.bytes,
            "there": None if lacking is None else tree.digest not in lacking,
        }
        for what, tree in prepared.trees
    ]
    new_bytes = None if lacking is None else sum(tree["bytes"] for tree in trees if not tree["there"])
    files, size_bytes = sum(tree["files"] for tree in trees), sum(tree["bytes"] for tree in trees)
    return {"files": files, "bytes": size_bytes, "new_bytes": new_bytes, "snapshots": trees}


def _survival(box: Box, hello: Hello | None, run: str) -> dict[str, Any]:
    """Whether what is in the run's root outlives what stops the meter."""
    site = box.site
    if box.is_blind:
        facts = platform(site.platform)
        verb = str(site.options.get("stop") or (box.provider.stop_verb if box.provider.rents else facts.stop_verb))
        why = "it is in that version's output, for as long as the service keeps it"
        return {"path": posixpath.join("runs", run, "checkpoints"), "verb": verb, "survives": None, "why": why}
    base = site.base or str((hello or {}).get("base") or "~/.local/share/sojourn")
    return lasting.survival(box, posixpath.join(base, "runs", run, "checkpoints"))


def rate_of(site: Site, lease: LeaseRecord | None, offer: Offer | None) -> tuple[int | None, str]:
    """(micro-units an hour, currency) of the lease, else of the offer to be taken; None where no rate is known."""
    asked: Lease | Offer
    if lease is not None:
        asked = lease.lease
    elif offer is not None:
        asked = offer
    else:
        return None, site.currency
    return asked.rate_micro_per_h if asked.is_rate_known else None, asked.currency


def _most_micro(prepared: Prepared, rate_micro_per_h: int | None) -> int | None:
    """What the run can cost at most, by its own limits; None where nothing limits it, or its rate is not known."""
    job = prepared.job
    if rate_micro_per_h is None:
        return None
    most = [job.budget[0]] if job.budget else []
    if job.max_duration_s is not None:
        most.append(money.spent_micro(rate_micro_per_h, 0.0, job.max_duration_s))
    return 0 if not rate_micro_per_h else min(most, default=None)


def _setup(box: Box, prepared: Prepared, hello: Hello | None) -> dict[str, Any]:
    digest = str(prepared.spec["setup_digest"])
    reused = None
    if digest and hello:
        reused = not box.answer("have", kind="envs", names=[digest]).value["missing"]
    return {"text": prepared.job.setup, "digest": digest, "reused": reused}


def _tried(box: Box, script: str) -> tuple[str, tuple[Finding, ...]]:
    """(when the scheduler would start it, what it says against it): asked without asking for a machine."""
    assert box.batch is not None  # it gave the script
    trial = box.batch.try_out(box.place, script)
    if isinstance(trial, NoAnswer):
        return f"{box.site.name} did not report when it would start: {trial.kind}", ()
    if trial.is_taken:
        return trial.said, ()
    title = f"{box.site.name} would reject it: {trial.said}"
    evidence = (Evidence("scheduler.said", trial.said, f"{box.site.launcher}, asked without submitting"),)
    cause = "the scheduler cannot provide what the job or the site's settings request"
    return "", (Finding("scheduler-refuses", "confirmed", title, "blocker", cause, trial.hint, evidence=evidence),)


def _script(ctx: Context, box: Box, prepared: Prepared, bid: Bid, hello: Hello | None) -> str:
    """What a scheduler would be handed; "" where the site has none, or it takes no scripts. Raises: Misuse."""
    if not box.batch:
        return ""
    from sojourn.core.ports import LaunchRequest
    from sojourn.verbs.launch.after import awaited
    from sojourn.verbs.launch.launch import order

    base = box.site.base or str((hello or {}).get("base") or "~/.local/share/sojourn")
    root = posixpath.join(base, "runs", prepared.id)
    keeper = posixpath.join(base, "keepers", box.keeper.file)
    argv = (hello or {}).get("argv") or ["python3", "-I", "-S", keeper, "supervise", "--root", root]
    if bid.view is not None:
        asked = order(ctx, box, bid.view.record)
    else:
        asked = LaunchRequest(prepared.spec, after=awaited(ctx, prepared.spec, box.site.name))
    return box.batch.script(argv, root, asked)


def _next(prepared: Prepared, bid: Bid, findings: Sequence[Finding]) -> str:
    do = bid.decision.do
    if do == "refuse":
        return under_another_name(prepared, bid.box.site.name)
    if do in ("nothing", "unknown"):
        return f"sojourn status {prepared.id}"
    blockers = [one.id for one in findings if one.status == "confirmed" and one.severity == "blocker"]
    return mending(blockers[0], prepared, bid.box.site.name) if blockers else "sojourn run"


def mending(blocker: str, prepared: Prepared, site: str) -> str:
    """The command for a blocker, by its id: what makes room, what shows other prices, `plan` again where the job file
    or the settings must change, and `doctor` where the machine must.
    """
    if blocker in ("disk-too-small", "inodes-too-few"):
        return quote.join(["sojourn", "clean", site])
    if blocker == OverMaxPrice.code:
        file = [word for word in prepared.given[:1] if not word.startswith("-")]
        return quote.join(["sojourn", "offers", *file])
    if blocker in ("resources-not-met", "scheduler-refuses"):
        return quote.join(["sojourn", "plan", *elsewhere(prepared, site), *prepared.given])
    return quote.join(["sojourn", "doctor", site])


def _unheard(reach: Reach) -> int:
    return 0 if reach.ok is not False else SICK if reach.is_sick else 3
