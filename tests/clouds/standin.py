"""What the stand-ins of all clouds share: an HTTP server with books, a clock, faults, and a check of every word said.

A stand-in keeps what a provider keeps: machines, what they cost, a balance. `faults` are what goes wrong next, each
once, in order; `violations` is every request and every answer that breaks the published description.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.clouds.described import Described

KEY = "secret-key-of-the-account"
BOOT_S = 0.0


@dataclass
class Machine:
    """One that was rented. `ended_s`: None as long as it bills."""

    native: str
    name: str
    kind: str
    rate_micro_per_h: int
    made_s: float
    asked: dict[str, Any]
    status: str = "booting"
    ended_s: float | None = None
    port: int = 22
    host: str = "127.0.0.1"
    looks: int = 0
    keys: list[str] = field(default_factory=list)
    has_run: bool = False
    leaving: int = -1  # reads until a destroyed one is gone, -1 for one that is not destroyed


@dataclass
class Fault:
    """What goes wrong with the next request of this kind (create, read, list, destroy, any)."""

    what: str
    at: str = "any"
    number: int = 0


@dataclass(frozen=True)
class Answer:
    """Status and JSON; `text`: sent in its place; `headers` beside the usual ones."""

    status: int
    body: Any = None
    text: str | None = None
    headers: tuple[tuple[str, str], ...] = ()


class Cloud:
    """One account. A subclass has `description`, `key_refused`, `limited` and `route`."""

    description = ""
    undescribed: tuple[int, ...] = ()  # statuses that the service answers with and its description leaves out

    def __init__(self) -> None:
        self.machines: dict[str, Machine] = {}
        self.beside: dict[str, list[dict[str, Any]]] = {}  # list of its API -> what bills there, as it is shown
        self.faults: list[Fault] = []
        self.mood = ""  # what goes wrong with every request: "mute" (nothing that can be read), "key" (it is refused)
        self.violations: list[str] = []
        self.calls: list[tuple[str, str]] = []
        self.skew_s = 0.0
        self.boot_looks = 0  # how often a new machine is read before it runs
        self.list_lag = 0  # how often the list is read before it has a new machine
        self.leave_looks = 0  # how often a destroyed one is read before it is gone
        self.never_runs = False
        self.has_stock = True
        self.is_sold_out = False  # what is offered is gone by the time it is asked for
        self.balance_micro = 100_000_000
        self.on_boot: Callable[[Machine], None] = lambda one: None
        self.on_end: Callable[[Machine], None] = lambda one: None
        self.on_piece: Callable[[str, int], None] = lambda way, count: None
        self.lock = threading.RLock()
        self.described = Described(self.description)
        self.rented_ever = 0
        self.busy = 0  # requests that are being answered

    @property
    def billing(self) -> list[Machine]:
        """Machines whose meter runs."""
        return [one for one in self.machines.values() if one.ended_s is None]

    def now_s(self) -> float:
        """By the cloud's own clock."""
        return time.time() + self.skew_s

    def rent(self, kind: str, name: str, rate_micro_per_h: int, asked: dict[str, Any], native: str = "") -> Machine:
        """A new machine, which bills from now on."""
        self.rented_ever += 1
        native = native or f"{self.rented_ever:04d}-{kind.replace(' ', '-').lower()}"
        one = Machine(native, name, kind, rate_micro_per_h, self.now_s(), asked)
        self.machines[native] = one
        return one

    def seen(self, one: Machine, running: str) -> Machine:
        """What becomes of a machine when it is read: it boots, and when destroyed it goes."""
        one.looks += 1
        if one.leaving > 0:
            one.leaving -= 1
        elif one.leaving == 0 and one.ended_s is None:
            self.end(one)
        if one.status == "booting" and one.looks > self.boot_looks and not self.never_runs:
            self.on_boot(one)
            one.status, one.has_run = running, True
        return one

    def wake(self, one: Machine) -> None:
        """It was stopped, and boots again."""
        one.status, one.looks = "booting", 0

    def is_listed(self, one: Machine) -> bool:
        """Whether the account's list has it by now."""
        return one.ended_s is None and one.looks > self.list_lag

    def destroy(self, one: Machine) -> None:
        """It was asked to go: at once, or after some looks."""
        if one.leaving < 0:
            one.leaving = self.leave_looks
        if one.leaving == 0 and one.ended_s is None:
            self.end(one)

    def end(self, one: Machine) -> None:
        """Gone, and its meter stands."""
        one.ended_s, one.status = self.now_s(), "gone"
        self.on_end(one)

    def deleted(self, name: str, key: str, native: str) -> bool:
        """Whether what a list called `native` was there to be deleted."""
        rows = self.beside.get(name, [])
        left = [one for one in rows if str(one[key]) != native]
        self.beside[name] = left
        return len(left) < len(rows)

    def form(self, told: dict[str, str], path: str) -> tuple[str, Any, str]:
        """(path, body, key) of a request that comes as a form, where this cloud takes those."""
        raise NotImplementedError

    def kind_of(self, method: str, path: str) -> str:
        """create, destroy, list or read."""
        raise NotImplementedError

    def route(self, method: str, path: str, query: dict[str, str], body: Any) -> Answer:
        """What the cloud answers when all is well."""
        raise NotImplementedError

    def key_refused(self) -> Answer:
        """Its words for a key that it does not know."""
        raise NotImplementedError

    def limited(self) -> Answer:
        """Its words for too many requests."""
        raise NotImplementedError

    def broken(self, what: str) -> Answer:
        """An error with an id in it, where this cloud has such; else its plain words."""
        return Answer(500, text="<html>502</html>")

    def fault(self, kind: str) -> Fault | None:
        """The next fault, if it is one for this kind of request."""
        with self.lock:
            for one in self.faults:
                if one.at in ("any", kind):
                    self.faults.remove(one)
                    return one
        return None

    def answer(self, method: str, path: str, query_text: str, query: dict[str, str], body: Any, key: str) -> Answer:
        """The whole of a request, but for the faults of the line."""
        with self.lock:
            self.calls.append((method, path))
            self.violations += self.described.faults_of_request(method, path, query_text, body)
            answer = self.route(method, path, query, body) if key == KEY else self.key_refused()
            return self.said(method, path, answer)

    def said(self, method: str, path: str, answer: Answer) -> Answer:
        """`answer`, held against the description."""
        if answer.text is None and answer.status not in self.undescribed:
            self.violations += self.described.faults_of_answer(method, path, answer.status, answer.body)
        return answer


