"""Loads artifacts in processes of their own, each bounded in time and all together in memory; one serves many files.

So a hostile or broken file cannot take us with it, and files that Python itself must read are read on all cores.
PyTorch (1.5 s and 150 MiB to import) is imported in one process only, where a file needs it: the others ask it through
us.
"""

from __future__ import annotations

import json
import os
import queue
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any

import sojourn
from sojourn import backends
from sojourn.backends.proof import judge, loading_child
from sojourn.backends.proof.judge import Judgement

MEMORY_BYTES = 512 << 20  # anonymous memory of all of them; no loader needs more, however large the tensors are
PROCESSES = 12  # at most: each takes some 20 MiB before it has read anything, and PyTorch's 150 MiB
TIME_S = 120.0  # for one file, and
SLOWEST_BYTES_PER_S = 2_000_000  # this much more for each of its bytes
_LOOK_S = 0.02
_LEAVE_S = 5.0
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


class Loading:
    """Up to `processes` of them (12 at most), and one for PyTorch; started when needed. Leaving it ends them all.

    They share `memory_bytes`: where it is short, the one that takes most is ended and its file is loaded again alone.
    A context manager. Thread-safe.
    """

    def __init__(self, processes: int, *, memory_bytes: int = MEMORY_BYTES, time_s: float = TIME_S) -> None:
        self._memory_bytes, self._time_s = memory_bytes, time_s
        self._count = min(processes, PROCESSES)
        self._turns = threading.Semaphore(self._count)
        self._alone = threading.Lock()
        self._idle: queue.LifoQueue[_Child] = queue.LifoQueue()
        self._children: set[_Child] = set()
        self._torch: _Child | None = None
        self._torch_turn = threading.Lock()
        self._is_left = False
        # Where they unpack what lies in archives: it goes with us, also where one was ended in the middle of it.
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        with suppress(OSError):  # no room for it: then they have none either, and look into nothing
            self._folder = tempfile.TemporaryDirectory(prefix="sojourn-", ignore_cleanup_errors=True)

    def __enter__(self) -> Loading:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._is_left = True
        for child in list(self._children):
            child.end()
        if self._folder:
            self._folder.cleanup()

    def judge(
        self,
        path: str,
        name: str,
        size_bytes: int,
        beside: Mapping[str, str] | None = None,
        *,
        tick: Callable[[int], None] | None = None,
    ) -> Judgement:
        """`judge_file` of the file in another process, within `time_s` and what its size adds; with its sha256, but
        where that process came to its end. `tick` is told how many bytes were read, now and then. Raises: OSError.
        """
        asked = {"path": os.path.abspath(path), "name": name, "beside": beside and dict(beside)}
        limit_s = self._time_s + size_bytes / SLOWEST_BYTES_PER_S
        with self._turns:
            try:
                found = self._ask(asked, limit_s, tick, is_alone=False)
            except _Gone as gone:
                if not gone.is_memory:
                    return _unloaded(name, gone, size_bytes)
                found = None
        if found is None:
            # It may have been too much only together with others, or the system was short of memory: once more, alone.
            with self._nobody_else():
                try:
                    found = self._ask(asked, limit_s, tick, is_alone=True)
                except _Gone as gone:
                    return _unloaded(name, gone, size_bytes)
        if "errno" in found:
            raise OSError(found["errno"], found["strerror"], path)
        if "failed" in found:
            return _unloaded(name, _Gone(found["problem"], found["failed"]), size_bytes)
        for key in ("proved", "remarks", "hashed"):
            found[key] = tuple(found[key])
        return Judgement(**found)

    def _ask(
        self, asked: dict[str, Any], limit_s: float, tick: Callable[[int], None] | None, *, is_alone: bool
    ) -> dict[str, Any]:
        """One process's answer. Raises: _Gone."""
        child = self._next()
        try:
            found = child.ask(asked, limit_s, lambda: self._check(child, is_alone), self._said(tick), self._weights)
        except BaseException:
            self._end(child)
            raise
        if "failed" in found:
            self._end(child)  # it ends by itself, and must not be given another file until it has
            if found.get("problem") == "unsafe" and not is_alone:
                raise _Gone("unsafe", found["failed"], is_memory=True)
        else:
            self._idle.put(child)
        return found

    def _said(self, tick: Callable[[int], None] | None) -> Callable[[dict[str, Any]], None]:
        """What to do with what a process says before it answers."""

        def hear(said: dict[str, Any]) -> None:
            if "read" in said and tick:
                tick(said["read"])
            if "expect" in said and self._torch_turn.acquire(blocking=False):
                try:
                    self._with_torch()
                finally:
                    self._torch_turn.release()

        return hear

    def _with_torch(self) -> _Child:
        """The process that has imported PyTorch, or is at it. Only in its turn. Raises: _Gone."""
        if self._torch is None or not self._torch.is_alive:
            self._torch = self._start("weights")
        return self._torch

    def _weights(self, asked: dict[str, Any], limit_s: float) -> dict[str, Any]:
        """PyTorch's answer about a file, as `loading_child` gives it; what ends its process is that file's problem."""
        with self._torch_turn:
            child = self._with_torch()
            try:
                found = child.ask(
                    asked, limit_s, lambda: self._check(child, is_alone=False), lambda said: None, self._weights
                )
            except _Gone as gone:
                self._end(child)
                return {"problem": gone.problem, "why": gone.why, "is_memory": gone.is_memory}
            if "failed" in found:
                self._end(child)
                return {"problem": found["problem"], "why": found["failed"]}
            if "errno" in found:
                return {"problem": "corrupt", "why": f"PyTorch cannot read it: {found['strerror']}"}
            return found

    def _check(self, child: _Child, is_alone: bool) -> None:
        """Raises: _Gone where all together take too much memory and this one takes most of it."""
        child.anonymous_bytes = _anonymous_bytes(child.pid)
        every = list(self._children)
        if sum(other.anonymous_bytes for other in every) <= self._memory_bytes:
            return
        largest = max(every, key=lambda other: other.anonymous_bytes)
        if largest is not child and not is_alone:
            if not largest.is_busy:
                self._end(largest)
            return
        why = f"loading it took more than {self._memory_bytes >> 20} MiB of memory and was ended"
        raise _Gone("unsafe", why, is_memory=True)

    @contextmanager
    def _nobody_else(self) -> Iterator[None]:
        """Every turn at once, and no idle process that takes memory."""
        with self._alone:
            for _ in range(self._count):
                self._turns.acquire()
            try:
                with self._torch_turn:
                    if self._torch is not None:
                        self._end(self._torch)
                        self._torch = None
                while not self._idle.empty():
                    self._end(self._idle.get_nowait())
                yield
            finally:
                self._turns.release(self._count)

    def _next(self) -> _Child:
        """An idle process that lives (one that died while idle says nothing about any file), or a new one."""
        while True:
            try:
                child = self._idle.get_nowait()
            except queue.Empty:
                return self._start()
            if child.is_alive:
                return child
            self._end(child)

    def _start(self, *words: str) -> _Child:
        try:
            child = _Child(self._folder.name if self._folder else "", *words)
        except OSError as error:
            raise _Gone("unsupported", f"no process could be started to load it: {error.strerror or error}") from error
        self._children.add(child)
        if self._is_left:
            self._end(child)
        return child

    def _end(self, child: _Child) -> None:
        child.end()
        self._children.discard(child)


