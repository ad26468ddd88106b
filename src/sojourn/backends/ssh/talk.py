"""One ssh process from start to end: wait until our shell on the box listens, send it the command, split its streams.

The far shell prints a start mark on both streams before it reads anything, and the command's exit status with an end
mark after it. So login files may print anything, ssh's own 255 is never taken for the command's, and nothing at all has
been sent before the start mark: such a call may be repeated. Knows nothing of sites and retries.
"""

from __future__ import annotations

import io
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from sojourn.backends.bounds import FLOOD_BYTES, Flood, Pace, number

CHUNK_BYTES = 1 << 18
CHATTER_BYTES = 1 << 16
TAIL_BYTES = 4096
TICK_S = 0.25
LEAVE_S = 1.0  # how long ssh may take to exit by itself once the command has ended
TERM_S = 0.5
STATUS_BYTES = 3  # of an exit status, 0 to 255

Sink = Callable[[bytes], None]


class NotStarted(OSError):
    """The process could not be started."""

    def __str__(self) -> str:
        return f"no process can be started here: {self.strerror}"


@dataclass(frozen=True)
class Limits:
    """Seconds from the start: `ready_s` for the start mark, `total_s` in all; after the mark `quiet_s` without progress
    (`bounds.Pace`).
    """

    total_s: float
    ready_s: float = float("inf")
    quiet_s: float = float("inf")


@dataclass(frozen=True)
class Told:
    """The result of one ssh process. `rc` is the command's own status, `ssh_rc` ssh's; None if there was none."""

    why: str  # ended closed deadline not-ready quiet terminal garbled flood
    ready: bool  # the start mark arrived: from then on the far side may have received the command
    rc: int | None
    ssh_rc: int | None
    said: str  # stderr of ssh and the login files before our command
    tail: str  # the end of stderr if the command did not end: its own words, then perhaps ssh's
    chatter: str  # stdout of the login files
    seconds: float


def talk(
    argv: Sequence[str],
    nonce: str,
    program: bytes,
    stdin: bytes | BinaryIO,
    out: Sink,
    err: Sink,
    limits: Limits,
    is_shared: bool,
) -> Told:
    """Run ssh as `argv`, send `program` and `stdin` once the far side is ready, pass its streams to `out` and `err`.

    Blocks for at most `limits.total_s` and about two seconds; leaves no process behind. A `stdin` file is read from its
    current position. Raises: NotStarted (no ssh here, or no room for a process), and what reading `stdin` and the sinks
    raise.
    """
    began = time.monotonic()
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True, bufsize=0)
    except OSError as error:
        raise NotStarted(error.errno, error.strerror) from error
    ears = (_Ear(nonce, out), _Ear(nonce, err))
    why = "broken"
    try:
        why = _pump(process, ears, _Mouth(program, stdin), limits, began)
    finally:
        # The proxy command of a shared connection is in our process group, and outlives this call with its master.
        alone = is_shared and ears[0].began
        ssh_rc = _end(process, wait_s=LEAVE_S if why in ("ended", "closed") else 0.0, alone=alone)
    return Told(
        why=why,
        ready=ears[0].began,
        rc=ears[0].rc if why in ("ended", "closed") else None,
        ssh_rc=ssh_rc,
        said=_text(ears[1].before),
        tail=_text(ears[1].tail + ears[1].held),
        chatter=_text(ears[0].before),
        seconds=time.monotonic() - began,
    )


@dataclass
class _Ear:
    """One stream of the far side: chatter, then our command's bytes, then its status, then leftovers.

    Chatter and leftovers are bounded together; what the command says is bounded by its sink.
    """

    nonce: str
    sink: Sink
    began: bool = False
    is_terminal: bool = False  # lines end in CR LF: a terminal is in between, so bytes are altered
    rc: int | None = None
    before: bytearray = field(default_factory=bytearray)
    held: bytearray = field(default_factory=bytearray)
    is_garbled: bool = False  # the end mark has no exit status: something in between alters bytes, or the box lies
    stray_bytes: int = 0
    tail: bytes = b""  # the last lines of a command that has not ended: ssh may have added its own

    def feed(self, data: bytes) -> None:
        """Take the next bytes. A possible start of the end mark is held back until it is clear.

        Raises: Flood; and what the sink raises.
        """
        if not self.began or self.rc is not None:
            self.stray_bytes += len(data)
            if self.stray_bytes > FLOOD_BYTES:
                raise Flood
        if not self.began:
            self.before += data
            mark = self.nonce.encode() + b" ready"
            at = self.before.find(mark)
            end = self.before.find(b"\n", at) if at >= 0 else -1
            if end < 0:
                del self.before[:-CHATTER_BYTES]
                return
            self.began, self.is_terminal = True, self.before[at + len(mark) : end] == b"\r"
            data = bytes(self.before[end + 1 :])
            del self.before[at:]
        if self.rc is not None:
            return
        self.held += data
        mark = b"\n" + self.nonce.encode() + b" end "
        at = self.held.find(mark)
        end = self.held.find(b"\n", at + len(mark)) if at >= 0 else -1
        if at >= 0 and (end >= 0 or len(self.held) > at + len(mark) + STATUS_BYTES):
            status = bytes(self.held[at + len(mark) : end]) if end >= 0 else b""
            self.rc = number(status) if len(status) <= STATUS_BYTES else None
            self.is_garbled = self.rc is None or self.rc > 255
            self._give(at)
            self.held.clear()
            self.tail = b""
        elif at < 0:
            line = self.held.rfind(b"\n", max(0, len(self.held) - len(mark)))
            self._give(line if line >= 0 else len(self.held))

    def _give(self, count: int) -> None:
        if count:
            piece = bytes(self.held[:count])
            del self.held[:count]
            self.tail = (self.tail + piece[-TAIL_BYTES:])[-TAIL_BYTES:]
            self.sink(piece)


