"""The training's side of the writer process: start it, pass it checkpoints, receive the results, end it."""

from __future__ import annotations

import json
import math
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from typing import Any

import sojourn
from sojourn.formats import crc
from sojourn.formats.torch.write import Plan
from sojourn.train.preempt import SIGNALS
from sojourn.train.run_env import say
from sojourn.train.saving import shared_memory, writer

FLUSH_S = 600.0  # at exit, for a write under way
_LEAVE_S = 5.0
_TELL_S = 30.0
_NOT_FOR_IT = {*SIGNALS, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR2, signal.SIGTSTP}
_all: weakref.WeakSet[Background] = weakref.WeakSet()


class WriterEnded(OSError):
    """The writer process is gone; `strerror` says how it ended."""


class Background:
    """A writer process with the memory it shares with us. At most one request at a time.

    Ends with this object or the process, after answering any request under way (or after `FLUSH_S`).   Raises: OSError
    if there is no such process or memory.
    """

    def __init__(self) -> None:
        if not shared_memory.is_possible() or not sys.executable:
            raise OSError(0, "no shared memory, or no Python to start")
        self.arena = shared_memory.Arena()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._link = _Link(_start(theirs.fileno(), self.arena.fd), ours)
        except BaseException:
            self.arena.close()
            ours.close()
            raise
        finally:
            theirs.close()
        self._finalizer = weakref.finalize(self, self._link.end, self.arena)
        _all.add(self)

    @property
    def is_busy(self) -> bool:
        """A request is under way."""
        return self._link.is_busy

    def reserve(self, size_bytes: int) -> None:
        """Request that much shared memory; a thread maps and touches it as soon as it is there, `receive` reports it.

        Raises: WriterEnded.
        """
        self._link.send({"op": "reserve", "bytes": size_bytes})
        self._link.await_memory(self.arena, size_bytes)

    def save(self, plan: Plan, request: dict[str, Any]) -> None:
        """Copy the state into the shared memory, which is large enough; writing starts meanwhile.

        Raises: WriterEnded; ValueError (the state changed size), and then nothing is written.
        """
        self._link.send(dict(request, op="save", bytes=plan.bytes, outline=self.arena.outline(plan)))
        try:
            self.arena.fill(plan, self._link.copied)
        except BaseException:
            self._link.copied(None)
            try:
                self._link.receive(None)
            except WriterEnded:
                pass  # the next save also notices
            raise

    def receive(self, timeout_s: float | None = 0.0) -> dict[str, Any] | None:
        """The answer to the request under way; None if not yet there. `timeout_s` None: wait for it.

        Raises: WriterEnded.
        """
        return self._link.receive(timeout_s)

    def close(self) -> None:
        """End the writer, after any request under way. Idempotent."""
        self._finalizer()


