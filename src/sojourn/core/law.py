"""The Iron Law as a type: only `clear` mints a Clearance, and a provider releases nothing without one.

Nothing is released while anything it holds is not verified at home, unless the user gave that up by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sojourn.core.owed import Debt, Lack, Standing, debt, is_alive, nameable, spelled
from sojourn.core.values import Lease
from sojourn.wire import names, quote, units
from sojourn.wire.errors import Defect, Refusal

# Platforms change what stopping costs and keeps; the oldest facts recorded here were 8 months old from the start.
STALE_AFTER_MONTHS = 12
REMOVED = "files of earlier attempts, removed by a later attempt of the run itself"
SUPERSEDED = "files of earlier attempts, replaced by the attempt that succeeded"
LASTS_S = 30.0  # of a clearance, from the moment its facts are complete
SHOWN = 20  # lacks listed individually in a refusal

_MINT = object()


class Withheld(Refusal):
    """{lease} was not released: {summary}."""

    # `missing` in the fields is the whole list of Lack.
    code = "withheld"
    next_step = "{first}"

    @property
    def missing(self) -> tuple[Lack, ...]:
        """Everything that prevents the release."""
        return tuple(self.fields["missing"])


@dataclass(frozen=True)
class Stray:
    """Something on the box that the records do not know: another client's run, or something that cannot be seen.

    `name`: what gives it up, BOX:BASE/RUN, BOX:others or BOX:unseen. `what`: what is known about it.
    """

    name: str
    what: str
    next: str
    is_alive: bool = False
    state: str = ""  # of a run, as its own box tells it


@dataclass(frozen=True)
class Facts:
    """All that the law asks about a lease, as taken at `taken_s`.

    ends_box: the release stops or deletes the machine, so what others left on it counts. gaps: what the journal lacks
    that may concern this lease, in words. box: the id the box gave itself, "" if not asked.
    """

    runs: tuple[Standing, ...]
    taken_s: float
    strays: tuple[Stray, ...] = ()
    gaps: tuple[str, ...] = ()
    ends_box: bool = True
    box: str = ""

    def digest(self) -> str:
        """Identifies everything that was seen, except the time: different facts have a different digest."""
        return names.digest(repr(replace(self, taken_s=0.0)))


@dataclass(frozen=True)
class Given:
    """What the user gave by name in this very request. `typed`: the lease's name, "" before it was requested.

    abandon: RUN, RUN:checkpoint, RUN:PATH or a stray's name; `journaled`: those already in the journal.
    accept: RUN:PATH of files that were not loaded. shown: digest of the facts the user saw.
    """

    typed: str = ""
    abandon: frozenset[str] = frozenset()
    accept: frozenset[str] = frozenset()
    journaled: frozenset[str] = frozenset()
    shown: str = ""


@dataclass(frozen=True)
class Judgement:
    """What would be said about a lease. All but `lacks` is shown when the name is requested."""

    lacks: tuple[Lack, ...]
    listed: tuple[str, ...] = ()  # a line each: what is released as it is, and why that is right
    acknowledged: tuple[tuple[str, str], ...] = ()  # (run, glob) owed but never made
    unproven: tuple[tuple[str, str], ...] = ()  # (run, path) home by hash alone: no loader knows its type
    abandoned: tuple[str, ...] = ()  # given up by name
    accepted: tuple[str, ...] = ()  # RUN:PATH accepted by name
    beside: tuple[str, ...] = ()  # what others have on a box that stays: told afterwards, never asked about


@dataclass(frozen=True, init=False)
class Clearance:
    """Permission to release one lease, minted by `clear` alone. `facts`: the digest of the facts behind it."""

    lease: str
    native: str
    runs: tuple[str, ...]
    at_s: float
    facts: str
    _mint: object = field(repr=False, compare=False)

    def __init__(self, mint: object, lease: Lease, facts: Facts) -> None:
        if mint is not _MINT:
            raise Defect(detail="a Clearance can only be minted by core.law.clear")
        object.__setattr__(self, "lease", lease.name)
        object.__setattr__(self, "native", lease.native)
        object.__setattr__(self, "runs", tuple(sorted(standing.run for standing in facts.runs)))
        object.__setattr__(self, "at_s", facts.taken_s)
        object.__setattr__(self, "facts", facts.digest())
        object.__setattr__(self, "_mint", mint)


def clear(lease: Lease, facts: Facts, given: Given, now_s: float) -> Clearance:
    """Permission to release `lease`. `facts`: everything known about it, taken after the last hook or question.

    Raises: Withheld with everything that is missing, never only the first.
    """
    lacks = list(judge_release(lease, facts, given, now_s).lacks)
    again = f"sojourn down {lease.name}"
    if given.typed != lease.name:
        said = "the lease name is missing" if not given.typed else f"{given.typed!r} is not the name of this lease"
        lacks.append(Lack("", f"{said}: type exactly {lease.name!r}", again))
    for name in sorted(given.abandon - given.journaled):
        said = quote.join(["sojourn", "down", lease.name, "--abandon", name])
        lacks.append(Lack(name, "would be abandoned, but the journal does not record that yet", said))
    if given.shown != facts.digest():
        lacks.append(Lack("", "something changed after the list was shown to you", again))
    if not 0.0 <= now_s - facts.taken_s <= LASTS_S:
        lacks.append(Lack("", f"the last check of it is older than {LASTS_S:g} s", again))
    if lacks:
        raise withheld(lease.name, lacks)
    return Clearance(_MINT, lease, facts)


@dataclass(frozen=True)
class Unused:
    """All that the law asks about a machine that never became ready, by the journal alone. `token`: of the intent to
    rent it; `runs`: that were to start on it; `has_answered`: its keeper said hello, ever. `named`: the name by which
    its user agreed, in this very command and before it was rented, that it is released if it never gets ready.
    """

    token: str
    runs: tuple[str, ...]
    has_answered: bool
    named: str


def clear_unused(lease: Lease, unused: Unused, now_s: float) -> Clearance:
    """Permission to let go of a machine that we asked for and that nothing can be on: the law's second case.

    Raises: Withheld; such a lease takes the way of `clear`.
    """
    again = f"sojourn down {lease.name}"
    lacks = []
    if not lease.token or lease.token != unused.token:
        lacks.append(Lack("", "it was not rented by sojourn", again))
    if unused.has_answered:
        lacks.append(Lack("", "it has answered before, so something may be on it", again))
    lacks += [Lack(run, "was to start on it", again) for run in unused.runs]
    if unused.named != lease.name:
        lacks.append(Lack("", "its release was not agreed to by its name before it was rented", again))
    if lacks:
        raise withheld(lease.name, lacks)
    return Clearance(_MINT, lease, Facts((), now_s))


def withheld(lease: str, lacks: Sequence[Lack]) -> Withheld:
    """The refusal that names what is missing, one line each; a long list shows the first, and counts the rest."""
    first = lacks[0]
    summary = f"{first.run} {first.what}".strip() + (f", and {len(lacks) - 1} more" if len(lacks) > 1 else "")
    lines = [f"{lack.run}: {lack.what}".removeprefix(": ") + f"  ({lack.next})" for lack in lacks[:SHOWN]]
    rest = Counter(lack.kind or "other" for lack in lacks[SHOWN:])
    if rest:
        counted = ", ".join(f"{count} {kind}" for kind, count in sorted(rest.items()))
        lines.append(f"and {len(lacks) - SHOWN} more: {counted}")
    return Withheld(lease=lease, summary=summary, missing=tuple(lacks), first=first.next, lines=lines)


def judge_release(lease: Lease, facts: Facts, given: Given, now_s: float) -> Judgement:
    """What prevents a release, the name aside. Pure; mints nothing."""
    lacks = [] if _is_current(lease, now_s) else [_stale(lease)]
    mend = f"sojourn recover {lease.site}"
    beside = f"{mend}, or if its box is gone {mend} --accept-gap {lease.name}"
    lacks += [Lack("", gap, beside, "gap in the journal") for gap in facts.gaps]
    lacks += _wrong_names(facts, given)
    listed, acknowledged, unproven, accepted, others = [], [], [], [], []
    for standing in sorted(facts.runs, key=lambda s: s.run):
        if standing.run in given.abandon and not is_alive(standing) or not standing.is_launched:
            continue
        found = _debt_of(standing, given, ends=facts.ends_box or lease.is_final)
        lacks += found.lacks
        listed += [f"{standing.run}: {line}" for line in found.listed]
        acknowledged += [(standing.run, glob) for glob in found.acknowledged]
        unproven += [(standing.run, path) for path in found.unproven]
        accepted += [f"{standing.run}:{path}" for path in found.accepted]
        if standing.superseded:
            listed.append(f"{standing.run}: {standing.superseded} {SUPERSEDED}")
        if standing.removed:
            listed.append(f"{standing.run}: {standing.removed} {REMOVED}")
    for stray in facts.strays:
        if facts.ends_box and (stray.is_alive or stray.name not in given.abandon):
            lacks.append(Lack(stray.name, stray.what, stray.next, "unknown on the box"))
        elif stray.name not in given.abandon:
            others.append(f"{stray.name}  {stray.state or 'there'}, not touched")
    return Judgement(
        tuple(lacks),
        tuple(listed),
        tuple(acknowledged),
        tuple(unproven),
        tuple(sorted(given.abandon)),
        tuple(accepted),
        tuple(others),
    )


def given_up(lease: Lease, facts: Facts, given: Given, now_s: float) -> tuple[Lack, ...]:
    """What `given.abandon` gives up: what would otherwise be missing."""
    without = judge_release(lease, facts, replace(given, abandon=frozenset()), now_s).lacks
    kept = set(judge_release(lease, facts, given, now_s).lacks)
    return tuple(lack for lack in without if lack not in kept)


def check(clearance: object, lease: Lease) -> None:
    """The first call of every provider's `release`. Raises: Defect for anything but a clearance for this very lease."""
    if not isinstance(clearance, Clearance) or getattr(clearance, "_mint", None) is not _MINT:
        raise Defect(detail=f"releasing {lease.name} takes a Clearance, not {type(clearance).__name__}")
    if (clearance.lease, clearance.native) != (lease.name, lease.native):
        raise Defect(detail=f"the clearance is for {clearance.lease}, not for {lease.name}")


