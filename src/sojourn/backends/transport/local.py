"""This machine: argv in a child process, files by copying. The embedded default.

What a call leaves running keeps running: its process group is killed only on a timeout.
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
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import IO, BinaryIO

from sojourn.backends.bounds import QUIET_S, Flood, Keep, Pace, flooded
from sojourn.core.values import Ended, NoAnswer, Place
from sojourn.store import private
from sojourn.wire.errors import WorldError

_CHUNK = 1 << 16
_PIECE = 1 << 20
_WORDS_BYTES = 1 << 16
_LINGER_S = 0.5  # after the command has ended: for output still in its pipes, if a child it left holds them


class NoSuchFile(WorldError):
    """There is no file {path}."""

    code = "no-such-file"


class NotCopied(WorldError):
    """{path} cannot be written: {detail}."""

    code = "not-copied"


class Backend:
    """Transport to the machine we run on. Needs no settings."""

    is_here = True  # its disks are ours: what is home on one of them ends with the machine

    def __init__(self, place: Place | None = None) -> None:
        """The place is this machine."""

    def attach(self, argv: Sequence[str], has_terminal: bool) -> list[str]:
        """As in the port."""
        return list(argv)

    def call(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0, limit_bytes: int = 16 << 20
    ) -> Ended | NoAnswer:
        """Run argv here; see `core.ports.Transport`. A missing program ends with 127, as in a shell."""
        kept = Keep(limit_bytes)
        ended = self._run(argv, io.BytesIO(stdin), kept, timeout_s, limit_bytes, QUIET_S)
        if isinstance(ended, NoAnswer):
            return ended
        return replace(ended, stdout=bytes(kept.kept), truncated=ended.truncated or bool(kept.dropped_bytes))

    def stream(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | BinaryIO = b"",
        out: Callable[[bytes], None],
        timeout_s: float = 600.0,
        quiet_s: float = float("inf"),
    ) -> Ended | NoAnswer:
        """Run argv here; see `core.streams`."""
        source = io.BytesIO(stdin) if isinstance(stdin, bytes) else stdin
        return self._run(argv, source, out, timeout_s, _WORDS_BYTES, quiet_s)

    def _run(
        self,
        argv: Sequence[str],
        stdin: BinaryIO,
        out: Callable[[bytes], None],
        timeout_s: float,
        limit_bytes: int,
        quiet_s: float = float("inf"),
    ) -> Ended | NoAnswer:
        """Its output to `out`; keeps `limit_bytes` of its stderr."""
        began = time.monotonic()
        try:
            child = subprocess.Popen(
                list(argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            if not isinstance(error, (FileNotFoundError, NotADirectoryError, PermissionError)):
                detail = f"no process can be started here: {error.strerror}"
                return NoAnswer(sent=False, kind="no-process", detail=detail)
            rc = 126 if isinstance(error, PermissionError) else 127
            return Ended(rc, b"", f"{argv[0]}: {error.strerror}\n".encode())
        with child:
            err = Keep(limit_bytes)
            streams = _Streams(child, stdin, out, err, quiet_s)
            try:
                if not streams.run(began + timeout_s):
                    _kill_group(child)
                    waited_s = min(timeout_s, quiet_s)
                    return NoAnswer(sent=True, kind="timeout", detail=f"not finished within {waited_s:g} s: {argv[0]}")
            except Flood:
                _kill_group(child)
                return flooded(sent=True)
            except BaseException:
                _kill_group(child)
                raise
            finally:
                streams.close()
            rc = child.wait()
        return Ended(rc, b"", bytes(err.kept), time.monotonic() - began, bool(err.dropped_bytes))

    def put(self, local: str, remote: str, *, timeout_s: float = 600.0) -> None | NoAnswer:
        """Copy a file to `remote`; see `core.ports.Transport`. Raises: NoSuchFile, NotCopied."""
        aside = f"{remote}.{uuid.uuid4().hex}.tmp"
        if not os.path.isfile(local):
            raise NoSuchFile(path=local)
        try:
            private.folder(os.path.dirname(remote))
            with open(local, "rb") as source, open(aside, "xb", opener=_private) as out:
                os.fchmod(out.fileno(), 0o600 | os.fstat(source.fileno()).st_mode & 0o100)
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
            fd = os.open(remote, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe without a writer must not block
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
    """Bytes copied, at most `limit_bytes`; NoAnswer if it takes too long. Raises: OSError."""
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
    """The three pipes of a child, served together and never blocking on one of them."""

    def __init__(
        self,
        child: subprocess.Popen[bytes],
        stdin: BinaryIO,
        out: Callable[[bytes], None],
        err: Callable[[bytes], None],
        quiet_s: float,
    ) -> None:
        self._child = child
        self._source = stdin
        self._left = memoryview(b"")
        self._quiet_s = quiet_s
        self._selector = selectors.DefaultSelector()
        assert child.stdin and child.stdout and child.stderr
        self._open(child.stdout, selectors.EVENT_READ, out)
        self._open(child.stderr, selectors.EVENT_READ, err)
        self._open(child.stdin, selectors.EVENT_WRITE, None)

    def run(self, deadline: float) -> bool:
        """Move bytes until the child has ended and its pipes are empty; False if the deadline came first."""
        ended_at = None
        pace = Pace(self._quiet_s, time.monotonic())
        while True:
            now = time.monotonic()
            if now >= deadline or pace.is_quiet(now):
                return False
            if ended_at is None and self._child.poll() is not None:
                ended_at = now
            if not self._selector.get_map():
                break
            if ended_at is not None and now - ended_at >= _LINGER_S:
                return True
            pause = min(deadline - now, 0.05 if ended_at is None else _LINGER_S)
            for key, _ in self._selector.select(pause):
                pace.move(self._move(key), now)
        try:
            self._child.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        return True

    def close(self) -> None:
        """Close the pipes, whoever else holds them."""
        self._selector.close()
        for pipe in (self._child.stdin, self._child.stdout, self._child.stderr):
            if pipe and not pipe.closed:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _open(self, pipe: IO[bytes], events: int, sink: Callable[[bytes], None] | None) -> None:
        os.set_blocking(pipe.fileno(), False)
        self._selector.register(pipe, events, sink)

    def _move(self, key: selectors.SelectorKey) -> int:
        """The number of bytes that were moved."""
        if key.data is None:
            if not len(self._left):
                self._left = memoryview(self._source.read(_PIECE))
            try:
                sent = os.write(key.fd, self._left[:_CHUNK])
            except BlockingIOError:
                return 0
            except BrokenPipeError:  # it reads no further; its exit status says what that means
                self._shut(key)
                return 0
            self._left = self._left[sent:]
            if not len(self._left):
                self._left = memoryview(self._source.read(_PIECE))
                if not len(self._left):
                    self._shut(key)
            return sent
        part = os.read(key.fd, _CHUNK)
        if not part:
            self._shut(key)
            return 0
        key.data(part)
        return len(part)

    def _shut(self, key: selectors.SelectorKey) -> None:
        self._selector.unregister(key.fileobj)
        key.fileobj.close()  # type: ignore[union-attr]


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _kill_group(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
