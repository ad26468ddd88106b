"""What every verb starts from: the records, the clock, the way to a site's box. Here names become backends."""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sojourn.core.ports import Handle
from sojourn.core.values import Lease, NoAnswer, Place, Site
from sojourn.store import places, private
from sojourn.store.chain import Gap
from sojourn.store.home import Store
from sojourn.store.journal import trouble
from sojourn.wire.errors import Misuse, Unreachable, WorldError

if TYPE_CHECKING:  # a status of runs that are all final needs no backend, and should not pay for loading them
    from sojourn.backends.keeper.client import Answer, Keeper
    from sojourn.core.ports import BatchSystem, Launcher, Mailbox, Provider, Scheduler, ShellLauncher, Transport
    from sojourn.verbs.confirm import Confirm

T = TypeVar("T")

CALL_S = 30.0  # for one short question to a keeper
PLAIN_WORDS = ("local", "rent")  # names of sites that no provider has
ALONE_S = 300  # pushing a large tree takes this long


class NoSuchBackend(Misuse):
    """Site {site!r} needs the {port} {name!r}, which this version does not have (it has: {known})."""

    code = "no-such-backend"
    next_step = "sojourn run --site local"


class Busy(WorldError):
    """Another sojourn command has been working on {what} for {seconds} s."""

    code = "busy"
    retry = True
    next_step = "sojourn status"


class Context:
    """Records, clock and boxes of one command; what a test would want to turn is a field. Opening writes nothing.

    `now_s`: this machine's clock, seconds since the epoch. `say`: takes a line of progress. `token`: a new unique word.
    `boxes`: site name -> the way there, for sites that are not to be looked up. `confirm`: who answers a question that
    a verb may have to ask before it starts something; by default nobody.
    """

    def __init__(
        self,
        store: Store,
        *,
        say: Callable[[str], None] = lambda line: None,
        now_s: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
        token: Callable[[], str] = lambda: os.urandom(16).hex(),
        environ: Mapping[str, str] | None = None,
        boxes: Mapping[str, Box] | None = None,
        confirm: Confirm = lambda ask: None,
    ) -> None:
        self.store, self.say, self.now_s, self.sleep, self.token = store, say, now_s, sleep, token
        self.environ: Mapping[str, str] = os.environ if environ is None else environ
        self.boxes: dict[str, Box] = dict(boxes or {})
        self.confirm = confirm

    @classmethod
    def open(cls, *, say: Callable[[str], None] = lambda line: None, confirm: Confirm = lambda ask: None) -> Context:
        """The user's own records and the real clock. Raises: Misuse where there is no home folder.

        What the journal has lost is said first, in one line that stays: by the `say` of whoever shows progress.
        """
        private.mend(places.cache_dir())
        store = Store()
        gaps = store.gaps()
        if gaps:
            warn = getattr(getattr(say, "__self__", None), "say", say)
            warn(gaps_line(gaps))
        return cls(store, say=say, confirm=confirm)

    def __enter__(self) -> Context:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.store.close()

    @contextmanager
    def alone(self, what: str) -> Iterator[None]:
        """While inside, no other command of this machine starts this run, or moves into or lets go of this lease.

        What others did before is then known here. `what`: a run's id, `lease LEASE` or `renting SITE`. Waits
        ALONE_S at most; a command that was killed holds nothing.   Raises: Busy, StateUnwritable, DiskFull.
        """
        fd = self._lock_file(what)
        try:
            deadline_s = self.now_s() + ALONE_S
            while not _locked(fd):
                if self.now_s() >= deadline_s:
                    raise Busy(what=what, seconds=ALONE_S)
                self.say(f"{what}: another sojourn command is working on it")
                self.sleep(0.1)
            self.store.index.catch_up()
            yield
        finally:
            os.close(fd)

    def try_alone(self, what: str) -> int | None:
        """A descriptor that holds `what` until it is closed, or None where another process (or this) has it.

        Raises: StateUnwritable, DiskFull.
        """
        fd = self._lock_file(what)
        if _locked(fd):
            return fd
        os.close(fd)
        return None

    def _lock_file(self, what: str) -> int:
        path = os.path.join(self.store.state_dir, "locks", _as_file_name(what))
        try:
            private.folder(os.path.dirname(path))
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise trouble(error, path) from error

    def site(self, text: str) -> Site:
        """The site that `text` names, as settings have it now. Raises: Misuse, NoSuchBackend."""
        from sojourn.store.settings import read_settings, read_site

        lease = self.lease_named(text)
        if lease:
            text = next(one.lease.site for one in self.store.index.leases() if one.name == lease)
        is_plain = text in PLAIN_WORDS or not text or text in read_settings().sites
        site = (None if is_plain else plain_site(text)) or read_site(text or "local")
        for port, name in (("transport", site.transport), ("launcher", site.launcher), ("provider", site.provider)):
            _known(site, port, name)
        return site

    def lease_named(self, text: str) -> str:
        """`text` where it is the name of a machine that is rented now and no site's name; "" else."""
        from sojourn.store.settings import read_settings

        found = [one for one in self.store.index.leases() if one.name == text and one.lease.site != text]
        is_rented = any(one.lease.token for one in found)
        return text if is_rented and text not in read_settings().sites else ""

    def box_of(self, text: str) -> Box:
        """`box` of the site, or of the rented machine, that `text` names. Raises: Misuse, NoSuchBackend."""
        for one in self.store.index.leases():
            if one.name == text and one.lease.address:
                return self.box(self.site(one.lease.site), one.name)
        return self.box(self.site(text))

    def box(self, site: Site, lease: str = "") -> Box:
        """The way to the site's box; the same one for every call of this command. Connects to nothing yet.

        `lease`: which machine, where the site's provider rents several; "" is the newest one. Where none is rented now
        the box answers nothing.   Raises: NoSuchBackend.
        """
        if site.name in self.boxes:
            return self.boxes[site.name]
        if not provider_of(site).rents:
            return self.boxes.setdefault(site.name, _box(Place(site)))
        rented = [one.lease for one in self.store.index.leases() if one.lease.site == site.name and one.lease.address]
        found = [one for one in rented if not lease or one.name == lease]
        if not found:
            return unrented(site)
        machine = found[-1]
        name = f"{site.name} {machine.native} {machine.address}"
        if name not in self.boxes:
            self.boxes[name] = _rented(site, machine, self._moved)
        return self.boxes[name]

    def _moved(self, lease: Lease) -> None:
        """Journal the address that a machine has now, while its lease is open."""
        self.say(f"{lease.name}: its machine is at {lease.address} now")
        now = self.store.index.lease(lease.name)
        if now is not None and now.is_open and now.lease.native == lease.native:
            self.store.append("leased", lease=asdict(lease))


