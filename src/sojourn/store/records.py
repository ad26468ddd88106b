"""What the index returns: one run, one lease, as journaled. JSON is decoded on first use."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Generic, TypeVar, overload

from sojourn.core import plain
from sojourn.core.fold import VANISHED, Status, from_plain, settle
from sojourn.core.values import Lease, Meter, Receipt, Run, Site, State

_read = json.JSONDecoder().raw_decode  # of our own texts: `loads` looks for blanks around each


OTHER = "the box has a run of this name with another specification, put there by another client"
R = TypeVar("R")
T = TypeVar("T")


class _once(Generic[R, T]):
    """`functools.cached_property` without its lock, which for ten thousand records costs more than the cache saves."""

    def __init__(self, make: Callable[[R], T]) -> None:
        self._make, self.__doc__ = make, make.__doc__

    @overload
    def __get__(self, record: None, kind: type[R]) -> _once[R, T]: ...
    @overload
    def __get__(self, record: R, kind: type[R]) -> T: ...
    def __get__(self, record: R | None, kind: type[R]) -> T | _once[R, T]:
        if record is None:
            return self
        value = self._make(record)
        record.__dict__[self._make.__name__] = value
        return value


@dataclass(frozen=True)
class RunRecord:
    """A run: what was requested, last reported, and is home. `attempt`: the last one launched (0: none)."""

    id: str
    site_name: str
    planned_s: float
    attempt: int
    token: str
    lease: str  # name of its last attempt's lease, or ""
    # The last intent or result in the journal: planned launching refused launched stopping pulling pulled cleaned; for
    # a cell also queueing queued withdrawn moving.
    phase: str
    offset: int  # of the events received
    heard_s: float | None  # when the box last answered
    keeper: str  # pulses in that answer: alive gone none unknown, or "" before any
    payload: str
    pulled_dir: str
    manifest_digest: str  # of the pulled manifest, or ""
    seal: str  # of the manifest that its keeper had sealed by the pull: the same, unless an output changed since
    owed: int  # files in the pulled manifest; before a pull, the number of `outputs` globs
    home: int  # files home and loaded
    sweep: str = ""  # the sweep it is a cell of
    queue: str = ""  # the sweep whose queue on its box starts its last attempt; "" = none, or it was withdrawn
    # The rest, as JSON texts.
    run_text: str = ""
    site_text: str = ""
    local_text: str = ""
    tether_text: str = "null"
    status_text: str = "{}"
    receipts_text: str = "[]"
    problems_text: str = "[]"
    failed_text: str = "[]"
    gone_text: str = "[]"
    also_text: str = "[]"

    @_once
    def run(self) -> Run:
        """The run as planned; `root` is "" until the box reports it."""
        return plain.run_from(json.loads(self.run_text))

    @_once
    def site(self) -> Site:
        """The site as it was when the run was planned."""
        return _site(self.site_text)

    @_once
    def local(self) -> dict[str, Any]:
        """What concerns only this machine: job_file, workdir, notify, hooks, budget, ..."""
        return dict(json.loads(self.local_text))

    @_once
    def handle(self) -> dict[str, Any] | None:
        """How its launcher finds it, or None if no launch returned."""
        value: dict[str, Any] | None = json.loads(self.tether_text)
        return value

    @_once
    def heard(self) -> Status:
        """The fold of the events received: pass it to `fold` with new events."""
        return from_plain(_read(self.status_text)[0])

    @_once
    def status(self) -> Status:
        """What to show: the fold overlaid with the last pulses."""
        return self.settled(self.heard, self.keeper, self.payload)

    def settled(self, heard: Status, keeper: str, payload: str) -> Status:
        """`heard` overlaid with pulses and its known place in a queue."""
        # Without a root no keeper can be `none`: its queue never received it, or its disk was wiped.
        waits = bool(self.queue) and (heard.attempt > 0 or keeper != "gone")
        status = settle(heard, keeper, payload, self.attempt, is_queued=waits)
        if self.phase == "withdrawn" and heard.attempt < self.attempt and keeper != "alive":
            why = "it was removed from its queue before it began"
            return replace(status, state=State.CANCELLED, attempt=self.attempt, reason=why)
        if self.phase == "refused":
            return replace(status, reason=OTHER)
        return status

    @_once
    def receipts(self) -> tuple[Receipt, ...]:
        """Receipts of the last pull."""
        return tuple(plain.receipt_from(one) for one in json.loads(self.receipts_text))

    @_once
    def problems(self) -> tuple[Any, ...]:
        """What did not come home or does not load, by the last pull: missing globs, problems as in `verify`."""
        text = self.problems_text
        return () if text == "[]" else tuple(_read(text)[0])

    @_once
    def failed(self) -> tuple[dict[str, Any], ...]:
        """What the last pull brought home whole but does not load: {"path", "from", "sha256", "problem"} each."""
        text = self.failed_text
        return () if text == "[]" else tuple(_read(text)[0])

    @_once
    def gone(self) -> tuple[dict[str, Any], ...]:
        """What its keeper had sealed but the box had lost by the last pull: {"path", "bytes", "sha256"} each."""
        text = self.gone_text
        return () if text == "[]" else tuple(_read(text)[0])

    @_once
    def also(self) -> tuple[str, ...]:
        """Paths that `pull RUN:PATH` named: outputs beside those of its job file."""
        return () if self.also_text == "[]" else tuple(map(str, _read(self.also_text)[0]))

    @property
    def outputs(self) -> tuple[str, ...]:
        """Globs of all that it owes, and the paths that were named later."""
        return (*(str(glob) for glob in self.run.spec.get("outputs") or ()), *self.also)

    def code_of(self, source: str) -> str:
        """Digest of the code that made a file, by its place in the root (`from` of a manifest): its attempt's; for
        files shared by attempts, the only one there was. "" if unknown.
        """
        codes = {int(end["attempt"]): str(end["code"]) for end in self.heard.ends if end.get("code")}
        codes |= {self.heard.attempt: self.heard.code} if self.heard.code else {}
        top, _, rest = source.partition("/")
        number = rest.partition("/")[0]
        if top == "attempts" and number.isdigit():
            return codes.get(int(number), "")
        return next(iter(codes.values())) if len(set(codes.values())) == 1 else ""

    @property
    def machine(self) -> str:
        """The name of its machine: the lease's if rented, else the site's."""
        return self.lease or self.site_name

    @property
    def is_home(self) -> bool:
        """All it owes came home and was loaded, and its keeper has sealed nothing newer."""
        return self.is_pulled and not self.problems

    @property
    def is_pulled(self) -> bool:
        """It was pulled, successfully or not, and its keeper has sealed nothing newer."""
        return bool(self.seal) and self.seal == self.heard.manifest

    @property
    def has_vanished(self) -> bool:
        """Its provider said twice that its machine is gone; nobody can be asked any more."""
        return self.keeper == VANISHED

    @property
    def is_settled(self) -> bool:
        """Nothing more will be reported: the last requested attempt has ended and its manifest is sealed; if a
        scheduler ran it, its record is known."""
        heard = self.heard
        return heard.is_sealed and heard.attempt >= self.attempt and not heard.awaits_judgement


@lru_cache(maxsize=1024)  # ten thousand runs share a few sites
def _site(text: str) -> Site:
    return plain.site_from(json.loads(text))


@dataclass(frozen=True)
class LeaseRecord:
    """A lease and its progress. `state`: leasing (requested, nothing heard yet) open clearing releasing released
    settled.
    """

    name: str
    generation: int  # number of its `leased` record; a name may be rented again after a release
    state: str
    began_s: float
    ended_s: float | None
    spent_micro: int | None  # as recorded at the release
    line: str  # the provider's answer to the release
    row: Mapping[str, str]

    @_once
    def lease(self) -> Lease:
        """The lease as the provider returned it."""
        return plain.lease_from(json.loads(self.row["lease"]))

    @_once
    def abandoned(self) -> tuple[dict[str, Any], ...]:
        """What the user gave up by name: {"run", "what", "digest"} each; the digest is of what the run had then."""
        return tuple(json.loads(self.row["abandoned"]))

    @_once
    def lost(self) -> tuple[Any, ...]:
        """What was lost with a lease settled because its provider reported twice that it is gone."""
        return tuple(json.loads(self.row["lost"]))

    @property
    def is_open(self) -> bool:
        """Not released yet, as far as this machine knows."""
        return self.state not in ("released", "settled")

    @property
    def was_kept(self) -> bool:
        """It was released so that its disk stays: a provider's line of a release says which way it was stopped."""
        keeping = self.lease.keep_verb
        return self.state == "released" and bool(keeping) and keeping in self.line

    @property
    def has_stop(self) -> bool:
        """Releasing it stops a meter, or tells the user to; otherwise it only closes our own record."""
        return self.lease.provider != "unmetered"

    @property
    def meter(self) -> Meter:
        """What we know about its cost: nothing between asking to stop and the answer, or if its rate is unknown and
        nobody has stopped it.
        """
        if self.lease.is_free:
            return Meter.FREE
        if not self.lease.is_rate_known and (self.is_open or not self.has_stop):
            return Meter.UNKNOWN
        if self.state in ("leasing", "releasing"):
            return Meter.UNKNOWN
        return Meter.RUNNING if self.is_open else Meter.STOPPED
