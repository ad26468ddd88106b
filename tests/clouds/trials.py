"""One trial: a person rents a machine and releases it, while the client is killed and the cloud misbehaves.

Each command is a process of its own (a fork), so that a kill is a kill: at a record of the journal, or at a byte of a
request. After every command the books of the cloud are held against the journal. Drawn from a seed, all of it.
"""

from __future__ import annotations

import functools
import hashlib
import http.client
import importlib
import json
import os
import pickle
import random
import shutil
import signal
import socket
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sojourn.backends.client import https, program
from sojourn.backends.transport import local
from sojourn.core.need import Need
from sojourn.core.values import Ended, NoAnswer, Site
from sojourn.store import journal
from sojourn.store.home import Store
from sojourn.verbs.context import Context
from sojourn.verbs.release.down import down
from sojourn.verbs.release.request import DownRequest
from sojourn.verbs.rent import gone, machine
from sojourn.verbs.rent.machine import rented
from sojourn.verbs.rent.price import Wish
from sojourn.verbs.takeover.recover import recover
from sojourn.wire.errors import SojournError
from tests.clouds.accounts import keys_of
from tests.clouds.standin import Cloud, Fault, Machine

LINE = ("lost", "cut", "before", "after", "limited", "limited-told", "key", "bare")
COMMANDS = 12  # by then it has come to its end, without faults
START_S = 1_800_000_000.0


