"""The six nouns as frozen values, and three-valued words for what we know."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from sojourn.wire.documents import Spec

T = TypeVar("T")


def build_frozen(cls: type[T], fields: dict[str, Any]) -> T:
    """The frozen value of `cls` with these fields, which it now owns; omitted ones must have a plain default. For tens
    of thousands of values: a frozen class's `__init__` takes five times as long.
    """
    value = object.__new__(cls)
    object.__setattr__(value, "__dict__", fields)
    return value


class State(StrEnum):
    """Where a run stands; only evidence from the box or its scheduler moves it."""

    PLANNED = "planned"
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    STALLED = "stalled"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    KILLED = "killed"
    OOM = "oom"
    PREEMPTED = "preempted"
    TIMEOUT = "timeout"
    LOST = "lost"
    CANCELLED = "cancelled"

    __hash__ = str.__hash__  # equal to its word's; ten thousand rows each test a dozen memberships

    @property
    def is_alive(self) -> bool:
        """A process of the run exists or is about to."""
        return self in _ALIVE

    @property
    def is_dead(self) -> bool:
        """It ended without success and not by the user's `stop`: the identical `run` starts the next attempt."""
        return self in _DEAD

    @property
    def is_final(self) -> bool:
        """No process of the run exists; nothing changes until somebody asks."""
        return self in _FINAL


_ALIVE = frozenset((State.QUEUED, State.STARTING, State.RUNNING, State.STALLED))
_DEAD = frozenset((State.FAILED, State.KILLED, State.OOM, State.PREEMPTED, State.TIMEOUT, State.LOST))
_FINAL = _DEAD | {State.SUCCEEDED, State.CANCELLED}


class Pulse(Enum):
    """What a launcher knows about the process it keeps alive, or a provider about a machine. "Unknown" is a value.

    STOPPED, of a machine: it exists, computes nothing, and may bill.
    """

    ALIVE = "alive"
    STOPPED = "stopped"
    GONE = "gone"
    UNKNOWN = "unknown"


class Meter(StrEnum):
    """What we know about money."""

    RUNNING = "running"
    STOPPED = "stopped"
    UNKNOWN = "unknown"
    FREE = "free"


@dataclass(frozen=True)
class Ended:
    """A call that came back from the far side. `rc`: its own exit status (negative: killed by that signal)."""

    rc: int
    stdout: bytes
    stderr: bytes
    seconds: float = 0.0
    truncated: bool = False


@dataclass(frozen=True)
class NoAnswer:
    """A call that did not come back. `sent`: the far side may have received it. Never an error, never "dead"."""

    sent: bool
    kind: str  # refused auth host-key banner timeout reset name no-exec ...
    detail: str = ""
    next_step: str = ""


@dataclass(frozen=True)
class Site:
    """Where runs execute. No state. `base`: absolute folder on the box's durable tier, "" until the box reports it."""

    name: str
    transport: str = "local"
    launcher: str = "setsid"
    provider: str = "unmetered"
    platform: str = "local"
    address: str = ""  # what the transport needs: an ssh alias, user@host:port, ...
    base: str = ""
    init: str = ""  # shell line before setup and run: module load, conda activate
    python: str = ""
    rate_micro_per_h: int = 0
    currency: str = "USD"
    options: Mapping[str, Any] = field(default_factory=dict)  # the provider's and launcher's own settings

    @property
    def is_free(self) -> bool:
        """The user said it costs nothing per hour; otherwise a missing rate is not a rate of 0."""
        return not self.rate_micro_per_h and bool(self.options.get("is_free"))


@dataclass(frozen=True)
class Clock:
    """A danger clock of a platform: what happens when, and what is lost."""

    what: str
    at: str  # UTC stamp, or words if only a duration is known
    loses: str
    source: str = ""
    verified: str = ""  # YYYY-MM
    after_h: float = 0.0  # if it strikes this long after what `since` names, else 0
    since: str = ""  # begin (of the machine), idle (nothing runs), stop (only the disk is left)