class Line(BaseHTTPRequestHandler):
    """One connection to the cloud."""

    protocol_version = "HTTP/1.1"
    cloud: Cloud

    def handle(self) -> None:
        """Counted, so that a test can wait until nothing is under way."""
        with self.cloud.lock:
            self.cloud.busy += 1
        try:
            super().handle()
        except (ConnectionError, ValueError):  # cut off in the middle
            pass
        finally:
            with self.cloud.lock:
                self.cloud.busy -= 1

    def parse_request(self) -> bool:
        """As ever, but a head that was cut off is none: its client died."""
        read, last = self.rfile.readline, b""

        def readline(limit: int = -1) -> bytes:
            nonlocal last
            last = read(limit)
            return last

        self.rfile.readline = readline  # type: ignore[method-assign]
        try:
            return super().parse_request() and last in (b"\r\n", b"\n")
        finally:
            self.rfile.readline = read  # type: ignore[method-assign]

    def _serve(self) -> None:
        cloud = self.cloud
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if len(raw) < int(self.headers.get("Content-Length") or 0):
            self.close_connection = True
            return
        path, _, query_text = self.path.partition("?")
        from urllib.parse import parse_qsl

        query = dict(parse_qsl(query_text))
        if self.headers.get("Content-Type", "").startswith("application/x-www-form-urlencoded"):
            path, body, key = cloud.form(dict(parse_qsl(raw.decode(), keep_blank_values=True)), path)
        else:
            body = json.loads(raw) if raw else None
            key = self.headers.get("Authorization", "").rpartition(" ")[2]
        fault = cloud.fault(cloud.kind_of(self.command, path))
        what = cloud.mood or (fault.what if fault else "")
        if what in ("twice", "twice-lost"):  # something on the way sends it again
            cloud.answer(self.command, path, query_text, query, body, key)
        if what == "mute":
            answer = Answer(502, text="<html>bad gateway</html>")
        elif what == "before":
            answer = Answer(503, text="busy")
        elif what == "limited":
            answer = cloud.said(self.command, path, cloud.limited())
        elif what == "limited-told":
            answer = cloud.said(self.command, path, cloud.limited())
            answer = Answer(answer.status, answer.body, headers=(("Retry-After", "1"),))
        elif what == "sold-out":
            cloud.is_sold_out = True
            answer = cloud.answer(self.command, path, query_text, query, body, key)
            cloud.is_sold_out = False
        elif what == "bare":
            answer = Answer(400, text="")
        elif what == "key":
            answer = cloud.said(self.command, path, cloud.key_refused())
        else:
            answer = cloud.answer(self.command, path, query_text, query, body, key)
        if what == "after":
            answer = Answer(502, text="<html>bad gateway</html>")
        if what == "told-id":
            answer = cloud.broken(json.dumps(answer.body))
        if what in ("lost", "twice-lost"):
            self.close_connection = True
            return
        self._send(answer, fault.number if fault and what == "cut" else -1)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = _serve

    def _send(self, answer: Answer, cut: int) -> None:
        text = answer.text if answer.text is not None else "" if answer.body is None else json.dumps(answer.body)
        data = text.encode()
        head = [f"HTTP/1.1 {answer.status} X", f"Content-Length: {len(data)}", "Content-Type: application/json"]
        head += [f"Date: {formatdate(self.cloud.now_s(), usegmt=True)}"]
        head += [f"{name}: {value}" for name, value in answer.headers]
        whole = ("\r\n".join(head) + "\r\n\r\n").encode() + data
        if cut >= 0:
            self.wfile.write(whole[: cut % len(whole)])
            self.close_connection = True
            return
        self.wfile.write(whole)

    def log_message(self, *words: object) -> None:
        """Quiet."""


@contextlib.contextmanager
def serving(cloud: Cloud) -> Iterator[str]:
    """The cloud's address, as long as inside."""
    line = type("Line", (Line,), {"cloud": cloud})
    server = ThreadingHTTPServer(("127.0.0.1", 0), line)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
