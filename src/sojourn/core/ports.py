"""The four ports. Each has a contract suite in `testing/contracts`; a backend is one file in its folder in `backends`.

A backend module holds one class named `Backend` that fulfils the port. Traits are data on the class; behaviour is added
by wrapping. The port of providers is in `core.offers`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

from sojourn.core.offers import Offer, Provider, Rejected, Unknown
from sojourn.core.values import Ended, NoAnswer, Place, Pulse, Site, State

if TYPE_CHECKING:
    from sojourn.wire.documents import Spec


@dataclass(frozen=True)
class Handle:
    """How a launcher finds what it started. Plain data; written to the journal."""

    launcher: str
    native: str  # pid and start time, session name, job id
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class LaunchRequest:
    """What a launcher that requests a machine must know about a run. `spec`: its run.json, or what is known of it.
    `write_s`: how long its last checkpoint took to save, 0 if not yet measured. `after`: native ids of the handles that
    must have succeeded first.
    """

    spec: Spec = field(default_factory=lambda: cast("Spec", {}))
    write_s: float = 0.0
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class ArrayTask:
    """One of several roots that request seats together: attempt `attempt` of the run at `root`."""

    root: str
    attempt: int


@dataclass(frozen=True)
class SchedulerStatus:
    """What a scheduler reports about what `start` began: ALIVE also while it waits; GONE once the scheduler is done.

    `state`: how it ended by the scheduler's own record; None if that says only that it ended (no record is kept, or it
    ended as any process does). `reason`: for people, with what to do.
    """

    pulse: Pulse
    is_waiting: bool = False
    is_late: bool = False  # it has ended, and the scheduler's record of how is still to come: ask again
    state: State | None = None
    reason: str = ""
    if_oom: str = ""  # what to say if the box saw an out-of-memory kill that the scheduler missed
    is_blind: bool = False  # what it runs cannot be inspected before it ends
    if_unbegun: str = ""  # what to say if it never began on any machine, so it was cancelled while it waited


@dataclass(frozen=True)
class DryRun:
    """A scheduler's answer about something not submitted. `said`: when and where it would start, or why not; `hint`:
    what to check then.
    """

    is_taken: bool
    said: str = ""
    hint: str = ""


class Transport(Protocol):
    """How bytes and argv get to the box. Made with `Backend(place)`; holds no state that a second one would need.

    One that can may have `attach(argv, has_terminal) -> list[str]`: the argv to run here, so that `argv` runs on the
    box with our own streams, and in a terminal there. `exec` and `ssh` need it.
    """

    def call(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0, limit_bytes: int = 16 << 20
    ) -> Ended | NoAnswer:
        """Run argv there (an argv list, never a shell line), feed `stdin`, and wait at most `timeout_s`.

        Each stream is bounded by `limit_bytes`; the excess is dropped and `truncated` says so. Children that the
        command leaves behind with our pipes open keep the call open for `timeout_s` at most.
        """
        ...

    def put(self, local: str, remote: str, *, timeout_s: float = 600.0) -> None | NoAnswer:
        """Copy one local file to `remote` (absolute); it appears whole or not at all. Idempotent."""
        ...

    def get(
        self, remote: str, local: str, *, offset: int = 0, timeout_s: float = 600.0, limit_bytes: int | None = None
    ) -> int | NoAnswer:
        """Append bytes of `remote` from `offset` on to the file `local`; returns bytes written. Raises: WorldError.

        Writes at most `limit_bytes`, whatever the far side sends (None: the whole file). Reads regular files only.
        Blocks for about `timeout_s` at most; what has arrived by then stays.
        """
        ...


@dataclass(frozen=True)
class Item:
    """A file from a mailbox. `name`: relative to the base there. `version`: changes if the file may have changed."""

    name: str
    bytes: int
    version: str


class Mailbox(Protocol):
    """The transport of a place that exchanges files but runs no commands for us: a notebook service. Made with
    `Backend(place)`. `backends.mirror` builds from it what verbs need; its launcher finds that as `place.way`.
    """

    calls: ClassVar[bool]  # False; a `Transport` may omit it

    def put(self, local: str, name: str, *, timeout_s: float = 600.0) -> None | NoAnswer:
        """Put a file there for the next start, replacing one of the same name. Raises: WorldError."""
        ...

    def list(self, *, timeout_s: float = 30.0) -> Sequence[Item] | NoAnswer:
        """Every file that can be fetched now; () if none."""

    def get(
        self, name: str, local: str, *, offset: int = 0, timeout_s: float = 600.0, limit_bytes: int | None = None
    ) -> int | NoAnswer:
        """Append bytes of what was listed as `name` to the file `local`; as `Transport.get`. Raises: WorldError."""
        ...


class Launcher(Protocol):
    """Keeps the keeper alive without us: a process on the box, a cluster job, a kernel. All launchers start one argv.

    It reaches the place in its own way: by an API, or over the place's transport (`backends.way`).
    """

    survives: ClassVar[frozenset[str]]  # of: link-drop client-exit logout reboot

    def start(
        self, place: Place, argv: Sequence[str], root: str, request: LaunchRequest | None = None
    ) -> Handle | NoAnswer:
        """Start argv detached, without input and with output to ROOT/logs/keeper.log, and return at once.

        The keeper makes a second start harmless. `request`: for a launcher that also gets the machine; without it, only
        the keeper is restarted. Raises: WorldError if nothing was started.
        """
        ...

    def pulse(self, place: Place, handle: Handle) -> Pulse:
        """Whether what `start` began still exists. UNKNOWN when nobody answers."""
        ...

    def stop(self, place: Place, handle: Handle, grace_s: float) -> None | NoAnswer:
        """Send TERM, and KILL after `grace_s`. Idempotent."""
        ...


class ShellLauncher(Launcher, Protocol):
    """A launcher that starts by an argv on the box. A caller with more to do there sends both in one call."""

    def command(self, argv: Sequence[str], root: str, request: LaunchRequest | None = None) -> list[str]:
        """The argv that does on the box what `start` does."""
        ...

    def read(self, ended: Ended, root: str) -> Handle:
        """The result of `command`. Raises: WorldError if nothing was started."""
        ...


class Scheduler(Launcher, Protocol):
    """A launcher whose keepers run elsewhere once they are given a machine: sbatch, a Kubernetes Job.

    What it starts finds SOJOURN_SEAT in its environment: `native` of its handle, a colon, and how often it was started
    before: one seat for each time it got a machine. It tells the keeper that an earlier seat is over.
    SOJOURN_SEAT_LEAD_S and SOJOURN_SEAT_GRACE_S: seconds that the payload may take to save when the keeper gets SIGINT
    (the seat will end) and SIGTERM (it ends). A second `start` for a root finds the job already waiting or running.

    One that keeps jobs when they are over may have `tidy(place, handles) -> str | NoAnswer`: it takes away those of
    these runs, sees that they are gone, and says in a line what stays. `down` calls it, after the clearance. And
    `kept(place, handles) -> Inventory | NoAnswer`: all that bears our mark there, whoever started it, each with the
    natives of those of these handles that it belongs to, or with the site's name (`of`). `leases --audit` calls it.
    """

    schedules: ClassVar[bool]  # True; a plain launcher may omit it

    def states(self, place: Place, handles: Sequence[Handle]) -> Sequence[SchedulerStatus]:
        """How each stands, asked in one call for all; UNKNOWN if the scheduler does not answer."""
        ...

    def cancel(self, place: Place, handles: Sequence[Handle]) -> None | NoAnswer:
        """Remove from the queue what still waits; if one runs by then, end it as `stop` does. Idempotent."""
        ...

    def records(self, place: Place, handle: Handle, root: str) -> Mapping[str, tuple[int, str]]:
        """A scheduler's records of one of them, for a diagnosis: command -> (exit status, its output).

        {} if it does not answer.
        """
        ...

    def by_hand(self, root: str, native: str) -> Mapping[str, str]:
        """Shell lines for a person: `look` (how it stands), `stop`, `start` (repeats the last start).

        `native`: as in the handle, "" if unknown.
        """
        ...


class BatchSystem(Scheduler, Protocol):
    """What a scheduler with scripts and arrays offers besides: all of this or nothing. Slurm does."""

    spans: ClassVar[bool]  # starts one run's processes on several machines: SOJOURN_SEAT_STEP is a shell line of
    # words that starts on each what follows them

    def script(self, argv: Sequence[str], root: str, request: LaunchRequest) -> str:
        """What is submitted to the scheduler, for people to read. Raises: Misuse (a setting it rejects)."""
        ...

    def try_out(self, place: Place, script: str) -> DryRun | NoAnswer:
        """Whether the scheduler would accept it, and when it would start; submits nothing."""
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
        """`start` for many: each of `roots`, siblings in one folder, as the last word of `argv`; `at_once` of them hold
        a seat at a time. `home`: a folder for the files they share.

        Safe to repeat: a root already submitted with this attempt is not submitted again. Raises: WorldError; then
        nothing more was submitted.
        """
        ...

    def used(self, place: Place, handles: Sequence[Handle]) -> str:
        """Their share of the scheduler's quota, in one line; "" if unknown."""
        ...


