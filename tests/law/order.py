"""One seeded order: what people, machines and chance do, step by step; and the verdict that it comes to."""

from __future__ import annotations

import random
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from sojourn.verbs.context import Context
from sojourn.verbs.launch.request import RunRequest
from sojourn.verbs.launch.resume import resume
from sojourn.verbs.launch.run import run
from sojourn.verbs.launch.stop import stop
from sojourn.verbs.observe.status import status
from sojourn.verbs.release.clean import clean
from sojourn.verbs.release.down import down
from sojourn.verbs.release.request import DownRequest
from sojourn.verbs.retrieve.pull import pull
from sojourn.verbs.takeover.recover import accept_gap, recover
from sojourn.wire.errors import SojournError
from tests.law import payload
from tests.law.blobs import Blobs
from tests.law.client import Client, typed
from tests.law.machine import Machine
from tests.law.oracle import Named, Oracle
from tests.law.quick import Answering

T = TypeVar("T")
WAIT_S = 120.0  # for what must come: a payload that saves, a keeper that seals


class Stuck(Exception):
    """Something that must come did not, within a time that is many times what it takes."""


@dataclass
class Verdict:
    """What one order came to. `broken`: what must not be; `cut`: it ran out of time, and nothing is said of the law."""

    seed: int
    broken: list[str] = field(default_factory=list)
    story: list[str] = field(default_factory=list)
    steps: Counter[str] = field(default_factory=Counter)
    judged: int = 0  # releases, and removals of roots, that were looked at
    early: int = 0  # those of them before the honest end
    seconds: float = 0.0
    cut: str = ""

    def __str__(self) -> str:
        said = "; ".join(self.broken) or self.cut or "held"
        return f"seed {self.seed}: {said} ({self.steps.total()} steps, {self.judged} judged, {self.seconds:.1f} s)"

    @property
    def is_late(self) -> bool:
        """It ran out of time, and nothing broke before."""
        return bool(self.cut) and not self.broken

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return vars(self)

    @classmethod
    def of(cls, said: dict[str, Any]) -> Verdict:
        """The verdict of `as_json`."""
        return cls(**{**said, "steps": Counter(said["steps"])})


@dataclass(frozen=True)
class Placed:
    """A run that somebody launched. `root`: where it lies on the box."""

    client: Client
    site: str
    play: payload.Play

    @property
    def name(self) -> str:
        return self.play.name

    @property
    def root(self) -> Path:
        return self.client.bases[self.site] / "runs" / self.name


