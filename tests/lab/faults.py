"""Faults that a box alone cannot play: servers that are no ssh server, logins that are held open, links that
break at a byte.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server on a loopback port of this namespace that does `answer` with each connection; yields the port."""
    listener = socket.create_server(("127.0.0.1", 0))
    open_ones: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            open_ones.append(connection)
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for connection in open_ones:
            connection.close()
        thread.join(5)


def silent(connection: socket.socket) -> None:
    """Accept, and never say a word."""


def garbage(connection: socket.socket) -> None:
    """Answer as a web server would."""
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n\x00\xff\xfe" + b"x" * 400 + b"\r\n")


def slam(connection: socket.socket) -> None:
    """Reset the connection at once, as a box without memory does."""
    connection.recv(1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def relay(address: str, port: int, break_after_bytes: int, up: bool) -> Callable[[socket.socket], None]:
    """Pass bytes to and fro, and reset both sides once `break_after_bytes` went up (to the box) or down."""

    def answer(near: socket.socket) -> None:
        far = socket.create_connection((address, port), timeout=60)
        far.settimeout(None)
        left = break_after_bytes

        def pump(source: socket.socket, target: socket.socket, is_counted: bool) -> None:
            nonlocal left
            with contextlib.suppress(OSError):
                while data := source.recv(1 << 14):
                    target.sendall(data[: max(0, left)] if is_counted else data)
                    if is_counted:
                        left -= len(data)
                        if left <= 0:
                            break
            for end in (near, far):
                with contextlib.suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    end.shutdown(socket.SHUT_RDWR)

        other = threading.Thread(target=pump, args=(far, near, not up), daemon=True)
        other.start()
        pump(near, far, up)
        other.join()
        far.close()
        near.close()

    return answer


@contextlib.contextmanager
def held_logins(address: str, port: int, count: int) -> Iterator[None]:
    """Hold `count` connections open that never log in."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            held = stack.enter_context(socket.create_connection((address, port), timeout=60))
            held.recv(64)
        yield
