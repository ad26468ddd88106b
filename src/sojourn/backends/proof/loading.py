"""Loads artifacts in separate processes, each bounded in time and all together in memory; one serves many files.

So a hostile or broken file cannot take us down, and files that Python itself must read are read on all cores. PyTorch
(1.5 s and 150 MiB to import) is imported in only one process, when a file needs it: the others ask it through us.
"""

from __future__ import annotations

import os
import queue
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any

from sojourn.backends.proof import judge
from sojourn.backends.proof.judge import Judgement
from sojourn.backends.proof.loading_process import Gone, LoadingProcess, anonymous_bytes

MEMORY_BYTES = 512 << 20  # anonymous memory of all together; no loader needs more, however large the tensors
PROCESSES = 12  # at most: each takes some 20 MiB before reading anything, and PyTorch's 150 MiB
TIME_S = 120.0  # for one file, and
SLOWEST_BYTES_PER_S = 2_000_000  # this much more time for its size
Many = list["Judgement | None"]


class Loading:
    """Up to `processes` of them (12 at most), and one for PyTorch; started when needed. Leaving it ends them all.

    They share `memory_bytes`: if it runs short, the largest is ended and its file is loaded again alone. A context
    manager. Thread-safe.
    """

    def __init__(self, processes: int, *, memory_bytes: int = MEMORY_BYTES, time_s: float = TIME_S) -> None:
        self._memory_bytes, self._time_s = memory_bytes, time_s
        self._count = min(processes, PROCESSES)
        self._turns = threading.Semaphore(self._count)
        self._alone = threading.Lock()
        self._idle: queue.LifoQueue[LoadingProcess] = queue.LifoQueue()
        self._children: set[LoadingProcess] = set()
        self._torch: LoadingProcess | None = None
        self._torch_turn = threading.Lock()
        self._is_left = False
        # Where they unpack nested files: removed with us, even after one was ended halfway.
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        with suppress(OSError):  # no room for it: then they have none either, and skip nested files
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
        """`judge_file` of the file in another process, within `time_s` plus an allowance for its size; with its sha256,
        unless that process was ended. `tick` gets the number of bytes read, now and then. Raises: OSError.
        """
        asked = {"path": os.path.abspath(path), "name": name, "beside": beside and dict(beside)}
        limit_s = self._time_s + size_bytes / SLOWEST_BYTES_PER_S
        with self._turns:
            try:
                found = self._ask(asked, limit_s, tick, is_alone=False)
            except Gone as gone:
                if not gone.is_memory:
                    return _unloaded(name, gone, size_bytes)
                found = None
        if found is None:
            # Perhaps it was too much only together with others, or the system was short of memory: once more, alone.
            with self._nobody_else():
                try:
                    found = self._ask(asked, limit_s, tick, is_alone=True)
                except Gone as gone:
                    return _unloaded(name, gone, size_bytes)
        if "errno" in found:
            raise OSError(found["errno"], found["strerror"], path)
        if "failed" in found:
            return _unloaded(name, Gone(found["problem"], found["failed"]), size_bytes)
        return _judgement(found)

    def judge_many(self, files: Sequence[tuple[str, str]], *, tick: Callable[[int], None] | None = None) -> Many:
        """As `judge`, of small files (path, name) by one process in one question: a question for each costs more than
        such a file. None in place of what was not judged so: to be judged alone.
        """
        asked = [{"path": os.path.abspath(path), "name": name, "beside": None} for path, name in files]
        found: Many = []
        with self._turns:
            try:
                child = self._next()
            except Gone:
                return [None] * len(files)
            try:
                for said in child.ask_many(
                    asked, self._time_s, lambda: self._check(child, False), self._said(tick), self._weights
                ):
                    if "failed" in said:
                        break  # perhaps for want of memory: alone it gets its own word
                    found.append(None if "errno" in said else _judgement(said))
            except Gone:
                pass  # the file it was at is named when it is judged alone
            finally:
                if len(found) == len(files):
                    self._idle.put(child)
                else:
                    self._end(child)
        return found + [None] * (len(files) - len(found))

    def _ask(
        self, asked: dict[str, Any], limit_s: float, tick: Callable[[int], None] | None, *, is_alone: bool
    ) -> dict[str, Any]:
        """One process's answer. Raises: Gone."""
        child = self._next()
        try:
            found = child.ask(asked, limit_s, lambda: self._check(child, is_alone), self._said(tick), self._weights)
        except BaseException:
            self._end(child)
            raise
        if "failed" in found:
            self._end(child)  # it is exiting, and must not get another file before it has
            if found.get("problem") == "unsafe" and not is_alone:
                raise Gone("unsafe", found["failed"], is_memory=True)
        else:
            self._idle.put(child)
        return found

    def _said(self, tick: Callable[[int], None] | None) -> Callable[[dict[str, Any]], None]:
        """Act on what a process says before it answers."""

        def on_answer(said: dict[str, Any]) -> None:
            if "read" in said and tick:
                tick(said["read"])
            if "expect" in said and self._torch_turn.acquire(blocking=False):
                try:
                    self._with_torch()
                finally:
                    self._torch_turn.release()

        return on_answer

    def _with_torch(self) -> LoadingProcess:
        """The process that has imported PyTorch, or is importing it. Only in its turn. Raises: Gone."""
        if self._torch is None or not self._torch.is_alive:
            self._torch = self._start("weights")
        return self._torch

    def _weights(self, asked: dict[str, Any], limit_s: float) -> dict[str, Any]:
        """PyTorch's answer about a file, as from `loading_child`; if its process ends, that is the file's problem."""
        with self._torch_turn:
            child = self._with_torch()
            try:
                found = child.ask(
                    asked, limit_s, lambda: self._check(child, is_alone=False), lambda said: None, self._weights
                )
            except Gone as gone:
                self._end(child)
                return {"problem": gone.problem, "why": gone.why, "is_memory": gone.is_memory}
            if "failed" in found:
                self._end(child)
                return {"problem": found["problem"], "why": found["failed"]}
            if "errno" in found:
                return {"problem": "corrupt", "why": f"PyTorch cannot read it: {found['strerror']}"}
            return found

    def _check(self, child: LoadingProcess, is_alone: bool) -> None:
        """Raises: Gone if all together take too much memory and this one the most."""
        child.anonymous_bytes = anonymous_bytes(child.pid)
        every = list(self._children)
        if sum(other.anonymous_bytes for other in every) <= self._memory_bytes:
            return
        largest = max(every, key=lambda other: other.anonymous_bytes)
        if largest is not child and not is_alone:
            if not largest.is_busy:
                self._end(largest)
            return
        why = f"loading it took more than {self._memory_bytes >> 20} MiB of memory and was stopped"
        raise Gone("unsafe", why, is_memory=True)

    @contextmanager
    def _nobody_else(self) -> Iterator[None]:
        """Every turn at once, without idle processes that take memory."""
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

    def _next(self) -> LoadingProcess:
        """A living idle process (one that died while idle says nothing about any file), or a new one."""
        while True:
            try:
                child = self._idle.get_nowait()
            except queue.Empty:
                return self._start()
            if child.is_alive:
                return child
            self._end(child)

    def _start(self, *words: str) -> LoadingProcess:
        try:
            child = LoadingProcess(self._folder.name if self._folder else "", *words)
        except OSError as error:
            raise Gone("unsupported", f"no process could be started to load it: {error.strerror or error}") from error
        self._children.add(child)
        if self._is_left:
            self._end(child)
        return child

    def _end(self, child: LoadingProcess) -> None:
        child.end()
        self._children.discard(child)


def _judgement(found: dict[str, Any]) -> Judgement:
    for key in ("proved", "remarks", "hashed"):
        found[key] = tuple(found[key])
    return Judgement(**found)


def _unloaded(name: str, gone: Gone, size_bytes: int) -> Judgement:
    """A file that took too long to read is not read again for its sha256."""
    kind, loader = judge.kind_by_name(name)
    hashed = (size_bytes, "") if gone.is_time else None
    return Judgement(kind, loader, problem=gone.problem, detail=gone.why, hashed=hashed)
