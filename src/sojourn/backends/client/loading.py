"""Loads artifacts in processes of their own, each bounded in memory and time; one process serves many files.

So a hostile or broken file cannot take us with it, PyTorch (1.5 s to import) is imported once and only where a file
needs it, and files that Python itself must read are read on all cores.
"""

from __future__ import annotations

import json
import os
import queue
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import sojourn
from sojourn.backends.client import judge, loading_child
from sojourn.backends.client.judge import Judgement

MEMORY_BYTES = 512 << 20  # anonymous memory of one process; no loader needs more, however large the tensors are
TIME_S = 120.0  # for one file, and
SLOWEST_BYTES_PER_S = 2_000_000  # this much more for each of its bytes
_LOOK_S = 0.02
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


class Loading:
    """Up to `processes` of them, started when needed. A context manager: leaving it ends them all. Thread-safe."""

    def __init__(self, processes: int, *, memory_bytes: int = MEMORY_BYTES, time_s: float = TIME_S) -> None:
        self._limits = (memory_bytes, time_s)
        self._turns = threading.Semaphore(processes)
        self._idle: queue.LifoQueue[_Child] = queue.LifoQueue()
        self._children: list[_Child] = []

    def __enter__(self) -> Loading:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for child in self._children:
            child.end(wait_s=0.0 if kind else 5.0)

    def judge(self, path: str, name: str, size_bytes: int, beside: Mapping[str, str] | None = None) -> Judgement:
        """`judge.judge` of the file in another process, within `time_s` and what its size adds. Raises: OSError."""
        with self._turns:
            child = self._next()
            memory_bytes, time_s = self._limits
            try:
                found = child.ask(path, name, beside, memory_bytes, time_s + size_bytes / SLOWEST_BYTES_PER_S)
            except _Gone as gone:
                child.end(wait_s=0.0)
                return _unloaded(name, gone.problem, gone.why)
            except BaseException:
                child.end(wait_s=0.0)
                raise
            if "failed" in found:
                child.end(wait_s=0.0)  # it ends by itself, and must not be given another file until it has
            else:
                self._idle.put(child)
        if "errno" in found:
            raise OSError(found["errno"], found["strerror"], path)
        if "failed" in found:
            return _unloaded(name, found["problem"], found["failed"])
        found["proved"], found["remarks"] = tuple(found["proved"]), tuple(found["remarks"])
        return Judgement(**found)

    def _next(self) -> _Child:
        """An idle process that lives (one that died while idle says nothing about any file), or a new one."""
        while True:
            try:
                child = self._idle.get_nowait()
            except queue.Empty:
                child = _Child()
                self._children.append(child)
                return child
            if child.is_alive:
                return child


class _Gone(Exception):
    """The process is no more, or had to be ended: what that says about the file it was loading."""

    def __init__(self, problem: str, why: str) -> None:
        super().__init__(why)
        self.problem, self.why = problem, why


class _Child:
    """One process and the bytes it answered so far."""

    def __init__(self) -> None:
        folder = os.path.dirname(os.path.dirname(os.path.abspath(sojourn.__file__)))
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-B", os.path.abspath(loading_child.__file__), folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **_ENVIRONMENT},
        )
        self._heard = b""

    @property
    def is_alive(self) -> bool:
        """It has not ended."""
        return self._process.poll() is None

    def ask(
        self, path: str, name: str, beside: Mapping[str, str] | None, memory_bytes: int, time_s: float
    ) -> dict[str, Any]:
        """Its answer about one file. Raises: _Gone."""
        assert self._process.stdin is not None and self._process.stdout is not None
        out = self._process.stdout.fileno()
        deadline = time.monotonic() + time_s
        try:
            asked = {"path": os.path.abspath(path), "name": name, "beside": beside and dict(beside)}
            self._process.stdin.write(json.dumps(asked).encode("ascii") + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._gone() from None
        while b"\n" not in self._heard:
            if select.select([out], [], [], _LOOK_S)[0]:
                part = os.read(out, 1 << 16)
                if not part:
                    raise self._gone()
                self._heard += part
            elif _anonymous_bytes(self._process.pid) > memory_bytes:
                raise _Gone("unsafe", f"loading it took more than {memory_bytes >> 20} MiB of memory and was ended")
            elif time.monotonic() > deadline:
                raise _Gone("unsupported", f"loading it took more than {time_s:.0f} s and was ended")
        line, _, self._heard = self._heard.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _gone(self) -> _Gone:
        rc = self._process.wait()
        how = f"signal {-rc}" if rc < 0 else f"exit status {rc}"
        return _Gone("corrupt", f"the process that loaded it died of it ({how})")

    def end(self, wait_s: float) -> None:
        """Close its input, which ends it; kill it where it does not end within `wait_s`. Idempotent."""
        assert self._process.stdin is not None and self._process.stdout is not None
        if not wait_s:
            self._process.kill()
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass  # it is gone, which is what we want
        try:
            self._process.wait(wait_s or None)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def _unloaded(name: str, problem: str, why: str) -> Judgement:
    kind, loader = judge.kind_by_name(name)
    return Judgement(kind, loader, problem=problem, detail=why)


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
