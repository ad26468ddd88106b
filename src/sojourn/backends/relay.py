"""A port of another machine, here, over plain TCP: for a machine that this one reaches itself. What a login node is to
the nodes of its cluster.
"""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from collections.abc import Callable
from types import TracebackType

HERE = "127.0.0.1"
CONNECT_S = 10.0
_CHUNK_BYTES = 1 << 16


class Relay:
    """An active relay. `local_port`: its port on 127.0.0.1 here. Close it, or use it as a context manager."""

    def __init__(self, server: socketserver.ThreadingTCPServer) -> None:
        self.local_port = int(server.server_address[1])
        self._server, self._closed = server, threading.Event()
        self._thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
        self._thread.start()

    def __enter__(self) -> Relay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def wait(self, limit_s: float) -> None:
        """Wait until it is closed, or `limit_s` have passed."""
        self._closed.wait(limit_s)

    def close(self) -> None:
        """Accept no more connections. Idempotent; those that are open end with their peers, or with this process."""
        if not self._closed.is_set():
            self._closed.set()
            self._server.shutdown()
            self._server.server_close()


def start(host: str, port: int, local_port: int, tell: Callable[[str], None]) -> Relay:
    """Relay 127.0.0.1:`local_port`, or a free port if that is taken, to `port` of `host`.

    `tell` gets one line for each connection that `host` does not take. Raises: OSError if no port is free.
    """

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            try:
                there = socket.create_connection((host, port), timeout=CONNECT_S)
            except OSError as error:
                tell(f"{host}: {error.strerror or error}")
                return
            there.settimeout(None)
            with there:
                back = threading.Thread(target=_pump, args=(there, self.request), daemon=True)
                back.start()
                _pump(self.request, there)
                back.join()

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True
        block_on_close = False

    try:
        return Relay(Server((HERE, local_port), Handler))
    except OSError:
        return Relay(Server((HERE, 0), Handler))


def is_here(host: str) -> bool:
    """Whether `host` is an address of this machine."""
    with contextlib.suppress(OSError):
        for family, kind, _, _, address in socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM):
            with socket.socket(family, kind) as probe:
                probe.bind(address)
                return True
    return False


def _pump(source: socket.socket, sink: socket.socket) -> None:
    """Copy until the source's end, and pass the end on."""
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK_BYTES):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