class _Mouth:
    """Data to send, in pieces."""

    def __init__(self, program: bytes, stdin: bytes | BinaryIO) -> None:
        self._piece = memoryview(program)
        self._rest = io.BytesIO(stdin) if isinstance(stdin, bytes) else stdin

    def send(self, fd: int) -> int:
        """Bytes that the pipe accepted now, -1 when everything is sent or nobody reads it any more."""
        if not self._piece:
            self._piece = memoryview(self._rest.read(CHUNK_BYTES))
        if not self._piece:
            return -1
        try:
            sent = os.write(fd, self._piece)
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            return -1
        self._piece = self._piece[sent:]
        return sent


def _pump(
    process: subprocess.Popen[bytes], ears: tuple[_Ear, _Ear], mouth: _Mouth, limits: Limits, began: float
) -> str:
    assert process.stdin and process.stdout and process.stderr
    speaking = False  # stdin is watched only after the start mark
    pace = Pace(limits.quiet_s, began)
    ended_at = 0.0
    with selectors.DefaultSelector() as pipes:
        for ear, pipe in zip(ears, (process.stdout, process.stderr), strict=True):
            os.set_blocking(pipe.fileno(), False)
            pipes.register(pipe, selectors.EVENT_READ, ear)
        os.set_blocking(process.stdin.fileno(), False)
        while pipes.get_map():
            now = time.monotonic()
            if ears[0].rc is not None:
                ended_at = ended_at or now
                if ears[1].rc is not None or now - ended_at > LEAVE_S:
                    return "ended"
            if now - began > limits.total_s:
                return "deadline"
            if not ears[0].began and now - began > limits.ready_s:
                return "not-ready"
            if ears[0].began and pace.is_quiet(now):
                return "quiet"
            # A process left by ssh (a shared master of some versions, a proxy command) may hold our pipes open.
            gone = process.poll() is not None
            events = pipes.select(0.0 if gone else min(TICK_S, max(0.01, began + limits.total_s - now)))
            for key, _ in events:
                if key.data is None:
                    sent = mouth.send(key.fd)
                    pace.move(max(0, sent), now)
                    if sent < 0:
                        pipes.unregister(key.fileobj)
                        process.stdin.close()
                    continue
                data = _read(key.fd)
                if data:
                    pace.move(len(data), now)
                    try:
                        key.data.feed(data)
                    except Flood:
                        return "flood"
                    if key.data.is_garbled:
                        return "garbled"
                elif data is not None:
                    pipes.unregister(key.fileobj)
            if gone and not [key for key, _ in events if key.data is not None]:
                break
            if ears[0].began and not speaking:
                if ears[0].is_terminal:
                    return "terminal"
                speaking = True
                pipes.register(process.stdin, selectors.EVENT_WRITE)
    return "ended" if ears[0].rc is not None else "closed"


def _read(fd: int) -> bytes | None:
    try:
        return os.read(fd, CHUNK_BYTES)
    except BlockingIOError:
        return None


def _end(process: subprocess.Popen[bytes], wait_s: float, alone: bool) -> int | None:
    """Close our ends, wait, and end the process, with its group unless `alone`, if it does not exit by itself."""
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            pipe.close()
    try:
        return process.wait(wait_s)
    except subprocess.TimeoutExpired:
        pass
    for word in (signal.SIGTERM, signal.SIGKILL):
        try:
            (os.kill if alone else os.killpg)(process.pid, word)
        except ProcessLookupError:
            break
        try:
            process.wait(TERM_S)
            break
        except subprocess.TimeoutExpired:
            continue
    process.wait()
    return None


def _text(data: bytes | bytearray) -> str:
    return data.decode("utf-8", "replace").replace("\r", "").strip()
