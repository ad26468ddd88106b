"""Copying a file over any transport that runs commands: the near side of the programs in `ssh.copy`."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from typing import BinaryIO

from sojourn.backends.bounds import number
from sojourn.backends.ssh import copy as ssh_copy
from sojourn.backends.transport.local import NoSuchFile, NotCopied
from sojourn.core.values import Ended, NoAnswer

# Runs argv with this input, for so many seconds; what it prints is short.
Words = Callable[[list[str], "bytes | BinaryIO", float], "Ended | NoAnswer"]
# Runs argv without input, and gives what it prints to the sink; its Ended has stderr alone.
Streamed = Callable[[list[str], Callable[[bytes], None], float], "Ended | NoAnswer"]


def put(words: Words, box: str, local: str, remote: str, timeout_s: float) -> None | NoAnswer:
    """As `core.ports.Transport.put`; resumes an interrupted one. Creates folders; the file keeps its executable bit and
    is 0600 else.

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
            asked = words(["sh", "-c", ssh_copy.ASK, "sojourn", *what], b"", timeout_s)
            if isinstance(asked, NoAnswer):
                return asked
            if asked.stdout.strip() == b"whole":
                return None
            kept_bytes = number(asked.stdout.strip() or b"0")
            if kept_bytes is None or kept_bytes > size_bytes:
                raise NotCopied(path=f"{box}:{remote}", detail="the box does not say how much of it is there")
            block = kept_bytes // ssh_copy.BLOCK_BYTES
        for first in (block, 0):  # from the start again if the existing part was not ours
            source.seek(first * ssh_copy.BLOCK_BYTES)
            argv = ["sh", "-c", ssh_copy.STORE, "sojourn", *what, str(first), mode]
            stored = words(argv, source, max(1.0, timeout_s - (time.monotonic() - began)))
            if isinstance(stored, NoAnswer):
                return stored
            if stored.rc == 0:
                return None
            why = _why(stored)
            if stored.rc != ssh_copy.DAMAGED:
                break
    raise NotCopied(path=f"{box}:{remote}", detail=why)


def get(
    streamed: Streamed, box: str, remote: str, local: str, offset: int, timeout_s: float, limit_bytes: int | None
) -> int | NoAnswer:
    """As `core.ports.Transport.get`. After a NoAnswer the local file may have grown by good bytes: go on at its new
    size.

    Anything over `limit_bytes` is not written, and ends the transfer: a box may send for ever. Raises: NoSuchFile,
    NotCopied (unreadable), OSError (the local file).
    """
    argv = ["sh", "-c", ssh_copy.FETCH, "sojourn", remote, str(offset + 1)]
    with _Appended(local, limit_bytes) as target:
        try:
            ran = streamed(argv, target, timeout_s)
        except _Enough:
            return target.count_bytes
        if isinstance(ran, NoAnswer):
            return ran
        if ran.rc == ssh_copy.ABSENT:
            raise NoSuchFile(path=f"{box}:{remote}")
        if ran.rc != 0:
            raise NotCopied(path=local, detail=f"{box}:{remote}: {_why(ran)}")
        target(b"")
        return target.count_bytes


class _Enough(Exception):
    """More arrived than was requested."""


class _Appended:
    """A local file to append at most `limit_bytes` to; created only when there is something to write."""

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
        return "the bytes there differ from those that were sent, twice"
    lines = ended.stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[-1].rpartition(": ")[2] if lines else f"exit status {ended.rc}"