class Order:
    """The scene of an order, and everything that a step may do to it."""

    def __init__(self, seed: int, folder: Path, blobs: Blobs, keepers: Path, *, is_by_hand: bool | None = None) -> None:
        self.dice = random.Random(seed)
        self.verdict = Verdict(seed)
        self.blobs, self.folder = blobs, folder
        self.machine = Machine(folder / "machine", keepers, self._judge, self._blame)
        self.begun = folder / "begun"
        self.oracle = Oracle(blobs.loads, self.machine.folder, self.begun)
        is_by_hand = self.dice.random() < 0.3 if is_by_hand is None else is_by_hand
        self.clients = [Client(folder / name, self.machine, is_by_hand=is_by_hand) for name in ("ann", "ben")]
        self.begun.mkdir()
        self.runs: list[Placed] = []
        self.named = Named()
        self.given_up: dict[tuple[str, str], frozenset[tuple[str, str]]] = {}  # (client, name) -> what it was then
        self._began_s = time.monotonic()

    # -- what is told --

    def tell(self, line: str) -> None:
        """A line of the story."""
        self.verdict.story.append(f"{time.monotonic() - self._began_s:6.2f}  {line}")

    def broke(self, line: str) -> None:
        """Something that must not be."""
        self.tell(f"BROKEN: {line}")
        self.verdict.broken.append(line)

    def give(self, client: Client, words: str, verb: Callable[[Context], T]) -> T | SojournError:
        """One command; what it came to, or the error that a user would read. Anything else is a defect."""
        try:
            with client.at_work() as ctx:
                answer = verb(ctx)
                self._prove(ctx)
        except SojournError as error:
            self.tell(f"{client.name}$ {words}  -> {error.exit_status} {error.message}")
            for line in error.fields.get("lines", ()):
                self.tell(f"        {line}")
            return error
        self.tell(f"{client.name}$ {words}  -> {getattr(answer, 'exit_status', 0)}")
        return answer

    # -- commands --

    def launch(self, client: Client, site: str, play: payload.Play, hook: str = "") -> Placed:
        """`run`, and wait until its first attempt has done what it does."""
        file = self.job(client, play, hook)
        self.machine.switch_on()
        placed = Placed(client, site, play)
        self.runs.append(placed)
        done = self.give(
            client, f"run --site {site} --name {play.name}", lambda ctx: run(ctx, RunRequest(file, site=site))
        )
        self._came(placed, done)
        return placed

    def job(self, client: Client, play: payload.Play, hook: str = "") -> str:
        """The job file of a run; its path."""
        return client.job(play.name, play.script(self.begun), payload.OUTPUTS, hook, payload.PERSIST)

    def go_on(self, placed: Placed) -> None:
        """`resume`."""
        self._came(placed, self.give(placed.client, f"resume {placed.name}", lambda ctx: resume(ctx, placed.name)))

    def pull(self, client: Client, *names: str, to: str = "") -> Any:
        words = " ".join(["pull", *names, *(["--to", to.replace(str(self.folder), "")] if to else [])])
        return self.give(client, words, lambda ctx: list(pull(ctx, names, to=to)))

    def stop(self, client: Client, name: str) -> Any:
        def verb(ctx: Context) -> Any:
            return stop(ctx, name, confirm=lambda ask: ask.name, grace_s=0.5)

        return self.give(client, f"stop {name}", verb)

    def status(self, client: Client) -> Any:
        return self.give(client, "status", lambda ctx: status(ctx))

    def recover(self, client: Client, site: str) -> Any:
        done = self.give(client, f"recover {site}", lambda ctx: recover(ctx, site))
        for one in getattr(done, "runs", ()):
            self.tell(f"        {one.id}: {one.did} {one.why}")
        return done

    def accept_gap(self, client: Client, site: str, lease: str) -> Any:
        """`recover --accept-gap`: what the journal has lost is given up for this lease."""
        return self.give(client, f"recover {site} --accept-gap {lease}", lambda ctx: accept_gap(ctx, site, lease))

    def down(self, client: Client, target: str, how: How) -> Any:
        """`down`, its question answered as `how` says."""
        asked = DownRequest(target, abandon=how.abandon, accept=how.accept, is_stopped=how.is_stopped)

        def verb(ctx: Context) -> Any:
            return down(ctx, asked, confirm=self._answers(ctx, client, how))

        done = self.give(client, f"down {target} {how}", verb)
        for line in getattr(done, "lost", ()):
            self.tell(f"        lost or unknown: {line}")
        if not isinstance(done, SojournError):
            names = ((name, self.named.roots.get(name.partition(":")[0])) for name in how.abandon)
            self.given_up |= {(client.name, name): self._content(root) for name, root in names if root}
        self._look_at_meter(client)
        return done

    def clean(self, client: Client, site: str, names: list[str], how: How) -> Any:
        flags: dict[str, Any] = {key: some for key, some in (("abandon", how.abandon), ("accept", how.accept)) if some}

        def verb(ctx: Context) -> Any:
            return clean(ctx, site, names, confirm=self._answers(ctx, client, how), **flags)

        return self.give(client, f"clean {site} {' '.join(names)} {how}", verb)

    def leases(self, client: Client) -> list[Any]:
        """Those that the client's records hold as open."""
        with client.at_work() as ctx:
            return list(ctx.store.index.leases())

    # -- waiting --

    def wait(self, holds: Callable[[], object], what: str) -> None:
        """Raises: Stuck."""
        end_s = time.monotonic() + WAIT_S
        while not holds():
            if time.monotonic() > end_s:
                raise Stuck(what)
            time.sleep(0.02)

    def is_sealed(self, placed: Placed) -> bool:
        """Whether its newest attempt has ended and its keeper has left."""
        root = placed.root
        return not root.exists() or not any(str(root).encode() in _command(pid) for pid in self.machine.processes())

    def settle(self, placed: Placed) -> None:
        """Wait until the newest attempt has saved and, where it ends by itself, has been sealed."""
        attempt = max((int(one.name) for one in (placed.root / "attempts").glob("[0-9]*")), default=0)
        if attempt:
            mark = self.begun / f"{placed.name}.{attempt}"
            self.wait(lambda: mark.exists() or self.is_sealed(placed), f"{mark.name} has saved")
            if placed.play.act(attempt).end != "hangs":
                self.wait(lambda: self.is_sealed(placed), f"{mark.name} is sealed")
        self.oracle.look(placed.root)

    # -- private --

    def _came(self, placed: Placed, done: Any) -> None:
        if not isinstance(done, SojournError):
            self.settle(placed)

    def _answers(self, ctx: Context, client: Client, how: How) -> Any:
        roots = {}
        for record in ctx.store.index.runs():
            base = client.bases.get(record.site_name)
            own = Path(record.run.root) if record.run.root else base and base / "runs" / record.id
            if own:
                roots[record.id] = own
        sites = {name: str(base) for name, base in client.bases.items()}
        self.named = Named(roots, sites, frozenset(how.abandon) | self._given_up(client, roots), frozenset(how.accept))
        return typed(how.meanwhile, is_script=how.is_script, name=how.name, lines=self.named.lines)

    def _given_up(self, client: Client, roots: Mapping[str, Path]) -> frozenset[str]:
        """What this client gave up before, as long as the box has the very same."""
        mine = ((name, was) for (who, name), was in self.given_up.items() if who == client.name)
        return frozenset(
            name for name, was in mine if (root := roots.get(name.partition(":")[0])) and self._content(root) == was
        )

    def _content(self, root: Path) -> frozenset[tuple[str, str]]:
        return frozenset((debt.path, debt.sha256) for debt in self.oracle.debts(root)) if root.exists() else frozenset()

    def _judge(self, root: Path | None) -> list[str]:
        found = []
        for one in [root] if root else self.machine.roots:
            found += list(self.oracle.judge(one, self.named))
            self.oracle.forget(one)
        self.verdict.judged += 1
        return found

    def _blame(self, found: list[str]) -> None:
        for line in found:
            self.broke(line.replace(str(self.machine.folder), "BOX"))

    def _look_at_meter(self, client: Client) -> None:
        """Nothing says that a meter has ended while the machine that a person stops is there."""
        if not client.is_by_hand or not self.machine.is_on:
            return
        with client.at_work() as ctx:
            ended = [one for one in ctx.store.index.leases(open_only=False) if one.lease.site == "paid"][-1:]
        if ended and not ended[0].is_open:
            self.broke(f"{client.name}'s records say that the meter of {ended[0].name} is off; the machine is there")

    def _prove(self, ctx: Context) -> None:
        for record in ctx.store.index.runs():
            for receipt in record.receipts:
                if receipt.kind == "unknown" or {"load", "content"} & set(receipt.proved):
                    self.oracle.prove(receipt.home, receipt.sha256)