def gaps_line(gaps: Sequence[Gap]) -> str:
    """The line with which every command reports a damaged journal."""
    more = f" (and {len(gaps) - 1} more)" if len(gaps) > 1 else ""
    return (
        f"{gaps[0].what}{more}; a run may be missing here, and a lease is held until `sojourn recover SITE` has asked"
        " its box"
    )


@dataclass(frozen=True)
class Box:
    """One site's backends. `ask` may be NoAnswer; `answer` is for verbs that cannot continue without one."""

    site: Site
    transport: Transport
    launcher: Launcher
    provider: Provider
    keeper: Keeper
    lease: Lease | None = None  # of the machine, where it is rented

    @property
    def priced(self) -> Site:
        """The site with its machine's price: from the lease if one is rented, otherwise from the settings."""
        if self.lease is None:
            return self.site
        return replace(self.site, rate_micro_per_h=self.lease.rate_micro_per_h, currency=self.lease.currency)

    def at(self, base: str) -> Box:
        """The same box, asked for another base that it has."""
        from sojourn.backends.keeper.client import Keeper

        site = replace(self.site, base=base)
        return replace(self, site=site, keeper=Keeper(self.transport, site))

    @property
    def place(self) -> Place:
        """The place, as launchers receive it."""
        return Place(self.site, self.lease, self.transport)

    @property
    def volumes(self) -> list[str]:
        """Where its platform mounts disks that last: bases may lie there that its registry does not know."""
        from sojourn.store.catalog import platform

        return list(platform(self.site.platform).volumes)

    @property
    def machine(self) -> str:
        """Its name, as `RunRecord.machine`."""
        return self.site.name if self.lease is None else self.lease.name

    @property
    def ends_us(self) -> bool:
        """It is the machine we run on, and on a meter: its release takes our own disks along."""
        return bool(getattr(self.transport, "is_here", False)) and self.provider.metered

    @property
    def is_blind(self) -> bool:
        """Its place takes and gives files alone: what runs there, and the machine, cannot be looked at."""
        return getattr(self.transport, "calls", True) is False

    @property
    def shell(self) -> ShellLauncher | None:
        """The launcher, where it starts by an argv that may go along with other questions to the box."""
        return cast("ShellLauncher", self.launcher) if hasattr(self.launcher, "command") else None

    @property
    def scheduler(self) -> Scheduler | None:
        """The launcher, where it asks somebody for the machine: what it starts may wait, and runs elsewhere."""
        return cast("Scheduler", self.launcher) if getattr(self.launcher, "schedules", False) else None

    @property
    def batch(self) -> BatchSystem | None:
        """The scheduler, where it has scripts and arrays."""
        return cast("BatchSystem", self.launcher) if self.scheduler and hasattr(self.launcher, "start_all") else None

    def ask(self, op: str, *, timeout_s: float = CALL_S, **fields: Any) -> Answer | NoAnswer:
        """One question to the box's keeper program. Raises: WorldError where the box says no."""
        if op == "hello":
            fields = {"tiers": self.volumes, **fields}
        return self.keeper.ask(op, timeout_s=timeout_s, **fields)

    def answer(self, op: str, *, timeout_s: float = CALL_S, **fields: Any) -> Answer:
        """`ask`, for who needs the answer. Raises: Unreachable, WorldError."""
        return self.must(self.ask(op, timeout_s=timeout_s, **fields))

    def answer_all(
        self, ops: Sequence[Mapping[str, Any]], blobs: Sequence[bytes] = (), *, timeout_s: float = CALL_S
    ) -> list[Answer]:
        """Several questions in one call, each {"op", its fields}; what comes after one that is refused is not done.

        Raises: Unreachable, WorldError.
        """
        ops = [{**op, "tiers": self.volumes} if op["op"] == "hello" else op for op in ops]
        return self.must(self.keeper.ask_all(ops, blobs, timeout_s=timeout_s))

    def must(self, answer: T | NoAnswer) -> T:
        """`answer`, unless it is NoAnswer. Raises: Unreachable."""
        if isinstance(answer, NoAnswer):
            raise unreachable(self.site, answer)
        return answer