class _Gone(Exception):
    """The process is no more, or had to be ended: what that says about the file it was loading.

    is_memory: it may have been memory that others took. is_time: it was reading, and did not come to its end.
    """

    def __init__(self, problem: str, why: str, *, is_memory: bool = False, is_time: bool = False) -> None:
        super().__init__(why)
        self.problem, self.why, self.is_memory, self.is_time = problem, why, is_memory, is_time


class _Child:
    """One process and the bytes it answered so far. Raises: OSError where it cannot be started."""

    def __init__(self, temporary: str, *words: str) -> None:
        ours = os.path.dirname(os.path.dirname(os.path.abspath(sojourn.__file__)))
        folders = os.pathsep.join([ours, *backends.folders("loader")])
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-B", os.path.abspath(loading_child.__file__), folders, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **_ENVIRONMENT, **({"TMPDIR": temporary} if temporary else {})},
        )
        self.pid = self._process.pid
        self.anonymous_bytes = 0
        self.is_busy = False
        self._heard = b""

    @property
    def is_alive(self) -> bool:
        """It has not ended."""
        return self._process.poll() is None

    def ask(
        self,
        asked: Mapping[str, Any],
        limit_s: float,
        check: Callable[[], None],
        hear: Callable[[dict[str, Any]], None],
        weights: Callable[[dict[str, Any], float], dict[str, Any]],
    ) -> dict[str, Any]:
        """Its answer about one file. `check` is called every now and then, `hear` with what it says meanwhile;
        `weights` answers what it asks PyTorch.

        Raises: _Gone.
        """
        deadline = time.monotonic() + limit_s
        self.is_busy = True
        self._say(asked)
        while True:
            found = self._line(deadline, limit_s, check)
            if "read" in found or "expect" in found:
                hear(found)
                continue
            if "weights" not in found:
                self.is_busy = False
                return found
            began_s = time.monotonic()
            answer = weights(found, limit_s)
            deadline += time.monotonic() - began_s  # waiting for its turn is not this file's time
            if answer.get("is_memory"):
                raise _Gone(answer["problem"], answer["why"], is_memory=True)
            self._say(answer)

    def _say(self, value: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(value).encode("ascii") + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._gone() from None

    def _line(self, deadline: float, limit_s: float, check: Callable[[], None]) -> dict[str, Any]:
        assert self._process.stdout is not None
        out = self._process.stdout.fileno()
        ear = select.poll()
        ear.register(out, select.POLLIN)
        while b"\n" not in self._heard:
            if ear.poll(_LOOK_S * 1000):
                part = os.read(out, 1 << 16)
                if not part:
                    raise self._gone()
                self._heard += part
                continue
            check()
            if time.monotonic() > deadline:
                raise _Gone("unsupported", f"reading it took more than {limit_s:.0f} s and was ended", is_time=True)
        line, _, self._heard = self._heard.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found

    def _gone(self) -> _Gone:
        rc = self._process.wait()
        if rc == -9:  # the system's way to end what takes too much memory; we did not do it
            why = "the process that loaded it was killed (signal 9), as the system does when it is short of memory"
            return _Gone("unsupported", why, is_memory=True)
        how = f"signal {-rc}" if rc < 0 else f"exit status {rc}"
        return _Gone("corrupt", f"the process that loaded it died of it ({how})")

    def end(self) -> None:
        """Kill it: it holds nothing that anyone needs. Idempotent. One that hangs in the kernel, as on a file system
        that does not answer, is left there after a moment.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.kill()
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass  # it is gone, which is what we want
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_LEAVE_S)
        self._process.stdout.close()


def _unloaded(name: str, gone: _Gone, size_bytes: int) -> Judgement:
    """Where reading it took too long it is not read once more for its sha256."""
    kind, loader = judge.kind_by_name(name)
    hashed = (size_bytes, "") if gone.is_time else None
    return Judgement(kind, loader, problem=gone.problem, detail=gone.why, hashed=hashed)


def _anonymous_bytes(pid: int) -> int:
    """Memory that is the process's own (a mapped file is not). 0 where the system has no /proc to say it: no bound."""
    try:
        with open(f"/proc/{pid}/status", "rb") as f:
            for line in f:
                if line.startswith(b"RssAnon:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        return 0
    return 0