def in_time(clearance: Clearance, now_s: float) -> None:
    """The last call before the release itself. Raises: Withheld if the clearance has expired."""
    if not 0.0 <= now_s - clearance.at_s <= LASTS_S:
        what = f"the last check of it is older than {LASTS_S:g} s"
        raise withheld(clearance.lease, [Lack("", what, f"sojourn down {clearance.lease}")])


def _debt_of(standing: Standing, given: Given, *, ends: bool) -> Debt:
    prefix = f"{standing.run}:"
    accept = {name.removeprefix(prefix) for name in given.accept if name.startswith(prefix)}
    abandon = {name.removeprefix(prefix) for name in given.abandon if name.startswith(prefix)}
    return debt(standing, abandon=abandon, accept=accept, ends=ends)


def _wrong_names(facts: Facts, given: Given) -> list[Lack]:
    """Names given up or accepted that do not exist: a mistyped name gives up nothing."""
    runs = {standing.run for standing in facts.runs}
    known = runs | {stray.name for stray in facts.strays}
    known |= {f"{standing.run}:{name}" for standing in facts.runs for name in nameable(standing)}
    lacks = [
        Lack(name, "cannot be abandoned: it was never on this lease", "sojourn leases")
        for name in given.abandon - known
    ]
    for name in given.accept:
        run, _, path = name.partition(":")
        paths = [r.path for s in facts.runs if s.run == run for r in s.receipts]
        if path not in paths and path not in map(spelled, paths):
            lacks.append(Lack(run, f"{path} cannot be accepted: it is not home", f"sojourn pull {run}"))
    return sorted(lacks, key=lambda lack: (lack.run, lack.what))


def _is_current(lease: Lease, now_s: float) -> bool:
    """Whether our facts about stopping it are recent enough to rely on."""
    if lease.is_free or not lease.facts_verified:
        return True
    try:
        year, month = (int(word) for word in lease.facts_verified.split("-"))
    except ValueError:
        return False
    now_year, now_month = (int(word) for word in units.stamp(now_s).split("-")[:2])
    return (now_year - year) * 12 + now_month - month <= STALE_AFTER_MONTHS


def _stale(lease: Lease) -> Lack:
    when = lease.facts_verified or "no known month"
    what = f"what survives a stop was last checked in {when}; see the provider's page"
    return Lack("", what, f'write stop = "..." into [sites.{lease.site}] of your settings')