class Loader(Protocol):
    """Verifies an artifact by loading it. Never runs what it reads.

    Subclass it: the members with a value are optional. A suffix is a lower-case name ending; in it `*` stands for
    anything, a leading `/` for the start of the name.
    """

    kind: ClassVar[str]  # what receipts and screens call its type
    suffixes: ClassVar[tuple[str, ...]]  # the names it claims
    magic: ClassVar[tuple[bytes, ...]]  # its files start with one of these; (): they start with anything
    also: ClassVar[tuple[str, ...]] = ()  # names its files may have although another loader claims them
    may_be_empty: ClassVar[bool | tuple[str, ...]] = False  # True, or the names of files that may be empty
    among: ClassVar[str] = ""  # a pattern: a file with such a last name is judged by its neighbours

    def owns(self, path: str, head: bytes) -> bool:
        """Whether the content, whatever the name, is of this type. Asked only if `magic` matches (or is empty).

        Raises: OSError.
        """
        ...

    def load(self, path: str) -> Loaded:
        """Load the whole file. Raises: Unloadable(problem, why) of `formats.damage`, OSError; nothing else."""
        ...

    def load_among(self, path: str, name: str, beside: Mapping[str, str]) -> Loaded:
        """`load` for a file whose last name `name` matches `among`. `beside`: {last name: its path}, folders with a
        trailing /. Raises: as `load`.
        """
        return self.load(path)

    def declines(self, head: bytes) -> bool:
        """Whether a file that starts like this has our name only by chance. Asked if no loader owns its content."""
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
