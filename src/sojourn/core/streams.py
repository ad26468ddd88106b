"""What a transport may offer beyond its port: one call that carries many contents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import BinaryIO, Protocol

from sojourn.core.ports import Transport
from sojourn.core.values import Ended, NoAnswer


class StreamingTransport(Transport, Protocol):
    """A transport that carries many contents in one call. Others carry them one by one."""

    def stream(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | BinaryIO = b"",
        out: Callable[[bytes], None],
        timeout_s: float = 600.0,
        quiet_s: float = float("inf"),
    ) -> Ended | NoAnswer:
        """`call` for large data: `stdin` is read as the box takes it, `out` gets stdout as it comes; Ended has only
        stderr.

        Gives up if nothing moves for `quiet_s`. An exception from reading `stdin` or from `out` ends the call and
        propagates.
        """
        ...
