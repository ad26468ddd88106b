"""A line to this machine that is cut, or flips a bit, after so many bytes of a stream: the real local transport."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

from sojourn.backends.transport import local
from sojourn.core.values import Ended, NoAnswer


class _Cut(Exception):
    pass


class Line(local.Backend):
    """`up`, `down`: bytes after which each next stream is cut, one for each, then none; `flip`: the byte of what comes
    down in the next stream that is changed, -1: none. `went_bytes`, `came_bytes`: in streams, so far.
    """

    def __init__(self) -> None:
        super().__init__()
        self.up: list[int] = []
        self.down: list[int] = []
        self.flip = -1
        self.refuses = 0  # so many copies of one file
        self.went_bytes = self.came_bytes = self.streams = self.gets = 0

    def get(self, remote: str, local: str, **how: Any) -> int | NoAnswer:
        self.gets += 1
        if self.refuses:
            self.refuses -= 1
            return NoAnswer(sent=False, kind="refused")
        return super().get(remote, local, **how)

    def stream(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | BinaryIO = b"",
        out: Callable[[bytes], None],
        timeout_s: float = 600.0,
        quiet_s: float = float("inf"),
    ) -> Ended | NoAnswer:
        self.streams += 1
        up = self.up.pop(0) if self.up else -1
        down = self.down.pop(0) if self.down else -1
        flip, self.flip = self.flip, -1
        came = 0
        line = self

        class Source:
            left = up

            def read(self, size: int = -1) -> bytes:
                data: bytes = stdin.read(size)  # type: ignore[union-attr]
                if self.left >= 0:
                    data = data[: self.left]
                    self.left -= len(data)
                line.went_bytes += len(data)
                return data

        def hear(data: bytes) -> None:
            nonlocal came
            if came <= flip < came + len(data):
                data = data[: flip - came] + bytes((data[flip - came] ^ 4,)) + data[flip - came + 1 :]
            if 0 <= down < came + len(data):
                out(data[: down - came])
                line.came_bytes += down - came
                raise _Cut
            came += len(data)
            line.came_bytes += len(data)
            out(data)

        try:
            ended = super().stream(argv, stdin=Source(), out=hear, timeout_s=timeout_s, quiet_s=quiet_s)  # type: ignore[arg-type]
        except _Cut:
            return NoAnswer(sent=True, kind="reset", detail="cut")
        return NoAnswer(sent=True, kind="reset", detail="cut") if up >= 0 else ended
