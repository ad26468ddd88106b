"""`watch --then pull,down --confirm LEASE`: bring home and release when all has ended, as confirmed beforehand.

The confirmation holds for one lease and for the clean case alone. It lives in this process: whoever ends that releases
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sojourn.core.beforehand import Beforehand
from sojourn.store.records import LeaseRecord
from sojourn.verbs.answers import Down, Pull
from sojourn.verbs.confirm import Ask, NotConfirmed
from sojourn.verbs.context import Context
from sojourn.verbs.observe.leases import spent_micro
from sojourn.verbs.observe.notices import Notices, channels
from sojourn.verbs.observe.status import chosen
from sojourn.verbs.release.down import down
from sojourn.verbs.release.request import DownRequest
from sojourn.verbs.retrieve.pull import pull
from sojourn.wire import quote, units
from sojourn.wire.errors import Misuse, Refusal, SojournError

STEPS = (("pull",), ("pull", "down"))


class NotThen(Misuse):
    """--then: write pull, or pull,down; not {text!r}."""

    code = "not-then"
    next_step = "sojourn help watch"


class NotOneLease(Misuse):
    """--then needs runs of one open lease, and these are on {count}."""

    code = "not-one-lease"
    next_step = "sojourn leases"


class NotClean(Refusal):
    """{lease} was not released: {why}. {meter}"""

    code = "not-clean"
    next_step = "{first}"


@dataclass(frozen=True)
class Then:
    """What is to follow a watch. `runs`: all of the lease's, which are watched; `releases`: None for a mere pull."""

    runs: tuple[str, ...]
    lease: str
    releases: Beforehand | None


def agree(ctx: Context, names: Sequence[str], then: str, given: str) -> Then:
    """What is confirmed now for later. `then`: as on the command line; `given`: the name of the lease, exactly.

    Raises: Misuse (not-then, not-one-lease, not-found, ambiguous), NotConfirmed.
    """
    steps = tuple(word.strip() for word in then.split(","))
    if steps not in STEPS:
        raise NotThen(text=then)
    records = chosen(ctx, names) if names else [one for one in chosen(ctx, ()) if one.attempt and not one.is_settled]
    leases = {record.lease for record in records if record.lease}
    if "down" not in steps:
        return Then(tuple(record.id for record in records), "", None)
    lease = ctx.store.index.lease(next(iter(leases))) if len(leases) == 1 else None
    if lease is None or not lease.is_open or lease.state == "leasing":
        raise NotOneLease(count=len(leases) if len(leases) != 1 else "one that is not open")
    runs = tuple(record.id for record in ctx.store.index.runs_on(lease.name))
    if given != lease.name:
        command = quote.join(["sojourn", "watch", *names, "--then", "pull,down", "--confirm", lease.name])
        how = "given with --confirm" if not given else f"given: {given!r} is another name"
        question = _ask(lease, runs, command)
        raise NotConfirmed(
            what="sojourn watch --then pull,down", name=lease.name, how=how, command=command, lines=list(question.lines)
        )
    confirmed = Beforehand(lease.name, lease.lease.token, lease.lease.native, frozenset(runs))
    return Then(runs, lease.name, confirmed)


def finish(ctx: Context, then: Then, has_ended: bool) -> Iterator[Pull | Down]:
    """What was agreed, after the watch: each pull, then the release. `has_ended`: every run has.

    Whatever is not clean releases nothing, and the channels of settings and runs are told.   Raises: NotClean,
    WorldError (it was told to release, and what became of that is not known).
    """
    records = [record for record in map(ctx.store.index.run, then.runs) if record is not None]
    notices = Notices(channels(ctx, records))
    try:
        for answer in _steps(ctx, then, has_ended):
            yield answer
            if isinstance(answer, Down):
                notices.send("sojourn", [f"{answer.lease}: {answer.line or 'released'}"])
    except SojournError as error:
        notices.send("sojourn", [error.message])
        raise
    finally:
        notices.close()


def _steps(ctx: Context, then: Then, has_ended: bool) -> Iterator[Pull | Down]:
    wanting = []
    if not has_ended:
        raise _held(ctx, then, "not all of its runs have ended", f"sojourn watch {' '.join(then.runs)}")
    for run in then.runs:
        record = ctx.store.index.run(run)
        if record is None or record.is_home:
            continue
        try:
            for answer in pull(ctx, [run]):
                yield answer
                wanting += [] if answer.ok else [f"{run}: {answer.why}"]
        except SojournError as error:
            wanting.append(f"{run}: {error.message}")
    if then.releases is None:
        return
    if wanting:
        raise _held(ctx, then, "; ".join(wanting), f"sojourn down {then.lease}")
    confirmed = then.releases
    try:
        yield down(
            ctx,
            DownRequest(then.lease),
            confirm=lambda ask: None if ask.is_again else confirmed.lease,
            beforehand=confirmed,
        )
    except SojournError as error:
        now = ctx.store.index.lease(then.lease)
        if now is not None and now.state == "releasing":  # it was told to go: that is not undone by saying so
            raise
        raise _held(ctx, then, error.message, error.next) from error


def _held(ctx: Context, then: Then, why: str, following: str) -> NotClean:
    record = ctx.store.index.lease(then.lease)
    meter = _meter(ctx, record) if record else ""
    return NotClean(lease=then.lease or "nothing", why=why.rstrip("."), meter=meter, first=following)


def _meter(ctx: Context, record: LeaseRecord) -> str:
    lease, spent = record.lease, spent_micro(ctx, record)
    if lease.is_free:
        return "It costs nothing by the hour."
    if spent is None:
        return "Its meter may be running, at an unknown rate."
    rate = units.say_money(lease.rate_micro_per_h, lease.currency)
    return f"Its meter runs: {rate} an hour, {units.say_money(spent, lease.currency)} so far."


def _ask(lease: LeaseRecord, runs: Sequence[str], command: str) -> Ask:
    """What is confirmed: shown with a refusal, so that a person knows what the name would mean."""
    one = lease.lease
    lines = [
        f"when {', '.join(runs)} have succeeded and everything loads here, release {lease.name}: {one.stop_verb}",
        "anything that is not clean releases nothing: a failed run, a file that does not load, a run that joins later",
        "it works only while this command runs",
    ]
    if one.is_final:
        lines.append("the release cannot be undone: everything on its disk is deleted too")
    return Ask("watch", lease.name, tuple(lines), command)