@dataclass
class Trial:
    """What one trial has: the cloud, its site, the folder of the client, and what it was drawn to be."""

    cloud: Cloud
    site: Site
    state: Path
    answers: Path  # what this machine, which is every machine to `down`, has said so far
    chance: random.Random
    wrong_key: bool = False
    at_s: float = START_S
    told: list[str] = field(default_factory=list)
    is_lost: bool = False  # the records

    def play(self) -> None:
        """Rent, whatever happens, until a machine is there; perhaps lose it; release until none is."""
        self.plan_cloud()
        machine = self.until("rent", lambda said: said == "ok")
        if machine:
            assert len(self.cloud.billing) == 1 + self.twins, self.story()
        if machine and self.chance.random() < 0.15:  # it was restarted, elsewhere
            for one in self.cloud.billing:
                one.host = "127.0.0.2"
            self.told.append("moved")
            assert self.until("rent", lambda said: said == "ok")
        if machine and self.chance.random() < 0.12:
            self.lose_home()
        if self.chance.random() < 0.15:  # the provider takes it back
            for one in self.cloud.billing:
                self.cloud.end(one)
            self.told.append("taken back")
        self.cloud.leave_looks = self.chance.choice([0, 0, 2, 6])
        self.until("release", lambda said: not self.open_leases())
        while self.cloud.billing:  # the other one of a request that was sent twice is named, and taken up
            assert {one.name for one in self.cloud.billing} == self.tokens(), self.story()
            self.until("recover", lambda said: bool(self.open_leases()))
            self.until("release", lambda said: not self.open_leases())
        assert not self.cloud.billing, self.story()
        assert not self.open_leases(), self.story()
        assert not self.cloud.violations, self.cloud.violations

    def lose_home(self) -> None:
        """Nothing is known any more: nothing is rented beside what is there, and all of it is taken up again."""
        shutil.rmtree(self.state)
        self.told.append("home lost")
        there = {one.native for one in self.cloud.billing}
        assert self.command("rent", True) == "unrecorded-machine", self.story()
        assert {one.native for one in self.cloud.billing} == there, self.story()
        self.is_lost = True
        self.until("recover", lambda said: bool(self.open_leases()))
        self.is_lost = False
        assert len(self.open_leases()) == 1 and not self.open_leases().keys() - {
            one.name for one in self.cloud.billing
        }, self.story()

    @property
    def twins(self) -> int:
        """Machines that a request which was sent twice made, beside the one that was asked for."""
        names = [one.name for one in self.cloud.billing]
        return len(names) - len(set(names))

    def until(self, command: str, is_over: Callable[[str], bool]) -> bool:
        """The command again and again, the last times without faults; whether it came to its end as it should."""
        for number in range(COMMANDS):
            is_calm = number >= COMMANDS // 2
            said = self.command(command, is_calm)
            self.books(command)
            if is_over(said):
                return True
            if command == "rent" and is_calm and self.is_hopeless:
                hopeless = ("not-ready", "never-answered", "machine-failed", "not-rented", "nothing-to-rent")
                if self.site.provider in ("autodl", "compshare"):  # what their no means is not published
                    hopeless += ("rent-unknown",)
                assert said in hopeless, self.story()
                return False
        raise AssertionError(f"it does not converge: {self.story()}")

    @property
    def is_hopeless(self) -> bool:
        """No machine will ever run: there is none to be had, or it cannot be paid, or it never boots."""
        cloud = self.cloud
        faulty = any(one.status == "stopped" for one in cloud.billing)  # made by an error that named it
        return cloud.never_runs or not cloud.has_stock or cloud.is_sold_out or not cloud.balance_micro or faulty

    def plan_cloud(self) -> None:
        """What kind of day it is at the provider."""
        cloud, chance = self.cloud, self.chance
        cloud.boot_looks, cloud.list_lag = chance.choice([0, 1, 3]), chance.choice([0, 0, 1, 4])
        cloud.skew_s = chance.choice([0.0, 0.0, -7200.0, 7200.0])
        cloud.never_runs = chance.random() < 0.08
        cloud.has_stock, cloud.is_sold_out = chance.random() > 0.03, chance.random() < 0.05
        cloud.balance_micro = 0 if chance.random() < 0.05 else 100_000_000

    def command(self, command: str, is_calm: bool) -> str:
        """One command in a process of its own, perhaps killed, while the cloud perhaps misbehaves; what it came to."""
        self.cloud.faults = []
        kill = None
        if is_calm:
            self.cloud.list_lag = 0
        else:
            asked = {"rent": ("create", "list", "read", "create"), "release": ("destroy", "list", "read", "destroy")}
            at = asked.get(command, ("list", "read"))
            what = (*LINE, "told-id", "twice", "twice-lost") if command == "rent" else LINE
            for _ in range(self.chance.choice([0, 1, 1, 2])):
                fault = Fault(self.chance.choice(what), self.chance.choice(at), self.chance.randrange(1, 2000))
                if fault.what in ("told-id", "twice", "twice-lost"):
                    fault.at = "create"
                self.cloud.faults.append(fault)
            kill = self.chance.choice([None, None, "record", "byte", "byte"])
        number = self.chance.randrange(1, 6) if kill == "record" else self.chance.randrange(0, 1200)
        when = self.chance.choice(["before", "within", "after"])
        faults = [f"{one.what}@{one.at}" for one in self.cloud.faults]
        before = self.ended()
        said = self.forked(command, kill, number, when)
        self.told.append(f"{command} {faults} kill={kill}:{number}:{when} -> {said}")
        if command == "rent":  # it may only release what never ran, as was agreed to
            ended = [one for one in self.ended() if one not in before]
            assert not any(one.has_run for one in ended), f"released by `run`: {self.story()}"
        return said

    def ended(self) -> list[Machine]:
        """Machines that the cloud was asked to destroy."""
        return [one for one in self.cloud.machines.values() if one.leaving >= 0 or one.ended_s is not None]

    def forked(self, command: str, kill: str | None, number: int, when: str) -> str:
        """The command in a child; "killed", "ok", or the code of its error."""
        self.at_s += 1000.0
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            said = "defect"
            try:
                os.close(reading)
                said = self.child(command, kill, number, when)
            except BaseException:  # noqa: BLE001 - the child must not go on into the parent's test
                said = "defect " + traceback.format_exc()
            finally:
                os.write(writing, said.encode()[:4000])
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            said = pipe.read().decode()
        os.waitpid(pid, 0)
        while self.cloud.busy:  # what the child had sent is taken up
            time.sleep(0.001)
        assert not said.startswith("defect"), f"{said}\n{self.story()}"
        return said or "killed"

    def child(self, command: str, kill: str | None, number: int, when: str) -> str:
        """What a command does; the clock is the trial's own, and waiting takes no time."""
        os.environ.update(keys_of(self.site.provider))
        clock = [self.at_s]

        def sleep(seconds: float) -> None:
            clock[0] += seconds
            time.sleep(0.001)

        module = importlib.import_module(f"sojourn.backends.provider.{self.site.provider}")
        if self.site.provider == "compshare":
            module.Program = functools.partial(program.Program, now_s=lambda: clock[0], sleep=sleep)
        else:
            module.Api = functools.partial(https.Api, now_s=lambda: clock[0], sleep=sleep)
        https.READ_S = https.CONNECT_S = 5.0
        for waiting in (machine, gone, module):
            waiting.LOOK_S = 12.0  # its time is not ours, but its questions are
        remember(self.answers)
        if kill == "record":
            killed_at_record(number, when)
        elif kill == "byte":
            killed_at_byte(number)
        with Store(str(self.state), lambda: clock[0]) as store:
            ctx = Context(store, now_s=lambda: clock[0], sleep=sleep, confirm=lambda ask: ask.name)
            ctx.site = lambda text: self.site  # type: ignore[method-assign]
            try:
                if command == "rent":
                    rented(ctx, self.site, Wish(Need(accelerators=(("A100", 1),))))
                elif command == "recover":
                    recover(ctx, "cloud")
                else:
                    name = next((one.name for one in store.index.leases()), "cloud")
                    down(ctx, DownRequest(name), confirm=lambda ask: ask.name)
            except SojournError as error:
                return error.code
        return "ok"

    def open_leases(self) -> dict[str, Any]:
        """Token -> lease of what the journal believes to bill, or not to be known."""
        with Store(str(self.state)) as store:
            return {one.lease.token: one for one in store.index.leases()}

    def books(self, command: str) -> None:
        """The cloud's books against the journal."""
        leases = self.open_leases()
        for one in self.cloud.billing if not self.is_lost else ():
            is_twin = one.name in self.tokens()  # of one that was released: `recover` takes it up
            assert one.name in leases or is_twin, f"{one.name} bills, and the journal has no lease: {self.story()}"
        assert len({one.name for one in self.cloud.billing}) <= 1, f"rented twice: {self.story()}"
        assert len(self.cloud.billing) <= 2, f"rented twice: {self.story()}"

    def tokens(self) -> set[str]:
        """Of requests that were sent twice, with a machine that bills."""
        names = [one.name for one in self.cloud.machines.values()]
        return {one.name for one in self.cloud.billing if names.count(one.name) > 1}

    def story(self) -> str:
        """What happened, for whoever reads the failure."""
        lines = [json.dumps(record) for record in self.records()]
        return "\n".join([f"{self.site.provider}:", *self.told, *lines, *map(str, self.cloud.machines.values())])

    def records(self) -> list[dict[str, Any]]:
        """The journal's records that are whole."""
        path = self.state / "journal.jsonl"
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        found = []
        for line in lines:
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
        return found


