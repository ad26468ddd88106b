"""A box in this very process, and a line to it that fails in a way drawn by seed: the real keeper, client and frames.

One fault falls on each call, until they are used up. Time passes when it is slept away, and with a stall.
"""

from __future__ import annotations

import errno
import io
import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO
from unittest import mock

from sojourn.backends.transport import local
from sojourn.box.call import answer_one
from sojourn.core.values import Ended, NoAnswer

KINDS = (
    "refused",  # nothing arrives
    "lost answer",  # it is done there, and the answer is lost
    "cut up",
    "cut down",
    "stall up",
    "stall down",
    "half closed",  # the box sees the end of what we send, and we hear its answer
    "flip up",
    "flip down",
    "full there",
    "full here",
    "changed here",
    "changed there",
)
DAMAGE = frozenset(("flip up", "flip down", "full there", "full here", "changed here", "changed there", "half closed"))


@dataclass
class Fault:
    """What befalls one call, `at` so many bytes of what goes up or comes down."""

    kind: str
    at: int


@dataclass
class FaultyLine(local.Backend):
    """`change`: what changes a file on either side. `sent_bytes`, `came_bytes`: on the line so far, cut ones too."""

    dice: random.Random
    faults: list[Fault] = field(default_factory=list)
    change: dict[str, Callable[[], None]] = field(default_factory=dict)
    calls: int = 0
    sent_bytes: int = 0
    came_bytes: int = 0
    stalled_s: float = 0.0

    def call(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0, limit_bytes: int = 16 << 20
    ) -> Ended | NoAnswer:
        out = io.BytesIO()
        ended = self.stream(argv, stdin=stdin, out=out.write, timeout_s=timeout_s)  # type: ignore[arg-type]
        return Ended(ended.rc, out.getvalue(), b"") if isinstance(ended, Ended) else ended

    def stream(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | BinaryIO = b"",
        out: Callable[[bytes], None],
        timeout_s: float = 600.0,
        quiet_s: float = float("inf"),
    ) -> Ended | NoAnswer:
        fault = self._next()
        if fault.kind == "refused":
            return NoAnswer(sent=False, kind="refused")
        with self._full(fault.kind == "full here", fault.at):
            up = b"".join(self._going_up(stdin, fault))
        said = io.BytesIO()
        with self._full(fault.kind == "full there", fault.at):
            if fault.kind == "changed there":
                self.change["there"]()
            answer_one(io.BytesIO(up), said)
        down, cut = self._coming_down(said.getvalue(), fault)
        with self._full(fault.kind == "full here", fault.at):
            for at in range(0, len(down), 50_000):
                out(down[at : at + 50_000])
        if fault.kind.startswith("stall"):
            self.stalled_s += min(timeout_s, quiet_s)
            return NoAnswer(sent=True, kind="timeout")
        return NoAnswer(sent=True, kind="reset") if cut else Ended(0, b"", b"")

    def get(
        self, remote: str, local: str, *, offset: int = 0, timeout_s: float = 600.0, limit_bytes: int | None = None
    ) -> int | NoAnswer:
        fault = self._next()
        if fault.kind == "refused":
            return NoAnswer(sent=False, kind="refused")
        if fault.kind == "changed there":
            self.change["there"]()
        is_cut = fault.kind in ("cut down", "cut up", "stall up", "stall down", "lost answer", "half closed")
        most = min(limit_bytes or 1 << 30, fault.at) if is_cut else limit_bytes
        count = super().get(remote, local, offset=offset, timeout_s=timeout_s, limit_bytes=most)
        if isinstance(count, int):
            self.came_bytes += count
            if fault.kind == "flip down" and count:
                with open(local, "r+b") as file:
                    file.seek(offset + fault.at % count)
                    byte = file.read(1)
                    file.seek(-1, os.SEEK_CUR)
                    file.write(bytes((byte[0] ^ 4,)))
        if fault.kind.startswith("stall"):
            self.stalled_s += timeout_s
            return NoAnswer(sent=True, kind="timeout")
        return NoAnswer(sent=True, kind="reset") if is_cut else count

    def _next(self) -> Fault:
        self.calls += 1
        assert self.calls < 500, "it asks without end"
        return self.faults.pop(0) if self.faults else Fault("", 0)

    def _going_up(self, stdin: bytes | BinaryIO, fault: Fault) -> Iterator[bytes]:
        source = io.BytesIO(stdin) if isinstance(stdin, bytes) else stdin
        is_cut = fault.kind in ("cut up", "stall up", "half closed")
        count = 0
        while True:
            if fault.kind == "changed here" and count >= fault.at:
                self.change["here"]()
                fault = Fault("", 0)
            data = source.read(1 << 16)
            if fault.kind == "flip up" and count <= fault.at < count + len(data):
                data = _flipped(data, fault.at - count)
            if is_cut:
                data = data[: fault.at - count]
            if not data:
                return
            count += len(data)
            self.sent_bytes += len(data)
            yield data

    def _coming_down(self, said: bytes, fault: Fault) -> tuple[bytes, bool]:
        if fault.kind in ("lost answer", "cut up", "stall up"):
            said = b""
        elif fault.kind in ("cut down", "stall down"):
            said = said[: fault.at]
        elif fault.kind == "flip down" and fault.at < len(said):
            said = _flipped(said, fault.at)
        self.came_bytes += len(said)
        return said, fault.kind in ("lost answer", "cut up", "cut down")

    @contextmanager
    def _full(self, is_full: bool, room_bytes: int) -> Iterator[None]:
        """A disk with so much room left."""
        if not is_full:
            yield
            return
        real = {"write": os.write, "pwrite": os.pwrite}
        left = room_bytes

        def write(name: str, fd: int, data: Any, *more: int) -> int:
            nonlocal left
            if left <= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            count: int = real[name](fd, memoryview(data)[:left], *more)
            left -= count
            return count

        with (
            mock.patch.object(os, "write", lambda *how: write("write", *how)),
            mock.patch.object(os, "pwrite", lambda *how: write("pwrite", *how)),
        ):
            yield


def _flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes((data[at] ^ 4,)) + data[at + 1 :]
