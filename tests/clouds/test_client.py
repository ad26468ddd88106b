"""The HTTP client of all providers, against servers that misbehave on real sockets."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sojourn.backends.client import limits, log
from sojourn.backends.client.answers import Accepted, accepts, created, micro, standing
from sojourn.backends.client.https import Api, Reply, address
from sojourn.backends.client.keys import Key
from sojourn.backends.client.limits import Limiter, retry_after_s
from sojourn.core.ports import Rejected, Unknown
from sojourn.core.values import NoAnswer, Pulse
from sojourn.wire.errors import Misuse

KEY = Key("env:THE_KEY", "secret-0123456789")
OK = b'HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{"id": "a"}'


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_kept", {})


@contextlib.contextmanager
def server(*answers: bytes | Callable[[socket.socket], None]) -> Iterator[tuple[str, list[bytes]]]:
    """Gives each connection the next answer; yields its address and what was sent to it."""
    got: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            for answer in answers:
                with contextlib.suppress(OSError):
                    line, _ = listening.accept()
                    with line:
                        got.append(line.recv(65536))
                        answer(line) if callable(answer) else line.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", got


class Clock:
    """Time that passes when somebody sleeps."""

    def __init__(self) -> None:
        self.at_s, self.slept = 0.0, list[float]()

    def now_s(self) -> float:
        return self.at_s

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at_s += seconds


def api(base: str, clock: Clock | None = None) -> Api:
    how = {"now_s": clock.now_s, "sleep": clock.sleep} if clock else {}
    return Api("slab", base, lambda: KEY, **how)  # type: ignore[arg-type]


def error(status: int, body: bytes = b"{}", more: bytes = b"") -> bytes:
    return b"HTTP/1.1 %d X\r\nConnection: close\r\nContent-Length: %d\r\n%s\r\n%s" % (status, len(body), more, body)


def test_a_reading_call_is_asked_again_and_waits_as_long_as_it_is_told() -> None:
    clock = Clock()
    with server(error(429, more=b"Retry-After: 7\r\n"), error(503), OK) as (base, got):
        reply = api(base, clock).read("/machines")
    assert isinstance(reply, Reply) and reply.body == {"id": "a"} and len(got) == 3
    assert clock.slept[0] == 7.0 and sum(clock.slept) < 10


def test_a_reading_call_gives_up_at_its_deadline() -> None:
    clock = Clock()
    with server(error(429, more=b"Retry-After: 3600\r\n")) as (base, _):
        reply = api(base, clock).read("/machines", timeout_s=30)
    assert isinstance(reply, Reply) and reply.status == 429 and not clock.slept


@pytest.mark.parametrize("answer", [b"", error(500), error(429), error(503), OK[:20], OK[:-3]])
def test_a_changing_call_is_sent_once_whatever_becomes_of_its_answer(answer: bytes) -> None:
    with server(answer, OK) as (base, got):
        reply = api(base).write("POST", "/machines", {"name": "n"})
        time.sleep(0.05)
    assert len(got) == 1 and not isinstance(created(reply, lambda body: None), Accepted)


def test_nothing_was_sent_where_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]
    reply = api(f"http://127.0.0.1:{port}").write("POST", "/machines", {})
    assert isinstance(reply, NoAnswer) and not reply.sent
    assert isinstance(created(reply, lambda body: None), Rejected)


def test_a_key_follows_no_redirect() -> None:
    with server(OK) as (elsewhere, got):
        with server(error(302, more=b"Location: %s/\r\n" % elsewhere.encode())) as (base, _):
            reply = api(base).read("/machines")
        assert isinstance(reply, Reply) and reply.status == 302 and not got


@pytest.mark.parametrize("url", ["http://api.example", "ftp://127.0.0.1", "http://127.0.0.1.example", "api.example"])
def test_a_key_travels_by_https_alone(url: str) -> None:
    with pytest.raises(Misuse, match="https only"):
        address(url)


def test_an_answer_that_drips_ends_at_the_deadline() -> None:
    def drip(line: socket.socket) -> None:
        line.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        with contextlib.suppress(OSError):
            for _ in range(200):
                line.sendall(b"x")
                time.sleep(0.02)

    began = time.monotonic()
    with server(drip) as (base, _):
        reply = api(base).write("POST", "/machines", {}, timeout_s=0.4)
    assert isinstance(reply, NoAnswer) and reply.sent and time.monotonic() - began < 2


def test_the_log_holds_every_call_and_neither_key_nor_body(private_home: Path) -> None:
    said = json.dumps({"error": f"no such key {KEY.value}"}).encode()
    with server(error(401, said), OK) as (base, _):
        api(base).read("/machines", {"name": "n"})
        api(base).write("POST", "/machines", {"env": {"PUBLIC_KEY": "of a person"}})
    text = Path(log.path()).read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [(line["method"], line["status"]) for line in lines] == [("GET", 401), ("POST", 200)]
    assert KEY.value not in text and "of a person" not in text and "***" in lines[0]["said"]
    assert Path(log.path()).stat().st_mode & 0o777 == 0o600


def test_a_limit_holds_between_calls_and_other_classes_do_not_wait() -> None:
    clock = Clock()
    slow = Limiter(4.5, clock.now_s, clock.sleep)
    assert [slow.wait() for _ in range(3)] == [True] * 3 and clock.slept == [4.5, 4.5]
    slow.hold(60)
    assert not slow.wait(clock.now_s() + 10)
    assert limits.limiter("a", "x", "read", 1) is limits.limiter("a", "x", "read", 1)
    assert limits.limiter("a", "x", "read", 1) is not limits.limiter("a", "x", "create", 1)


def test_a_limit_holds_between_processes(tmp_path: Path) -> None:
    clock, file = Clock(), str(tmp_path / "limits/one")
    ours, theirs = (Limiter(4.5, clock.now_s, clock.sleep, file) for _ in range(2))  # a file is all that they share
    assert ours.wait() and theirs.wait() and clock.slept == [4.5]
    ours.hold(60)
    assert not theirs.wait(clock.now_s() + 10) and not Limiter(0, clock.now_s, clock.sleep, file).wait(clock.now_s())
    Path(file).write_text("1e30")  # of before a reboot, or torn
    assert Limiter(0, clock.now_s, clock.sleep, file).wait(clock.now_s())


def test_a_date_to_retry_after_counts_from_the_clock_of_who_says_it() -> None:
    date = {"date": "Tue, 24 Nov 2026 03:00:00 GMT", "retry-after": "Tue, 24 Nov 2026 03:00:30 GMT"}
    assert retry_after_s(date) == 30.0
    assert retry_after_s({"retry-after": "12"}) == 12.0
    assert retry_after_s({}) is None and retry_after_s({"retry-after": "soon"}) is None


@pytest.mark.parametrize(
    "reply, means",
    [
        (Reply(201, {"id": "m-1"}, True), Accepted),
        (Reply(400, {"id": "m-1", "error": "unmet bid"}, True), Accepted),
        (Reply(500, {"id": "m-1"}, True), Accepted),
        (Reply(200, {}, True), Unknown),
        (Reply(200, None, False), Unknown),
        (Reply(302, None, False), Unknown),
        (Reply(400, {"error": "no capacity"}, True), Rejected),
        (Reply(402, {"title": "no money"}, True), Rejected),
        (Reply(404, {"error": "no_such_ask"}, True), Rejected),
        (Reply(429, None, False), Rejected),
        (Reply(400, None, False), Unknown),
        (Reply(403, None, False), Unknown),
        (Reply(408, {"error": "timeout"}, True), Unknown),
        (Reply(409, {"error": "conflict"}, True), Unknown),
        (Reply(500, {"error": "?"}, True), Unknown),
        (Reply(503, None, False), Unknown),
        (NoAnswer(True, "timeout"), Unknown),
        (NoAnswer(True, "tls"), Unknown),
        (NoAnswer(False, "refused"), Rejected),
    ],
)
def test_an_answer_to_a_create_is_accepted_rejected_or_unknown(reply: Reply | NoAnswer, means: type) -> None:
    assert type(created(reply, lambda body: body.get("id") if isinstance(body, dict) else None)) is means


def test_gone_takes_two_signals() -> None:
    alive, stopped, gone, unknown = Pulse.ALIVE, Pulse.STOPPED, Pulse.GONE, Pulse.UNKNOWN
    assert standing(gone, gone) is gone
    assert standing(gone, unknown) is standing(unknown, gone) is standing(unknown, unknown) is unknown
    for here in (alive, stopped):
        assert {standing(here, there) for there in (gone, unknown, here)} == {here}
        assert {standing(there, here) for there in (gone, unknown)} == {here}


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "instance-operations/launch/insufficient-capacity", "capacity"), (410, "no_such_ask", "capacity"),
        (400, "OUT_OF_CAPACITY", "capacity"), (402, "Payment Required", "balance"),
        (400, "credit is used up", "balance"),
        (403, "global/account-inactive", "balance"), (403, "global/quota-exceeded", "quota"), (401, "no", "key"),
        (404, "Invalid user key", "key"), (422, "no such GPU", "request"), (429, "too many", "rate"),
    ],
)  # fmt: skip
def test_a_no_says_what_it_is_about(status: int, code: str, kind: str) -> None:
    answer = created(Reply(status, {"code": code}, True, {"retry-after": "7"}), lambda body: None)
    assert isinstance(answer, Rejected) and answer.kind == kind
    assert answer.retry_after_s == (7.0 if kind == "rate" else None)


def test_a_delete_that_was_lost_is_not_taken_for_one_that_was_refused() -> None:
    assert accepts(Reply(204)) is True and accepts(Reply(404), 404) is True
    assert accepts(Reply(404)) is False and accepts(NoAnswer(False, "refused")) is False
    assert accepts(NoAnswer(True, "timeout")) is None and accepts(Reply(500)) is None and accepts(Reply(409)) is None


@pytest.mark.parametrize(
    "price, amount",
    [(0.44, 440_000), (1, 1_000_000), ("0.0000001", 1), (0, 0), (-1, None), ("x", None), (None, None), (True, None),
     (float("nan"), None), (float("inf"), None), (0.1 + 0.2, 300_001)],
)  # fmt: skip
def test_a_price_is_rounded_up_to_a_millionth_and_nonsense_is_no_price(price: object, amount: int | None) -> None:
    assert micro(price) == amount
