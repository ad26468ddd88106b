"""The way to a machine that is not there: a site whose provider rents, and has nothing rented now."""

from __future__ import annotations

from collections.abc import Sequence

from sojourn.core.values import Ended, NoAnswer


class Nowhere:
    """A transport over which nothing is ever sent. `why`: for people."""

    def __init__(self, why: str) -> None:
        self._no = NoAnswer(sent=False, kind="not-rented", detail=why, next_step="sojourn run")

    def call(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0, limit_bytes: int = 16 << 20
    ) -> Ended | NoAnswer:
        """Nobody answers."""
        return self._no

    def attach(self, argv: Sequence[str], has_terminal: bool) -> list[str]:
        """Who asks it first hears that nobody answers."""
        return []

    def put(self, local: str, remote: str, *, timeout_s: float = 600.0) -> None | NoAnswer:
        """Nobody takes it."""
        return self._no

    def get(
        self, remote: str, local: str, *, offset: int = 0, timeout_s: float = 600.0, limit_bytes: int | None = None
    ) -> int | NoAnswer:
        """Nothing comes."""
        return self._no
