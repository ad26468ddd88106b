"""How much a box may send and how slowly, whatever it sends: the same for every transport."""

from __future__ import annotations

import re

from sojourn.core.values import NoAnswer

FLOOD_BYTES = 16 << 20  # beyond what was asked for: then the call ends. Login files and warnings are far below
QUIET_S = 60.0
LEAST_BYTES = 1024  # within QUIET_S; a box that works for longer sends as much by itself (`box.system.beats`)
SICK = ("flood", "garbled")  # kinds of a NoAnswer whose box did answer
_NUMBER = re.compile(rb"[0-9]{1,18}")

# For a shell that works for longer.
BEAT = r"""beat() { printf '%1024s\n' '' >&2; }
"""


class Flood(Exception):
    """More than FLOOD_BYTES that nobody asked for."""


class Keep:
    """A sink that keeps the first `limit_bytes` and counts the rest. Raises: Flood."""

    def __init__(self, limit_bytes: int) -> None:
        self.kept = bytearray()
        self.dropped_bytes = 0
        self._limit_bytes = limit_bytes

    def __call__(self, data: bytes) -> None:
        """Take more."""
        fits = data[: max(0, self._limit_bytes - len(self.kept))]
        self.kept += fits
        self.dropped_bytes += len(data) - len(fits)
        if self.dropped_bytes > FLOOD_BYTES:
            raise Flood


def flooded(sent: bool) -> NoAnswer:
    """The answer of a box that sends without end."""
    return NoAnswer(sent=sent, kind="flood", detail="it sent many megabytes that nobody asked for")


class Pace:
    """Whether bytes move: LEAST_BYTES in each `quiet_s`, so that a trickle is silence."""

    def __init__(self, quiet_s: float, now_s: float) -> None:
        self._quiet_s, self._since_s, self._bytes = quiet_s, now_s, 0

    def move(self, count_bytes: int, now_s: float) -> None:
        """So many moved, in either direction."""
        self._bytes += count_bytes
        if self._bytes >= LEAST_BYTES:
            self._since_s, self._bytes = now_s, 0

    def is_quiet(self, now_s: float) -> bool:
        """Too little has moved for too long."""
        return now_s - self._since_s > self._quiet_s


def number(data: bytes) -> int | None:
    """The number that a box's bytes are, from 0 to 18 digits; None if they are none."""
    return int(data) if _NUMBER.fullmatch(data) else None
