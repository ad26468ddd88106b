"""A new session: the keeper as a plain detached process, kept alive by nobody. Works on every box with a shell.

Survives a dropped link, the client's exit and a logout (if the box spares processes of logged-out users).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from sojourn.backends.keeper import process as keeper_process
from sojourn.core.ports import Handle, LaunchRequest
from sojourn.core.values import Ended, NoAnswer, Place, Pulse, Site

_START = keeper_process.SPAWN + 'spawn "$@"; tell "$pid"\n'


class Backend:
    """Launcher through a shell and `setsid`."""

    survives: ClassVar[frozenset[str]] = frozenset({"link-drop", "client-exit", "logout"})

    def __init__(self, site: Site | None = None) -> None:
        """A launcher is made with its site, whose `options` are its settings; this one has none."""

    def start(
        self, place: Place, argv: Sequence[str], root: str, request: LaunchRequest | None = None
    ) -> Handle | NoAnswer:
        """Start argv detached; see `core.ports.Launcher`. Raises: NotLaunched."""
        return keeper_process.start(self, place, argv, root, request)

    def command(self, argv: Sequence[str], root: str, request: LaunchRequest | None = None) -> list[str]:
        """A shell that starts argv and prints its pid."""
        return keeper_process.command(_START, root, argv)

    def read(self, ended: Ended, root: str) -> Handle:
        """That shell's output. Raises: NotLaunched."""
        facts, _ = keeper_process.read_start("setsid", ended, root)
        return Handle("setsid", f"{facts['pid']}:{facts['start']}", facts)

    def pulse(self, place: Place, handle: Handle) -> Pulse:
        """Whether a keeper of this root lives; see `keeper_process.pulse`."""
        return keeper_process.pulse(place, handle)

    def stop(self, place: Place, handle: Handle, grace_s: float) -> None | NoAnswer:
        """TERM, then KILL; see `keeper_process.stop`."""
        return keeper_process.stop(place, handle, grace_s)
