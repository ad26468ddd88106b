"""This machine: argv through a child process of ours, files by copying. The embedded default.

What is left running keeps running: a call's process group is killed only when the call ran out of time.
"""

from __future__ import annotations

import contextlib
import io
import os
import selectors
import shutil
import signal
import stat
import subprocess
import time
import uuid
from collections.abc import Sequence
from typing import IO, BinaryIO

from sojourn.core.values import Ended, NoAnswer, Place
from sojourn.wire.errors import WorldError

_CHUNK = 1 << 16
_PIECE = 1 << 20
_LINGER_S = 0.5  # after the command itself has ended: for what is still in its pipes, when a child it left holds them


class NoSuchFile(WorldError):
    """There is no file {path}."""

    code = "no-such-file"


class NotCopied(WorldError):
    """{path} cannot be written: {detail}."""

    code = "not-copied"


class Backend:
    """Transport to the machine we run on. Needs no settings."""

    def __init__(self, place: Place | None = None) -> None:
        """It is where we are."""

    def call(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0, limit_bytes: int = 16 << 20
    ) -> Ended | NoAnswer:
        """Run argv here; see `core.ports.Transport`. A program that is not there ends with 127, as in a shell."""
        began = time.monotonic()
        try:
            child = subprocess.Popen(
                list(argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
            rc = 126 if isinstance(error, PermissionError) else 127
            return Ended(rc, b"", f"{argv[0]}: {error.strerror}\n".encode())
        with child:
            streams = _Streams(child, stdin, limit_bytes)
            try:
                if not streams.run(began + timeout_s):
                    _kill_group(child)
                    return NoAnswer(sent=True, kind="timeout", detail=f"no end within {timeout_s:g} s: {argv[0]}")
            except BaseException:
                _kill_group(child)
                raise
            finally:
                streams.close()
            rc = child.wait()
        return Ended(rc, bytes(streams.out), bytes(streams.err), time.monotonic() - began, streams.truncated)

    def put(self, local: str, remote: str, *, timeout_s: float = 600.0) -> None | NoAnswer:
        """Copy a file to `remote`; see `core.ports.Transport`. Raises: NoSuchFile, NotCopied."""
        aside = f"{remote}.{uuid.uuid4().hex}.tmp"
        if not os.path.isfile(local):
            raise NoSuchFile(path=local)
        try:
            os.makedirs(os.path.dirname(remote), exist_ok=True)
            with open(local, "rb") as source, open(aside, "xb") as out:
                shutil.copyfileobj(source, out, 1 << 20)
                out.flush()
                os.fsync(out.fileno())
            os.replace(aside, remote)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(aside)
            raise NotCopied(path=remote, detail=error.strerror or str(error)) from error
        return None

    def get(
        self, remote: str, local: str, *, offset: int = 0, timeout_s: float = 600.0, limit_bytes: int | None = None
    ) -> int | NoAnswer:
        """Append `remote` from `offset` on to `local`; see `core.ports.Transport`. Raises: NoSuchFile, NotCopied."""
        try:
            fd = os.open(remote, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe without a writer blocks nobody
        except OSError as error:
            raise NoSuchFile(path=remote) from error
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise NoSuchFile(path=remote)
        with open(fd, "rb", buffering=0) as source:
            source.seek(offset)
            try:
                with open(local, "ab") as out:
                    return _copy(source, out, timeout_s, limit_bytes)
            except OSError as error:
                raise NotCopied(path=local, detail=error.strerror or str(error)) from error


def _copy(source: io.FileIO, out: BinaryIO, timeout_s: float, limit_bytes: int | None) -> int | NoAnswer:
    """Bytes copied, `limit_bytes` at the most; NoAnswer where they take longer than that. Raises: OSError."""
    began_s, count = time.monotonic(), 0
    while limit_bytes is None or count < limit_bytes:
        piece = source.read(_PIECE if limit_bytes is None else min(_PIECE, limit_bytes - count))
        if not piece:
            break
        out.write(piece)
        count += len(piece)
        if time.monotonic() - began_s > timeout_s:
            return NoAnswer(sent=True, kind="timeout", detail=f"not copied within {timeout_s:g} s")
    return count


class _Streams:
    """The three pipes of a child, moved at once and never blocking on one of them."""

    def __init__(self, child: subprocess.Popen[bytes], stdin: bytes, limit_bytes: int) -> None:
        self.out = bytearray()
        self.err = bytearray()
        self.truncated = False
        self._child = child
        self._left = memoryview(stdin)
        self._limit_bytes = limit_bytes
        self._selector = selectors.DefaultSelector()
        assert child.stdin and child.stdout and child.stderr
        self._open(child.stdout, selectors.EVENT_READ, self.out)
        self._open(child.stderr, selectors.EVENT_READ, self.err)
        if stdin:
            self._open(child.stdin, selectors.EVENT_WRITE, None)
        else:
            child.stdin.close()

    def run(self, deadline: float) -> bool:
        """Move bytes until the child has ended and its pipes are empty; False where the deadline came first."""
        ended_at = None
        while True:
            now = time.monotonic()
            if now >= deadline:
                return False
            if ended_at is None and self._child.poll() is not None:
                ended_at = now
            if not self._selector.get_map():
                break
            if ended_at is not None and now - ended_at >= _LINGER_S:
                return True
            pause = min(deadline - now, 0.05 if ended_at is None else _LINGER_S)
            for key, _ in self._selector.select(pause):
                self._move(key)
        try:
            self._child.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        return True

    def close(self) -> None:
        """Let go of the pipes, whoever else holds them."""
        self._selector.close()
        for pipe in (self._child.stdin, self._child.stdout, self._child.stderr):
            if pipe and not pipe.closed:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _open(self, pipe: IO[bytes], events: int, sink: bytearray | None) -> None:
        os.set_blocking(pipe.fileno(), False)
        self._selector.register(pipe, events, sink)

    def _move(self, key: selectors.SelectorKey) -> None:
        if key.data is None:
            try:
                self._left = self._left[os.write(key.fd, self._left[:_CHUNK]) :]
            except BrokenPipeError:  # it does not want to read more; its exit status says what that means
                self._left = self._left[:0]
            if not len(self._left):
                self._shut(key)
            return
        part = os.read(key.fd, _CHUNK)
        if not part:
            self._shut(key)
            return
        room = self._limit_bytes - len(key.data)
        key.data.extend(part[:room])
        self.truncated = self.truncated or len(part) > room

    def _shut(self, key: selectors.SelectorKey) -> None:
        self._selector.unregister(key.fileobj)
        key.fileobj.close()  # type: ignore[union-attr]


def _kill_group(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
