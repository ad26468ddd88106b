"""A relay over real sockets: whole answers, both ends passed on, many connections at once, and a port that is taken."""

import socket
import threading
from collections.abc import Iterator

import pytest

from sojourn.backends import relay

THERE = "127.0.0.2"  # another address than the relay's own


@pytest.fixture
def port() -> Iterator[int]:
    """Of a server that answers with all it got, once it got the end of it."""
    with socket.create_server((THERE, 0)) as server:

        def answer(one: socket.socket) -> None:
            with one:
                one.sendall(b"".join(iter(lambda: one.recv(65536), b"")))

        def serve() -> None:
            while True:
                try:
                    one, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=answer, args=(one,), daemon=True).start()

        accepting = threading.Thread(target=serve, daemon=True)
        accepting.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        accepting.join()


def asked(port: int, words: bytes) -> bytes:
    with socket.create_connection((relay.HERE, port), timeout=20) as one:
        one.sendall(words)
        one.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: one.recv(65536), b""))


def test_it_answers_under_the_same_number_to_several_at_once_until_it_is_closed(port: int) -> None:
    told: list[str] = []
    with relay.start(THERE, port, port, told.append) as up, socket.create_connection((relay.HERE, port)) as idle:
        assert up.local_port == port
        idle.sendall(b"waits")
        for size in (1, 3_000_000):
            assert asked(port, b"x" * size) == b"x" * size
        idle.shutdown(socket.SHUT_WR)
        assert idle.recv(100) == b"waits"
    assert not told
    with pytest.raises(OSError):
        asked(port, b"x")


def test_a_taken_port_is_replaced_by_a_free_one(port: int) -> None:
    with socket.create_server((relay.HERE, 0)) as taken:
        with relay.start(THERE, port, taken.getsockname()[1], lambda line: None) as up:
            assert up.local_port != taken.getsockname()[1] and asked(up.local_port, b"hi") == b"hi"


def test_a_port_where_nothing_listens_is_told_and_the_relay_stays(port: int) -> None:
    told: list[str] = []
    with socket.socket() as free:
        free.bind((THERE, 0))
        with relay.start(THERE, free.getsockname()[1], 0, told.append) as up:
            assert asked(up.local_port, b"") == b"" and told == [f"{THERE}: Connection refused"]
            free.listen()
            with socket.create_connection((relay.HERE, up.local_port), timeout=20):
                free.accept()[0].close()


def test_an_address_of_this_machine_is_known_as_one() -> None:
    assert relay.is_here("localhost") and relay.is_here(THERE)
    assert not relay.is_here("192.0.2.1") and not relay.is_here("no-such-host.invalid")