@dataclass(frozen=True)
class How:
    """How a question is answered: by a script or by hand, with which name ("" = that which is asked for), what happens
    while it waits, and with which flags it was given.
    """

    abandon: tuple[str, ...] = ()
    accept: tuple[str, ...] = ()
    is_stopped: bool = False
    is_script: bool = True
    name: str = ""
    meanwhile: Callable[[], None] = lambda: None

    def __str__(self) -> str:
        words = [f"--abandon {name}" for name in self.abandon] + [f"--accept {name}" for name in self.accept]
        words += ["--already-stopped"] if self.is_stopped else []
        words += [f"--confirm {self.name or '(its name)'}"] if self.is_script else []
        return " ".join(words)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def play(seed: int, folder: Path, blobs: Blobs, keepers: Path, answering: Answering | None = None) -> Verdict:
    """Play the order of this seed in a folder of its own; what is left of it is kept where something broke."""
    from tests.law import finish, steps

    order = Order(seed, folder, blobs, keepers)
    order.machine.answering = answering
    began_s = time.monotonic()
    try:
        for step in steps.draw(order.dice):
            order.verdict.steps[step.name] += 1
            step.do(order)
        order.verdict.early = order.verdict.judged
        finish.finish(order)
    except Stuck as late:
        order.verdict.cut = str(late)
    except Exception:  # noqa: BLE001 (whatever it is, a user would have seen a traceback)
        order.broke(traceback.format_exc())
    finally:
        if order.machine.is_on:
            order.machine.end_all()
    order.verdict.seconds = time.monotonic() - began_s
    (folder / "story.txt").write_text("\n".join([str(order.verdict), *order.verdict.story]) + "\n")
    return order.verdict