class _Link:
    """What it takes to end the writer once the Background is gone."""

    def __init__(self, process: subprocess.Popen[bytes], channel: socket.socket) -> None:
        self.process, self.channel, self.is_busy, self.owner = process, channel, False, os.getpid()
        self.memory: _Memory | None = None  # on its way

    def send(self, message: dict[str, Any]) -> None:
        if self.owner != os.getpid():
            raise WriterEnded(0, "the writer belongs to another process")
        assert not self.is_busy
        try:
            self.channel.send(json.dumps(message).encode("utf-8"))
        except OSError as e:
            raise self.ended() from e
        self.is_busy = True

    def copied(self, count: int | None) -> None:
        """So many bytes of the state to save are copied now; None: no more will come."""
        try:
            self.channel.send(json.dumps({"copied": count}).encode("utf-8"))
        except OSError:
            pass  # the writer is gone, which `receive` reports

    def await_memory(self, arena: shared_memory.Arena, size_bytes: int) -> None:
        """From now on, `receive` returns once `arena` has adopted so much, or why it has not."""
        self.memory = _Memory(self, arena, size_bytes)

    def receive(self, timeout_s: float | None) -> dict[str, Any] | None:
        """The next answer; None if it is not there in time."""
        if self.memory is None:
            return self.hear(timeout_s)
        answer = self.memory.receive(timeout_s)
        if answer is not None:
            self.memory = None
        return answer

    def hear(self, timeout_s: float | None) -> dict[str, Any] | None:
        """The next packet of the writer."""
        word = select.poll()  # select() cannot handle descriptors above 1023, and a loader may hold many
        word.register(self.channel, select.POLLIN)
        if not word.poll(None if timeout_s is None else math.ceil(timeout_s * 1000)):
            return None
        self.is_busy = False
        try:
            packet = self.channel.recv(writer.PACKET_BYTES)
        except OSError as e:
            raise self.ended() from e
        if not packet:
            raise self.ended()
        answer: dict[str, Any] = json.loads(packet.decode("utf-8"))
        return answer

    def ended(self) -> WriterEnded:
        """The error that describes how the writer ended."""
        try:
            rc: int | None = self.process.wait(timeout=_LEAVE_S)
        except subprocess.TimeoutExpired:
            rc = None
        how = f"signal {-rc}" if rc is not None and rc < 0 else f"exit status {rc}"
        return WriterEnded(0, f"the process that writes ended ({how})")

    def end(self, memory: shared_memory.Arena) -> None:
        if self.owner != os.getpid():
            return
        if self.memory is not None:  # nobody needs it any more
            self.process.kill()
            self.memory.join()
        elif self.is_busy:
            try:
                answer = self.receive(FLUSH_S)
                if answer is None or not answer["ok"]:
                    detail = "no answer in ten minutes" if answer is None else answer.get("detail", "superseded")
                    say(f"the last checkpoint is NOT SAVED: {detail}")
            except WriterEnded as e:
                say(f"the last checkpoint is NOT SAVED: {e.strerror}")
        self.channel.close()
        try:
            self.process.wait(timeout=_LEAVE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        memory.close()


class _Memory:
    """Memory on its way: `arena` adopts it in a thread, so it is touched while the training does other things."""

    def __init__(self, link: _Link, arena: shared_memory.Arena, size_bytes: int) -> None:
        self._link, self._arena, self._bytes = link, arena, size_bytes
        self._answer: dict[str, Any] | None = None
        self._error: WriterEnded | None = None
        self._thread: threading.Thread | None = threading.Thread(target=self._wait, args=(None,), daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            self._thread = None  # no thread available: it is adopted when it is asked for

    def receive(self, timeout_s: float | None) -> dict[str, Any] | None:
        if self._thread is None:
            self._wait(timeout_s)
        else:
            self._thread.join(timeout_s)
        if self._error is not None:
            raise self._error
        return self._answer

    def join(self) -> None:
        """Wait until the arena is left alone."""
        if self._thread is not None:
            self._thread.join()

    def _wait(self, timeout_s: float | None) -> None:
        try:
            answer = self._link.hear(timeout_s)
            if answer is not None and answer["ok"]:
                self._arena.adopt(self._bytes)
            self._answer = answer
        except WriterEnded as e:
            self._error = e
        except OSError as e:  # this process may not have that much
            self._answer = {"ok": False, "detail": e.strerror or str(e)}


def _start(channel: int, memory: int) -> subprocess.Popen[bytes]:
    """The writer: a new program, so it inherits nothing of CUDA, threads or handlers.

    Signals meant for the training are blocked before it starts, and it never unblocks them: at no moment could one sent
    to the whole process group end it.
    """
    root = os.path.dirname(os.path.dirname(os.path.abspath(sojourn.__file__ or "")))
    is_main = threading.current_thread() is threading.main_thread()
    tail = [str(channel), str(memory), str(os.getpid()), str(int(is_main)), "sojourn-writer"]
    null = subprocess.DEVNULL
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _NOT_FOR_IT)
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", writer.START, root, crc.FOLDER, *tail],
            stdin=null, stdout=null, stderr=null, pass_fds=(channel, memory),
        )  # fmt: skip
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _in_child() -> None:
    """A forked child (a worker of a loader) must not keep the socket, nor end or use the writer."""
    for background in list(_all):
        background._link.channel.close()
        background._finalizer.detach()


os.register_at_fork(after_in_child=_in_child)


def wait(background: Background, what: str, limit_s: float = math.inf) -> dict[str, Any]:
    """The answer to the request under way; reports every half minute that it is still waiting.

    Raises: WriterEnded, also after `limit_s`.
    """
    began_s = time.monotonic()
    while True:
        answer = background.receive(min(_TELL_S, limit_s))
        if answer is not None:
            return answer
        spent_s = time.monotonic() - began_s
        if spent_s >= limit_s:
            raise WriterEnded(0, f"no {what} within {limit_s:.0f} s")
        say(f"still waiting for {what}: {spent_s:.0f} s")