# What a command imports when it needs it: imported before the forks, and not in each of them.
WARM = (
    "sojourn.backends.keeper.client",
    "sojourn.backends.launcher.setsid",
    "sojourn.store.catalog",
    "sojourn.verbs.release.obligations",
    "sojourn.verbs.release.survey",
    "sojourn.verbs.rent.gone",
    "sojourn.verbs.takeover.recover",
    "urllib3",
    "urllib.request",
)


def warm() -> None:
    """Import what the commands of a trial import."""
    for name in WARM:
        importlib.import_module(name)


def remember(folder: Path) -> None:
    """From now on this machine says again what it said to the same question: no run is ever on it, and a Python started
    for each question is what trials would spend their time on.
    """
    call = local.Backend.call

    def asked(self: local.Backend, argv: Sequence[str], *, stdin: bytes = b"", **limits: Any) -> Ended | NoAnswer:
        kept = folder / hashlib.sha256(repr(list(argv)).encode() + stdin).hexdigest()
        if kept.exists():
            return pickle.loads(kept.read_bytes())
        ended = call(self, argv, stdin=stdin, **limits)
        if isinstance(ended, Ended) and ended.rc == 0:
            (new := kept.with_suffix(f".{os.getpid()}")).write_bytes(pickle.dumps(ended))
            new.replace(kept)
        return ended

    local.Backend.call = asked  # type: ignore[method-assign]


def die() -> None:
    """As by kill -9."""
    os.kill(os.getpid(), signal.SIGKILL)


def killed_at_record(number: int, when: str) -> None:
    """This process ends itself at its n-th record of the journal: before it, after half of it, or after it."""
    seen = [0]
    append, write = journal.Journal.append, journal._write

    def counted(self: journal.Journal, kind: str, **fields: Any) -> dict[str, Any]:
        seen[0] += 1
        if seen[0] == number and when == "before":
            die()
        record = append(self, kind, **fields)
        if seen[0] == number:
            die()
        return record

    def halved(fd: int, data: bytes) -> None:
        if seen[0] == number and when == "within":
            os.write(fd, data[: len(data) // 2])
            die()
        write(fd, data)

    journal.Journal.append, journal._write = counted, halved  # type: ignore[method-assign]


def killed_at_byte(number: int) -> None:
    """This process ends itself at the n-th byte that it sends in requests that change something."""
    left = [number]
    send = http.client.HTTPConnection.send

    def counted(self: http.client.HTTPConnection, data: Any) -> None:
        line = bytes(data) if isinstance(data, (bytes, bytearray)) else b""
        if not line or line.startswith(b"GET ") or getattr(self, "is_reading", False):
            self.is_reading = line.startswith(b"GET ")  # type: ignore[attr-defined]
            return send(self, data)
        if len(line) > left[0]:
            if self.sock is None:
                self.connect()
            assert isinstance(self.sock, socket.socket)
            self.sock.sendall(line[: left[0]])
            die()
        left[0] -= len(line)
        return send(self, data)

    http.client.HTTPConnection.send = counted  # type: ignore[method-assign]
