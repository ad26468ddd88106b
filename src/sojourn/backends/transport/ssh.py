"""A box reached by OpenSSH: the site's address is an alias of ~/.ssh/config, `user@host` or `user@host:port`.

Options of the site: `ssh_config` (a settings file instead of the user's own), `sharing` (own, user, off),
`persist_s` (60 to 600).
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import BinaryIO

from sojourn.backends.ssh import copy as ssh_copy
from sojourn.backends.ssh import session as ssh_session
from sojourn.backends.ssh.argv import COPY, POLL, address
from sojourn.backends.ssh.talk import Keep
from sojourn.backends.transport.local import NoSuchFile, NotCopied
from sojourn.core.values import Ended, NoAnswer, Place

QUIET_S = 60.0  # nothing moves and yet the link lives: a disk that hangs, on either side
WORDS_BYTES = 1 << 16


class Backend:
    """The transport `ssh`. Holds nothing but the place: connections are shared through sockets, so any other one
    finds them.
    """

    def __init__(self, place: Place) -> None:
        """Raises: BadSshAddress."""
        address(place.address)
        self._site = replace(place.site, address=place.address)

    def call(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0, limit_bytes: int = 16 << 20
    ) -> Ended | NoAnswer:
        """As the port says. A command ended by a signal has status 128 + its number: a shell stands between."""
        out, err = Keep(limit_bytes), Keep(limit_bytes)
        ran = ssh_session.run(self._site, POLL, argv, stdin=stdin, out=out, err=err, timeout_s=timeout_s)
        if isinstance(ran, NoAnswer):
            return ran
        return Ended(
            rc=ran.rc,
            stdout=bytes(out.kept),
            stderr=bytes(err.kept),
            seconds=ran.seconds,
            truncated=bool(out.dropped_bytes or err.dropped_bytes),
        )

    def put(self, local: str, remote: str, *, timeout_s: float = 600.0) -> None | NoAnswer:
        """As the port says; goes on where an earlier one broke off. Folders are made; the file keeps its
        executable bit and is 0600 else.

        Raises: NoSuchFile (here), NotCopied (no room, no rights, a folder of that name), OSError (the local file).
        """
        began = time.monotonic()
        if not os.path.isfile(local):
            raise NoSuchFile(path=local)
        with open(local, "rb") as source:
            size_bytes = os.fstat(source.fileno()).st_size
            mode = "700" if os.fstat(source.fileno()).st_mode & 0o100 else "600"
            sha256 = hashlib.file_digest(source, "sha256").hexdigest()
            what = [remote, ssh_copy.part_name(remote, sha256), str(size_bytes), sha256]
            block, why = 0, ""
            if size_bytes > ssh_copy.SMALL_BYTES:
                asked = self._words(["sh", "-c", ssh_copy.ASK, "sojourn", *what], source=b"", timeout_s=timeout_s)
                if isinstance(asked, NoAnswer):
                    return asked
                if asked.stdout.strip() == b"whole":
                    return None
                block = int(asked.stdout or 0) // ssh_copy.BLOCK_BYTES
            for first in (block, 0):  # from the start again where what stood there already was not ours
                source.seek(first * ssh_copy.BLOCK_BYTES)
                argv = ["sh", "-c", ssh_copy.STORE, "sojourn", *what, str(first), mode]
                stored = self._words(argv, source, max(1.0, timeout_s - (time.monotonic() - began)))
                if isinstance(stored, NoAnswer):
                    return stored
                if stored.rc == 0:
                    return None
                why = _why(stored)
                if stored.rc != ssh_copy.DAMAGED:
                    break
        raise NotCopied(path=f"{self._site.name}:{remote}", detail=why)

    def get(
        self, remote: str, local: str, *, offset: int = 0, timeout_s: float = 600.0, limit_bytes: int | None = None
    ) -> int | NoAnswer:
        """As the port says. After a NoAnswer the local file may have grown by good bytes: go on at its new size.

        What is over `limit_bytes` is not written, and ends the transfer: a box may send for ever. Raises: NoSuchFile,
        NotCopied (it may not be read), OSError (the local file).
        """
        argv = ["sh", "-c", ssh_copy.FETCH, "sojourn", remote, str(offset + 1)]
        words = Keep(WORDS_BYTES)
        with _Appended(local, limit_bytes) as target:
            try:
                ran = ssh_session.run(
                    self._site, COPY, argv, stdin=b"", out=target, err=words, timeout_s=timeout_s, quiet_s=QUIET_S
                )
            except _Enough:
                return target.count_bytes
            if isinstance(ran, NoAnswer):
                return ran
            if ran.rc == ssh_copy.ABSENT:
                raise NoSuchFile(path=f"{self._site.name}:{remote}")
            if ran.rc != 0:
                why = _why(Ended(rc=ran.rc, stdout=b"", stderr=bytes(words.kept)))
                raise NotCopied(path=local, detail=f"{self._site.name}:{remote}: {why}")
            target(b"")
            return target.count_bytes

    def _words(self, argv: list[str], source: bytes | BinaryIO, timeout_s: float) -> Ended | NoAnswer:
        out, err = Keep(WORDS_BYTES), Keep(WORDS_BYTES)
        ran = ssh_session.run(self._site, COPY, argv, stdin=source, out=out, err=err, timeout_s=timeout_s)
        return ran if isinstance(ran, NoAnswer) else Ended(rc=ran.rc, stdout=bytes(out.kept), stderr=bytes(err.kept))


class _Enough(Exception):
    """More came than was asked for."""


class _Appended:
    """A local file that is appended to, by `limit_bytes` at the most; made only when there is something to write."""

    def __init__(self, path: str, limit_bytes: int | None = None) -> None:
        self.count_bytes = 0
        self._path, self._limit_bytes = path, limit_bytes
        self._file: BinaryIO | None = None

    def __call__(self, data: bytes) -> None:
        if self._file is None:
            self._file = open(self._path, "ab")  # noqa: SIM115
        is_over = self._limit_bytes is not None and self.count_bytes + len(data) > self._limit_bytes
        if is_over and self._limit_bytes is not None:
            data = data[: self._limit_bytes - self.count_bytes]
        self._file.write(data)
        self.count_bytes += len(data)
        if is_over:
            raise _Enough

    def __enter__(self) -> _Appended:
        return self

    def __exit__(self, *error: object) -> None:
        if self._file:
            self._file.close()


def _why(ended: Ended) -> str:
    if ended.rc == ssh_copy.SHORT:
        return "fewer bytes arrived than the file has: it changed meanwhile"
    if ended.rc == ssh_copy.DAMAGED:
        return "the bytes there are not those that were sent, twice"
    lines = ended.stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[-1].rpartition(": ")[2] if lines else f"exit status {ended.rc}"
