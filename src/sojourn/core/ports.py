"""The four ports. Each has a contract suite in `testing/contracts`; a backend is one file in its folder in `backends`.

A backend module holds one class named `Backend` that fulfils the port. Traits are data on the class; behaviour is added
by wrapping.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

from sojourn.core.law import Clearance
from sojourn.core.need import Need
from sojourn.core.values import Ended, Lease, NoAnswer, Place, Pulse, Site, State

if TYPE_CHECKING:
    from sojourn.wire.documents import Spec


@dataclass(frozen=True)
class Handle:
    """How a launcher finds again what it started. Plain data; written to the journal."""

    launcher: str
    native: str  # pid and start time, session name, job id
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class LaunchRequest:
    """What a launcher that asks somebody for a machine must know of a run. `spec`: its run.json, or what is known of
    it. `write_s`: how long its last save of a checkpoint took, 0 where none was measured yet. `after`: natives of
    handles of what must have succeeded first.
    """

    spec: Spec = field(default_factory=lambda: cast("Spec", {}))
    write_s: float = 0.0
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class ArrayTask:
    """One of several roots that ask for seats together: attempt `attempt` of the run at `root`."""

    root: str
    attempt: int


@dataclass(frozen=True)
class SchedulerStatus:
    """What a scheduler says of what `start` began: ALIVE also while it waits; GONE once the scheduler is done with it.

    `state`: how it ended by the scheduler's own record; None where that says no more than that it is over (no record
    is kept, or it ended as any process does). `reason`: for people, with what to do.
    """

    pulse: Pulse
    is_waiting: bool = False
    is_late: bool = False  # it is over, and the scheduler's record of how is still to come: ask again
    state: State | None = None
    reason: str = ""
    if_oom: str = ""  # what to say where the box saw that memory was the cause, and the scheduler did not
    is_blind: bool = False  # what it runs cannot be looked at before it is over
    if_unbegun: str = ""  # what to say where it never began on any machine: then it was cancelled while it waited


@dataclass(frozen=True)
class DryRun:
    """What a scheduler says of something that was not handed over. `said`: when and where it would start, or why not;
    `hint`: what to look at then.
    """

    is_taken: bool
    said: str = ""
    hint: str = ""


@dataclass(frozen=True)
class Offer:
    """What a provider would rent, at which rate. `is_rate_known`: False where none is known, and 0 stands there."""

    native: str
    rate_micro_per_h: int
    currency: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    is_rate_known: bool = True


@dataclass(frozen=True)
class Rejected:
    """The provider took nothing, and says so. `why`: in its own words, for people."""

    why: str


@dataclass(frozen=True)
class Unknown:
    """Whether the provider took anything is not known: its answer was lost, or says neither. Only `find` can tell."""

    detail: str = ""


class Transport(Protocol):
    """How bytes and argv get to the box. Made with `Backend(place)`; holds no state that a second one would miss."""

    def call(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0, limit_bytes: int = 16 << 20
    ) -> Ended | NoAnswer:
        """Run argv there (an argv list, never a shell line), feed `stdin`, and wait at most `timeout_s`.

        Both streams are bounded by `limit_bytes`; what is over is dropped and `truncated` says so. Children that the
        command leaves behind with our pipes open do not keep the call open for longer than `timeout_s`.
        """
        ...

    def put(self, local: str, remote: str, *, timeout_s: float = 600.0) -> None | NoAnswer:
        """Copy one local file to `remote` (absolute); it appears there whole or not at all. Idempotent."""
        ...

    def get(
        self, remote: str, local: str, *, offset: int = 0, timeout_s: float = 600.0, limit_bytes: int | None = None
    ) -> int | NoAnswer:
        """Append bytes of `remote` from `offset` on to the file `local`; bytes written. Raises: WorldError.

        At most `limit_bytes` are written, whatever the far side sends (None: all that the file has). Only a regular
        file is read there. Blocks for about `timeout_s` at the most; what came until then stays.
        """
        ...


@dataclass(frozen=True)
class Item:
    """A file that came out of a mailbox. `name`: below the base there. `version`: another one where it may differ."""

    name: str
    bytes: int
    version: str


class Mailbox(Protocol):
    """The transport of a place that takes files and gives files, and runs no command for us: a notebook service. Made
    with `Backend(place)`. `backends.mirror` makes of it what verbs need; its launcher finds that as `place.way`.
    """

    calls: ClassVar[bool]  # False; a `Transport` need not say True

    def put(self, local: str, name: str, *, timeout_s: float = 600.0) -> None | NoAnswer:
        """Lay a file there for the next start; one of that name is replaced. Raises: WorldError."""
        ...

    def list(self, *, timeout_s: float = 30.0) -> Sequence[Item] | NoAnswer:
        """All that came out and can be fetched now; () where nothing can."""
        ...

    def get(
        self, name: str, local: str, *, offset: int = 0, timeout_s: float = 600.0, limit_bytes: int | None = None
    ) -> int | NoAnswer:
        """Append bytes of what was listed as `name` to the file `local`; as `Transport.get`. Raises: WorldError."""
        ...


class Launcher(Protocol):
    """What keeps the keeper alive without us: a process on the box, a job of a cluster, a kernel. Every launcher starts
    the same argv.

    It reaches the place as it likes: by an API, or over the place's transport (`backends.way`).
    """

    survives: ClassVar[frozenset[str]]  # of: link-drop client-exit logout reboot

    def start(
        self, place: Place, argv: Sequence[str], root: str, request: LaunchRequest | None = None
    ) -> Handle | NoAnswer:
        """Start argv detached, with no input and its output in ROOT/logs/keeper.log, and return at once.

        A second start is harmless: the keeper sees to it. `request`: for a launcher that gets the machine too; without
        it, one that only puts a keeper back. Raises: WorldError where it started nothing.
        """
        ...

    def pulse(self, place: Place, handle: Handle) -> Pulse:
        """Whether what `start` began still exists. UNKNOWN when nobody answers."""
        ...

    def stop(self, place: Place, handle: Handle, grace_s: float) -> None | NoAnswer:
        """TERM it, and KILL it after `grace_s`. Idempotent."""
        ...


class ShellLauncher(Launcher, Protocol):
    """A launcher that starts by an argv on the box. Who has more to do there sends that along in the same call."""

    def command(self, argv: Sequence[str], root: str, request: LaunchRequest | None = None) -> list[str]:
        """The argv that does on the box what `start` does."""
        ...

    def read(self, ended: Ended, root: str) -> Handle:
        """What `command` came to. Raises: WorldError where it started nothing."""
        ...


class Scheduler(Launcher, Protocol):
    """A launcher whose keepers run elsewhere, when somebody gives them a machine: sbatch, a Kubernetes Job.

    What it starts finds SOJOURN_SEAT in its environment: `native` of its handle, a colon, and how often it was started
    before: one seat for each time that a machine was given. The keeper tells by it that an earlier seat is over.
    SOJOURN_SEAT_LEAD_S and SOJOURN_SEAT_GRACE_S: seconds that the payload may take to save when the keeper gets SIGINT
    (the seat will end) and SIGTERM (it ends). A second `start` for a root finds the job that waits or runs there.
    """

    schedules: ClassVar[bool]  # True; a plain launcher need not say False

    def states(self, place: Place, handles: Sequence[Handle]) -> Sequence[SchedulerStatus]:
        """How each stands, in one question for all; UNKNOWN where the scheduler does not answer."""
        ...

    def cancel(self, place: Place, handles: Sequence[Handle]) -> None | NoAnswer:
        """Take from the queue what waits there; such as runs meanwhile is ended as by `stop`. Idempotent."""
        ...

    def records(self, place: Place, handle: Handle, root: str) -> Mapping[str, tuple[int, str]]:
        """What the scheduler keeps of one of them, for a diagnosis: command -> (exit status, what it printed).

        {} where it does not answer.
        """
        ...

    def by_hand(self, root: str, native: str) -> Mapping[str, str]:
        """Shell lines for a person: `look` (how it stands), `stop`, `start` (the last start again).

        `native`: as in the handle, "" where that is not known.
        """
        ...


class BatchSystem(Scheduler, Protocol):
    """What a scheduler with scripts and arrays offers beside: all of this or nothing. Slurm does."""

    spans: ClassVar[bool]  # it starts one run's processes on several machines: SOJOURN_SEAT_STEP holds a shell line of
    # words that start on each what is put behind them

    def script(self, argv: Sequence[str], root: str, request: LaunchRequest) -> str:
        """What is handed to the scheduler, for people to read. Raises: Misuse (a setting it cannot take)."""
        ...

    def try_out(self, place: Place, script: str) -> DryRun | NoAnswer:
        """Whether the scheduler would take it, and when it would start; asks for nothing."""
        ...

    def start_all(
        self,
        place: Place,
        argv: Sequence[str],
        home: str,
        roots: Sequence[ArrayTask],
        request: LaunchRequest,
        at_once: int,
    ) -> Sequence[Handle] | NoAnswer:
        """`start` for many: each of `roots`, siblings in one folder, as the last word of `argv`; `at_once` of them
        have a seat at a time. `home`: a folder for what belongs to none of them alone.

        Safe to repeat: a root that has been asked for with this attempt is not asked for again. Raises: WorldError;
        then nothing more was asked for.
        """
        ...

    def used(self, place: Place, handles: Sequence[Handle]) -> str:
        """What they took of what the scheduler shares out among people, in a line; "" where nobody knows."""
        ...


class Provider(Protocol):
    """Starts and stops the meter. Made with `Backend(site)`; its own settings are `site.options`.

    A token is drawn at random for each taking and never used for another one. Where the provider `rents`, its machine
    bears the token as name or tag for ever: after the release `find` says None, and `take` is Rejected.
    """

    metered: ClassVar[bool]
    rents: ClassVar[bool]  # `take` asks somebody for a machine that was not there before
    stops_itself: ClassVar[bool]  # False: `release` stops nothing, and its line tells a person what to do
    stop_verb: ClassVar[str]
    is_final: ClassVar[bool]

    def offers(self, need: Need) -> Sequence[Offer]:
        """What could be rented for `need` now, cheapest first. Raises: WorldError, Unreachable."""
        ...

    def take(self, offer: Offer, token: str, now_s: float) -> Lease | Rejected | Unknown:
        """Rent it: asked once, never repeated by itself. Its lease may have no address yet: see `ready`."""
        ...

    def find(self, token: str, now_s: float) -> Lease | NoAnswer | None:
        """The lease that was taken with this token, from the provider's own list; None where it has none (any more)."""
        ...

    def ready(self, lease: Lease, deadline_s: float) -> Lease | NoAnswer:
        """The lease with the address of its machine, as soon as that can be reached: asked once, for `deadline_s` at
        most. NoAnswer (`kind` "not-ready") while it is being made. Raises: WorldError where it never will be.
        """
        ...

    def look(self, lease: Lease) -> Pulse:
        """Whether the provider says that the lease still exists."""
        ...

    def release(self, lease: Lease, clearance: Clearance) -> str:
        """Stop the meter; one line of what was done or, where only a person can do it, what to do now. Idempotent.

        It is stopped as `lease.stop_verb` says; to keep its disk, give the lease with its `keep_verb` there and
        `is_final` False: the same name and native id, so the same clearance holds.
        """
        ...


