"""One process that loads artifacts, seen from outside: it is asked about files, answers, and is ended."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import sojourn
from sojourn import backends
from sojourn.backends.proof import loading_child

_LOOK_S = 0.02
_LEAVE_S = 5.0
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


class Gone(Exception):
    """The process is gone, or had to be ended: what that says about its file.

    is_memory: others may have taken the memory. is_time: it was reading, and did not finish.
    """

    def __init__(self, problem: str, why: str, *, is_memory: bool = False, is_time: bool = False) -> None:
        super().__init__(why)
        self.problem, self.why, self.is_memory, self.is_time = problem, why, is_memory, is_time


class LoadingProcess:
    """One process and its answer so far. Raises: OSError if it cannot be started."""

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
        on_answer: Callable[[dict[str, Any]], None],
        weights: Callable[[dict[str, Any], float], dict[str, Any]],
    ) -> dict[str, Any]:
        """Its answer about one file. `check` is called now and then, `on_answer` with its messages meanwhile; `weights`
        answers its questions to PyTorch.

        Raises: Gone.
        """
        self.is_busy = True
        self._say(asked)
        found = self._answer(limit_s, check, on_answer, weights)
        self.is_busy = False
        return found

    def ask_many(
        self,
        many: Sequence[Mapping[str, Any]],
        limit_s: float,
        check: Callable[[], None],
        on_answer: Callable[[dict[str, Any]], None],
        weights: Callable[[dict[str, Any], float], dict[str, Any]],
    ) -> Iterator[dict[str, Any]]:
        """Its answers about these files in turn, as `ask`, each within `limit_s`. Raises: Gone."""
        self.is_busy = True
        self._say({"many": many})
        for _ in many:
            yield self._answer(limit_s, check, on_answer, weights)
        self.is_busy = False

    def _answer(
        self,
        limit_s: float,
        check: Callable[[], None],
        on_answer: Callable[[dict[str, Any]], None],
        weights: Callable[[dict[str, Any], float], dict[str, Any]],
    ) -> dict[str, Any]:
        deadline = time.monotonic() + limit_s
        while True:
            found = self._line(deadline, limit_s, check)
            if "read" in found or "expect" in found:
                on_answer(found)
                continue
            if "weights" not in found:
                return found
            began_s = time.monotonic()
            answer = weights(found, limit_s)
            deadline += time.monotonic() - began_s  # waiting for its turn is not this file's time
            if answer.get("is_memory"):
                raise Gone(answer["problem"], answer["why"], is_memory=True)
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
                raise Gone("unsupported", f"reading it took more than {limit_s:.0f} s and was ended", is_time=True)
        line, _, self._heard = self._heard.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found

    def _gone(self) -> Gone:
        rc = self._process.wait()
        if rc == -9:  # the system's way to end a process that takes too much memory; we did not
            why = "the process that loaded it was killed (signal 9), as the system does when it is short of memory"
            return Gone("unsupported", why, is_memory=True)
        how = f"signal {-rc}" if rc < 0 else f"exit status {rc}"
        return Gone("corrupt", f"the process that loaded it crashed ({how})")

    def end(self) -> None:
        """Kill it: nothing of it is needed. Idempotent. One that hangs in the kernel, as on a file system that does not
        answer, is left there after a moment.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.kill()
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass  # it is gone, as intended
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_LEAVE_S)
        self._process.stdout.close()


def anonymous_bytes(pid: int) -> int:
    """Memory of the process alone (without mapped files). 0 without /proc: then there is no bound."""
    try:
        with open(f"/proc/{pid}/status", "rb") as f:
            for line in f:
                if line.startswith(b"RssAnon:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        return 0
    return 0
