"""How a Clearance comes about: facts, hooks, the question, and the same facts again.

What was seen before a hook ran, or before a person was asked, proves nothing of the minute afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sojourn.core import law
from sojourn.core.owed import Lack
from sojourn.core.values import Lease
from sojourn.verbs.confirm import Ask, Confirm, confirmed
from sojourn.verbs.context import Context
from sojourn.wire.errors import Refusal

MOST_LINES = 40
ROUNDS = 3  # how often the list may have changed under a person's eyes


class KeepsChanging(Refusal):
    """{lease} changed each of the {count} times you were asked to confirm. Nothing was released."""

    code = "keeps-changing"
    next_step = "find out what still writes there, then run sojourn down {lease} again"


@dataclass(frozen=True)
class Request:
    """What to release, and how to obtain the facts about it.

    gather: takes all facts now. hooks: runs the user's own checks; whether there were any. ask: the question about
    facts as judged, with what is given up. withheld: the refusal that names what is missing.
    """

    lease: Lease
    given: law.Given
    gather: Callable[[], law.Facts]
    hooks: Callable[[], bool]
    ask: Callable[[law.Facts, law.Judgement, tuple[Lack, ...]], Ask]
    withheld: Callable[[tuple[Lack, ...]], law.Withheld]
    lease_of: Callable[[str], str]  # the lease in whose record a run is given up
    closes: str  # the lease in whose record this stands from now on; "" for what is no lease of a provider
    earlier: Mapping[str, str] = field(default_factory=dict)  # name given up before -> digest of what its run had then
    # What is beyond a confirmation that was given beforehand; () where a person is asked.
    beyond: Callable[[law.Facts, law.Judgement], tuple[Lack, ...]] = lambda facts, judgement: ()


@dataclass(frozen=True)
class Cleared:
    """A clearance, and what it was minted from."""

    clearance: law.Clearance
    facts: law.Facts
    judgement: law.Judgement


def cleared(ctx: Context, request: Request, confirm: Confirm) -> Cleared:
    """Ask the law, the user's hooks, the user, and the law again; journal what is given up.

    Where the facts are no longer those that the user was shown, the new list is shown and the name asked for again;
    a name given beforehand (`--confirm`) does not answer that.
    Raises: Withheld, HookFailed, NotConfirmed, KeepsChanging, Unreachable, WorldError.
    """
    facts, judgement, given = _judged(ctx, request)
    if request.hooks():
        facts, judgement, given = _judged(ctx, request)
    for round_ in range(ROUNDS):
        shown = facts.digest()
        given_up = law.given_up(request.lease, facts, given, ctx.now_s())
        question = request.ask(facts, judgement, given_up)
        typed = confirmed(confirm, replace(question, is_again=round_ > 0))
        facts, judgement, given = _judged(ctx, request)
        if facts.digest() == shown:
            break
    else:
        raise KeepsChanging(lease=request.lease.name, count=ROUNDS)
    if request.closes:
        ctx.store.append("clearing", lease=request.closes, facts=shown, box=facts.box, listed=list(question.lines))
    given = replace(given, typed=typed, shown=shown)
    digests = {standing.run: standing.mark for standing in facts.runs}
    for name in sorted(request.given.abandon):
        run = name.partition(":")[0]
        what = "; ".join(lack.what for lack in given_up if lack.run in (name, run))
        ctx.store.append("abandoned", lease=request.lease_of(run), run=name, what=what, digest=digests.get(run, ""))
    for name in sorted(given.accept):
        ctx.store.append("accepted", lease=request.lease_of(name.partition(":")[0]), file=name)
    given = replace(given, journaled=given.abandon)
    return Cleared(law.clear(request.lease, facts, given, ctx.now_s()), facts, judgement)


def listed(judgement: law.Judgement) -> list[str]:
    """What the confirmation lists as released in its present state."""
    lines = [f"{run}: {glob} is owed but was never written" for run, glob in judgement.acknowledged]
    lines += [
        f"{run}: {path} is home, unknown format: only its SHA-256 was checked" for run, path in judgement.unproven
    ]
    lines += [f"ACCEPTED: {name} is home but was not loaded" for name in judgement.accepted]
    return lines + list(judgement.listed)


def flags(given: law.Given) -> list[str]:
    """The words that give the same names again in a command."""
    words = [word for name in sorted(given.abandon) for word in ("--abandon", name)]
    return words + [word for name in sorted(given.accept) for word in ("--accept", name)]


def bounded(lines: list[str]) -> list[str]:
    """The lines, of a long list the first and how many more there are."""
    return lines if len(lines) <= MOST_LINES else [*lines[:MOST_LINES], f"and {len(lines) - MOST_LINES} more of these"]


def _judged(ctx: Context, request: Request) -> tuple[law.Facts, law.Judgement, law.Given]:
    """The facts, the law's word on them, and what is given: what was given up before is, while it is the same."""
    facts = request.gather()
    digests = {standing.run: standing.mark for standing in facts.runs}
    same = {
        name for name, digest in request.earlier.items() if digest and digests.get(name.partition(":")[0]) == digest
    }
    given = replace(request.given, abandon=request.given.abandon | same)
    judgement = law.judge_release(request.lease, facts, given, ctx.now_s())
    lacks = (*judgement.lacks, *request.beyond(facts, judgement))
    if lacks:
        raise request.withheld(lacks)
    return facts, judgement, given