class Loader(Protocol):
    """Proves an artifact by loading it. Never runs what it reads.

    Subclass it: the members with a value are optional. A suffix is the end of a name in lower case; `*` in it stands
    for anything, a leading `/` for the start of the name.
    """

    kind: ClassVar[str]  # what receipts and screens call its files
    suffixes: ClassVar[tuple[str, ...]]  # names that it claims
    magic: ClassVar[tuple[bytes, ...]]  # its files start with one of these; (): they start with anything
    also: ClassVar[tuple[str, ...]] = ()  # names that its files may have although another loader claims them
    may_be_empty: ClassVar[bool | tuple[str, ...]] = False  # True, or the names of files that may
    among: ClassVar[str] = ""  # a pattern: files with such a last name are judged by the files beside them

    def owns(self, path: str, head: bytes) -> bool:
        """Whether the content, whatever the name, is of this kind. Asked only where `magic` fits (or is empty).

        Raises: OSError.
        """
        ...

    def load(self, path: str) -> Loaded:
        """Load the whole file. Raises: Unloadable(problem, why) of `formats.damage`, OSError; nothing else."""
        ...

    def load_among(self, path: str, name: str, beside: Mapping[str, str]) -> Loaded:
        """`load` for a file whose last name `name` matches `among`. `beside`: {last name: where it lies}, folders with
        a / behind. Raises: as `load`.
        """
        return self.load(path)

    def declines(self, head: bytes) -> bool:
        """Whether a file that starts like this only has our name by chance. Asked if no loader owns its content."""
        return False


@dataclass(frozen=True)
class Loaded:
    """What loading a file showed. `proved`: subset of ("structure", "load", "content")."""

    proved: tuple[str, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


__all__ = [
    "BatchSystem",
    "Item",
    "Launcher",
    "Mailbox",
    "Loaded",
    "Loader",
    "LaunchRequest",
    "Offer",
    "Place",
    "Provider",
    "Scheduler",
    "ShellLauncher",
    "ArrayTask",
    "Site",
    "Handle",
    "Transport",
    "DryRun",
    "Rejected",
    "SchedulerStatus",
    "Unknown",
]