@dataclass(frozen=True)
class Lease:
    """What is metered. `name` is what the user types to release it; `native` is the provider's own id."""

    name: str
    site: str
    provider: str
    native: str
    rate_micro_per_h: int
    currency: str
    began_s: float
    stop_verb: str
    is_final: bool  # the stop verb also destroys the data
    clocks: tuple[Clock, ...] = ()
    facts_verified: str = (
        ""  # YYYY-MM of the oldest fact about stopping that we rely on; "" = no outside fact is relied on
    )
    is_rate_known: bool = True  # False: the 0 in `rate_micro_per_h` means nothing; it may cost money
    keep_verb: str = ""  # what ends the meter but keeps the disk; "" = none known
    token: str = ""  # drawn when it was requested; its machine bears it as name or tag if the provider has such
    address: str = ""  # its machine's address, as `Site.address`; "" = not known yet, or the site's own
    facts: Mapping[str, Any] = field(default_factory=dict)  # what its provider says about it: region, GPU, ...

    @property
    def is_free(self) -> bool:
        """Known to cost nothing per hour."""
        return self.is_rate_known and not self.rate_micro_per_h


@dataclass(frozen=True)
class Place:
    """A site and, if its machine is rented, the lease for it: what a transport is made of.

    `way`: an existing transport there; without one, `backends.way` makes it.
    """

    site: Site
    lease: Lease | None = None
    way: Any = field(default=None, compare=False, repr=False)

    @property
    def address(self) -> str:
        """The machine's address."""
        return (self.lease.address if self.lease else "") or self.site.address


@dataclass(frozen=True)
class Retry:
    """How often, and after which ends, the keeper itself starts the next attempt."""

    attempts: int = 1
    on: tuple[str, ...] = ()


@dataclass(frozen=True)
class Owed:
    """One `outputs` glob."""

    glob: str


@dataclass(frozen=True)
class Run:
    """One job with one set of parameters. `spec`: everything the identity covers, as written to the box (run.json)."""

    id: str
    site: str
    root: str  # absolute, on the box
    spec: Spec
    spec_digest: str
    code_digest: str
    keeper_digest: str
    planned_s: float
    earlier: tuple[str, ...] = ()  # spec digests of earlier attempts, which ran different code

    def has_been(self, spec_digest: str | None) -> bool:
        """Some attempt of this run has, or had, that specification."""
        return spec_digest == self.spec_digest or spec_digest in self.earlier


@dataclass(frozen=True)
class Receipt:
    """This file, with these bytes and this sha256, was loaded HERE by this loader and held this.

    `path` is its name in the manifest; `home` is the absolute path of the copy that was loaded. `proved` is a subset of
    ("bytes", "structure", "load", "content"); `kind` is the artifact's type, "unknown" if no loader knows it.
    """

    run: str
    path: str
    home: str
    bytes: int
    sha256: str
    kind: str
    loader: str
    proved: tuple[str, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    code: str = ""  # digest of the code of the attempt that made it, if known

    @property
    def state(self) -> str:
        """How far it is verified: a word of `state_of`."""
        return state_of(self.proved)


def state_of(proved: Collection[str], problem: str = "") -> str:
    """`loaded`; `content-read` (walked without building the content, which counts as verified); `bytes-only`; with a
    problem, `unsafe` (a load would call something) or `bad`.
    """
    if problem:
        return "unsafe" if problem == "unsafe" else "bad"
    return "loaded" if "load" in proved else "content-read" if "content" in proved else "bytes-only"


@dataclass(frozen=True)
class Evidence:
    """One observation: what, its value, where it was read, when (UTC stamp)."""

    what: str
    value: Any
    source: str
    at: str = ""


@dataclass(frozen=True)
class Finding:
    """A rule's verdict about a run or a box: confirmed, likely, ruled-out, conflict or blind."""

    id: str
    status: str
    title: str
    severity: str = "warning"  # blocker, warning, note
    cause: str = ""
    fix: str = ""
    never: str = ""
    was: str = ""
    evidence: tuple[Evidence, ...] = ()