def unreachable(site: Site, answer: NoAnswer) -> Unreachable:
    """The error for a box that did not answer; its next step is the transport's own advice where it has one."""
    words = answer.kind if not answer.detail else f"{answer.kind}: {answer.detail}"
    error = Unreachable(site=site.name, detail=words)
    error.next = answer.next_step
    return error


def _as_file_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._ -]", lambda hit: f"%{ord(hit[0]):x}", text)


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def plain_site(name: str) -> Site | None:
    """The site that the name of a provider stands for, if it rents: no settings, and the key from its variable."""
    from sojourn import backends
    from sojourn.store.platforms import platforms

    if not backends.has("provider", name) or not backends.get("provider", name).rents:
        return None
    return Site(name, "ssh", provider=name, platform=name if name in platforms() else "generic-ssh")


def provider_of(site: Site) -> Provider:
    """Who starts and stops the site's meter. Raises: NoSuchBackend."""
    found: Provider = _known(site, "provider", site.provider)(site)
    return found


def _box(place: Place) -> Box:
    return _made(place.site, _known(place.site, "transport", place.site.transport)(place), place.lease)


def _rented(site: Site, machine: Lease, moved: Callable[[Lease], None]) -> Box:
    """The box of a rented machine, wherever that is now."""
    from sojourn.verbs.following import Following

    way = _known(site, "transport", site.transport)
    first = way(Place(site, machine))
    if getattr(first, "calls", True) is False:
        return _made(site, first, machine)
    following = Following(machine, provider_of(site), lambda lease: way(Place(site, lease)), moved)
    return _made(site, following, machine)


def unrented(site: Site) -> Box:
    """The box of a site whose provider rents, and has rented nothing: it answers nothing. Raises: NoSuchBackend."""
    from sojourn.backends.nowhere import Nowhere

    return _made(site, Nowhere("no machine is rented for it now"), None)


def _made(site: Site, transport: Transport | Mailbox, lease: Lease | None) -> Box:
    from sojourn.backends.keeper.client import Keeper

    launcher = _known(site, "launcher", site.launcher)(site)
    if getattr(transport, "calls", True) is False:
        from sojourn.backends.mirror import UNSEEN, Inside, Mirror, blind

        mirror = Mirror(site.name, cast("Mailbox", transport))
        site = replace(site, base=mirror.base)
        keeper = Keeper(Inside(mirror), site, unseen=lambda op: blind(site.name) if op in UNSEEN else None)
        return Box(site, mirror, launcher, provider_of(site), keeper, lease)
    transport = cast("Transport", transport)
    return Box(site, transport, launcher, provider_of(site), Keeper(transport, site), lease)


def _known(site: Site, port: str, name: str) -> Callable[[Any], Any]:
    from sojourn import backends

    if not backends.has(port, name):
        raise NoSuchBackend(site=site.name, port=port, name=name, known=", ".join(backends.names(port)))
    found: Callable[[Any], Any] = backends.get(port, name)
    return found


def start(box: Box, argv: Sequence[str]) -> Handle | NoAnswer:
    """Hand the argv that the box gave to the launcher; harmless where a keeper is in charge.

    It goes on with what the root says: adopts what lives, records an end, begins an attempt that was asked for.
    Raises: WorldError.
    """
    return box.launcher.start(box.place, argv, argv[-1])
