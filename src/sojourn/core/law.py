"""The Iron Law as a type: only `clear` mints a Clearance, and a provider releases nothing without one.

Nothing is let go while something it holds is not proven to be home, unless the user gave that up by its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sojourn.core.values import Lease, Receipt, State
from sojourn.wire import units
from sojourn.wire.errors import Defect, Refusal
from sojourn.wire.manifest import roster_digest

# Platforms change what stopping costs and keeps; the seeds' own facts were 3 to 8 months old when they were read.
STALE_AFTER_MONTHS = 12

_MINT = object()


@dataclass(frozen=True)
class Lack:
    """One thing that stands in the way. `run`: "" where it is about the lease. `next`: the command that mends it."""

    run: str
    what: str
    next: str


class Withheld(Refusal):
    """{lease} is not let go: {summary}."""

    # `missing` in the fields is the whole list: Lack each.
    code = "withheld"
    next_step = "{first}"

    @property
    def missing(self) -> tuple[Lack, ...]:
        """Everything that stands in the way."""
        return tuple(self.fields["missing"])


@dataclass(frozen=True)
class Standing:
    """Facts about one run on the lease, as they are now.

    files: rows of its manifest, {"path", "bytes", "sha256", "role"}; `digest` is the manifest's own, "" without one.
    is_fresh: the manifest was taken again just now; otherwise it is the one its keeper sealed.
    verified: digest of the manifest that the receipts were made for. home: receipt path -> "same", "changed" or "gone",
    as compared with the copy at home just now.
    """

    run: str
    state: State
    is_launched: bool = True  # False: planned, and nothing was ever started
    is_reachable: bool = True
    is_fresh: bool = False
    digest: str = ""
    files: tuple[Mapping[str, Any], ...] = ()
    missing: tuple[str, ...] = ()  # globs owed that hit nothing: never made
    refused: tuple[str, ...] = ()  # paths that exist and cannot be carried: links that leave the run's folder
    verified: str = ""
    receipts: tuple[Receipt, ...] = ()
    home: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Judgement:
    """What would be said of a lease. `acknowledged` and `unproven` are shown when the name is asked for."""

    lacks: tuple[Lack, ...]
    acknowledged: tuple[tuple[str, str], ...]  # (run, glob) owed and never made
    unproven: tuple[tuple[str, str], ...]  # (run, path) home by hash alone: no loader knows its kind
    abandoned: tuple[str, ...]  # runs given up by name


@dataclass(frozen=True, init=False)
class Clearance:
    """Permission to release one lease, minted by `clear` alone."""

    lease: str
    native: str
    runs: tuple[str, ...]
    at_s: float
    _mint: object = field(repr=False, compare=False)

    def __init__(self, mint: object, lease: Lease, runs: tuple[str, ...], at_s: float) -> None:
        if mint is not _MINT:
            raise Defect(detail="a Clearance can only be minted by core.law.clear")
        object.__setattr__(self, "lease", lease.name)
        object.__setattr__(self, "native", lease.native)
        object.__setattr__(self, "runs", runs)
        object.__setattr__(self, "at_s", at_s)
        object.__setattr__(self, "_mint", mint)


def clear(
    lease: Lease,
    runs: Sequence[Standing],
    typed: str,
    now_s: float,
    abandon: frozenset[str] = frozenset(),
    journaled: frozenset[str] = frozenset(),
) -> Clearance:
    """Permission to let go of `lease`, on which `runs` are all that were ever launched.

    `typed`: the lease's exact name as a person typed it or a script gave it. `abandon`: runs given up by name in this
    very request; `journaled`: those of them that the journal already holds as abandoned.
    Raises: Withheld with everything that is missing, never with only the first of it.
    """
    judgement = judge(lease, runs, now_s, abandon)
    lacks = list(judgement.lacks)
    if typed != lease.name:
        given = "no name was given" if not typed else f"{typed!r} is not its name"
        lacks.append(Lack("", f"{given}: it takes exactly {lease.name!r}", f"sojourn down {lease.name}"))
    for run in sorted(abandon - journaled):
        lacks.append(Lack(run, "is to be abandoned, and the journal does not say so yet", _abandon(run)))
    if lacks:
        raise withheld(lease.name, lacks)
    return Clearance(_MINT, lease, tuple(sorted(standing.run for standing in runs)), now_s)


def withheld(lease: str, lacks: Sequence[Lack]) -> Withheld:
    """The refusal that names all that is missing, one line each."""
    first = lacks[0]
    summary = f"{first.run} {first.what}".strip() + (f", and {len(lacks) - 1} more" if len(lacks) > 1 else "")
    lines = [f"{lack.run}: {lack.what}".removeprefix(": ") + f"  ({lack.next})" for lack in lacks]
    return Withheld(lease=lease, summary=summary, missing=tuple(lacks), first=first.next, lines=lines)


def judge(lease: Lease, runs: Sequence[Standing], now_s: float, abandon: frozenset[str] = frozenset()) -> Judgement:
    """What stands in the way of letting go, the name aside. Pure; mints nothing."""
    lacks = [] if _is_current(lease, now_s) else [_stale(lease)]
    named = {standing.run for standing in runs}
    for run in sorted(abandon - named):
        lacks.append(Lack(run, "is to be abandoned, and was never on this lease", "sojourn leases"))
    acknowledged, unproven = [], []
    for standing in sorted(runs, key=lambda s: s.run):
        if standing.run in abandon or not standing.is_launched:
            continue
        lacks += _lacks(standing)
        acknowledged += [(standing.run, glob) for glob in standing.missing]
        unproven += [(standing.run, r.path) for r in standing.receipts if r.state == "bytes-only"]
    return Judgement(tuple(lacks), tuple(acknowledged), tuple(unproven), tuple(sorted(abandon & named)))


def check(clearance: object, lease: Lease) -> None:
    """What every provider calls first in `release`. Raises: Defect for anything but a clearance of this very lease."""
    if not isinstance(clearance, Clearance) or getattr(clearance, "_mint", None) is not _MINT:
        raise Defect(detail=f"releasing {lease.name} takes a Clearance, not {type(clearance).__name__}")
    if (clearance.lease, clearance.native) != (lease.name, lease.native):
        raise Defect(detail=f"the clearance is for {clearance.lease}, not for {lease.name}")


def _lacks(standing: Standing) -> list[Lack]:
    run, pull = standing.run, f"sojourn pull {standing.run}"
    if not standing.state.is_final:
        if not standing.is_reachable:
            return [Lack(run, "cannot be reached, and was not known to have ended", f"sojourn status {run}")]
        return [Lack(run, f"is {standing.state.value}", f"sojourn stop {run}")]
    if not standing.digest:
        why = "has outputs that were not listed"
        if not standing.is_reachable:
            why = "cannot be reached, and its outputs were never listed"
        return [Lack(run, why, pull)]
    if standing.is_reachable and not standing.is_fresh:
        return [Lack(run, "is reachable, and its outputs were not listed again", f"sojourn down {run}")]
    if roster_digest(dict(row) for row in standing.files) != standing.digest:
        return [Lack(run, "has a list of outputs that is not the one its digest names", pull)]
    outside = "exists and cannot be brought home: it leads out of the run's folder"
    lacks = [Lack(run, f"{path} {outside}", _abandon(run)) for path in standing.refused]
    receipts = {receipt.path: receipt for receipt in standing.receipts if receipt.run == run}
    for row in standing.files:
        if row["role"] == "output":
            why = _why_not_home(row, receipts.get(row["path"]), standing.home.get(row["path"], "gone"))
            if row["path"] not in receipts and standing.verified == standing.digest:
                why += f", though it was pulled: it does not load (mend it, or give it up with --abandon {run})"
            lacks += [Lack(run, f"{row['path']} {why}", pull)] if why else []
    if not lacks and standing.verified != standing.digest:
        why = "has other outputs now than those that were verified" if standing.verified else "was never pulled"
        lacks.append(Lack(run, why, pull))
    return lacks


def _why_not_home(row: Mapping[str, Any], receipt: Receipt | None, home: str) -> str:
    """Why an output that exists does not count as home; "" where it does."""
    if receipt is None:
        return "is not home"
    if (receipt.bytes, receipt.sha256) != (row["bytes"], row["sha256"]):
        return "changed on the box after it was brought home"
    if home != "same":
        return f"is {'no longer' if home == 'gone' else 'changed'} at {receipt.home}"
    if receipt.state == "bytes-only" and receipt.kind != "unknown":
        return "was brought home and never loaded: install what its remark in `pull` names"
    return ""


def _is_current(lease: Lease, now_s: float) -> bool:
    """Whether what we say about stopping it is young enough to be relied on."""
    if not lease.rate_micro_per_h or not lease.facts_verified:
        return True
    try:
        year, month = (int(word) for word in lease.facts_verified.split("-"))
    except ValueError:
        return False
    now_year, now_month = (int(word) for word in units.stamp(now_s).split("-")[:2])
    return (now_year - year) * 12 + now_month - month <= STALE_AFTER_MONTHS


def _stale(lease: Lease) -> Lack:
    when = lease.facts_verified or "no known month"
    what = f"what stopping it keeps was last checked in {when}; look at the provider's page"
    return Lack("", what, f'write stop = "..." into [sites.{lease.site}] of your settings')


def _abandon(run: str) -> str:
    return f"sojourn down {run} --abandon {run}"
