"""A box reached by OpenSSH: the site's address is an alias of ~/.ssh/config, `user@host` or `user@host:port`.

Options of the site: `ssh_config` (a settings file instead of the user's own), `sharing` (own, user, off), `persist_s`
(60 to 600), `answer_s` (5 to 300).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import BinaryIO

from sojourn.backends.bounds import QUIET_S, Keep
from sojourn.backends.ssh import session as ssh_session
from sojourn.backends.ssh.argv import COPY, POLL, address, attach, reached
from sojourn.backends.transport import _copies as copies
from sojourn.core.values import Ended, NoAnswer, Place

WORDS_BYTES = 1 << 16


class Backend:
    """The transport `ssh`. Holds only the place: connections are shared through sockets, which any instance finds."""

    def __init__(self, place: Place) -> None:
        """Raises: BadSshAddress."""
        address(place.address)
        self._site = reached(place)

    def attach(self, argv: Sequence[str], has_terminal: bool) -> list[str]:
        """As in the port: a connection of its own."""
        return attach(self._site, argv, has_terminal)

    def call(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0, limit_bytes: int = 16 << 20
    ) -> Ended | NoAnswer:
        """As in the port. A command ended by a signal has status 128 + its number: a shell is in between."""
        out, err = Keep(limit_bytes), Keep(limit_bytes)
        ran = ssh_session.run(
            self._site, POLL, argv, stdin=stdin, out=out, err=err, timeout_s=timeout_s, quiet_s=QUIET_S
        )
        if isinstance(ran, NoAnswer):
            return ran
        return Ended(
            rc=ran.rc,
            stdout=bytes(out.kept),
            stderr=bytes(err.kept),
            seconds=ran.seconds,
            truncated=bool(out.dropped_bytes or err.dropped_bytes),
        )

    def stream(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | BinaryIO = b"",
        out: Callable[[bytes], None],
        timeout_s: float = 600.0,
        quiet_s: float = float("inf"),
    ) -> Ended | NoAnswer:
        """As in `core.streams`; over the connection for copies, which a dead link ends after 10 to 15 s."""
        err = Keep(WORDS_BYTES)
        ran = ssh_session.run(
            self._site, COPY, argv, stdin=stdin, out=out, err=err, timeout_s=timeout_s, quiet_s=quiet_s
        )
        return ran if isinstance(ran, NoAnswer) else Ended(ran.rc, b"", bytes(err.kept), ran.seconds)

    def put(self, local: str, remote: str, *, timeout_s: float = 600.0) -> None | NoAnswer:
        """As in the port; resumes an interrupted one. Creates folders; the file keeps its executable bit and is 0600
        else.

        Raises: NoSuchFile (here), NotCopied (no room, no rights, a folder of that name), OSError (the local file).
        """
        return copies.put(self._words, self._site.name, local, remote, timeout_s)

    def get(
        self, remote: str, local: str, *, offset: int = 0, timeout_s: float = 600.0, limit_bytes: int | None = None
    ) -> int | NoAnswer:
        """As in the port. After a NoAnswer the local file may have grown by good bytes: continue at its new size.

        Anything over `limit_bytes` is not written, and ends the transfer: a box may send for ever. Raises: NoSuchFile,
        NotCopied (unreadable), OSError (the local file).
        """
        return copies.get(self._streamed, self._site.name, remote, local, offset, timeout_s, limit_bytes)

    def _words(self, argv: list[str], source: bytes | BinaryIO, timeout_s: float) -> Ended | NoAnswer:
        out, err = Keep(WORDS_BYTES), Keep(WORDS_BYTES)
        ran = ssh_session.run(
            self._site, COPY, argv, stdin=source, out=out, err=err, timeout_s=timeout_s, quiet_s=QUIET_S
        )
        return ran if isinstance(ran, NoAnswer) else Ended(rc=ran.rc, stdout=bytes(out.kept), stderr=bytes(err.kept))

    def _streamed(self, argv: list[str], out: Callable[[bytes], None], timeout_s: float) -> Ended | NoAnswer:
        return self.stream(argv, out=out, timeout_s=timeout_s, quiet_s=QUIET_S)
