"""A vendor's own program as a provider's client, where it is the only documented way in: it prints one JSON document.

Keys travel in its environment, never in its argv. A question may be repeated; a change is sent once, by a program that
ends when this process does, so that nothing is rented after everybody has stopped looking for it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sojourn.backends.client import https, limits, log
from sojourn.backends.client.keys import Key
from sojourn.core.values import NoAnswer
from sojourn.wire.errors import Misuse
from sojourn.wire.mask import Mask

LIMIT_BYTES = 16 << 20
LOGGED_WORDS = 3  # of its argv: what it was told to do, and to what
SAID_CHARACTERS = 200
FIRST_PAUSE_S, PAUSE_FACTOR, LAST_PAUSE_S = 0.5, 2.0, 8.0
# Between us and a program that changes something. Polling for the parent is what works on Linux and macOS alike.
_GUARD = """
import os, subprocess, sys, time
ours = int(sys.argv[1])
if os.getppid() != ours:
    sys.exit(1)
child = subprocess.Popen(sys.argv[2:])
while child.poll() is None:
    if os.getppid() != ours:
        child.kill()
    time.sleep(0.01)
sys.exit(child.returncode if child.returncode >= 0 else 1)
"""


class NoProgram(Misuse):
    """Site {site} needs the program {program!r} of {provider}, which is not installed."""

    code = "no-program"
    next_step = '{install}, or write program = "PATH" into [sites.{site}.{provider}]'


@dataclass(frozen=True)
class Printed:
    """What it printed, an object, and its exit status."""

    rc: int
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Program:
    """One account, asked through a vendor's program.

    `argv`: the program and the options that always stand first. `keys`: asked when the first call is made; variable of
    its environment -> key. `environ`: what else it is told there. `missing`: what to raise if there is no such program.
    `is_lost`: whether what it printed means that its question did not get through. `every_s`: class of calls (read,
    write) -> least seconds between two.
    """

    provider: str
    argv: Sequence[str]
    keys: Callable[[], Mapping[str, Key]]
    missing: Callable[[], NoProgram]
    environ: Mapping[str, str] = field(default_factory=dict)
    is_lost: Callable[[Printed], bool] = lambda printed: False
    every_s: Mapping[str, float] = field(default_factory=dict)
    now_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def ask(self, *words: str, timeout_s: float = https.CALL_S) -> Printed | NoAnswer:
        """Ask something that changes nothing; again, until `timeout_s` is over, while no answer comes through.

        Raises: NoKey, NoProgram.
        """
        until_s, pause_s = self.now_s() + min(timeout_s, https.patience_s()), FIRST_PAUSE_S
        while True:
            answer = self._once(words, until_s, is_change=False)
            if isinstance(answer, Printed) and not self.is_lost(answer):
                return answer
            if self.now_s() + pause_s >= until_s:
                return answer
            self.sleep(pause_s)
            pause_s = min(pause_s * PAUSE_FACTOR, LAST_PAUSE_S)

    def change(self, *words: str, timeout_s: float) -> Printed | NoAnswer:
        """Have something changed, once. NoAnswer with `sent` False: it was not started. Raises: NoKey, NoProgram."""
        return self._once(words, self.now_s() + timeout_s, is_change=True)

    def _once(self, words: Sequence[str], until_s: float, *, is_change: bool) -> Printed | NoAnswer:
        keys = self.keys()
        path = shutil.which(self.argv[0])
        if path is None:
            raise self.missing()
        account = " ".join(key.value for key in keys.values())
        kind = "write" if is_change else "read"
        every_s = self.every_s.get(kind, 0.0)
        limiter = limits.limiter(self.provider, account, kind, every_s, self.now_s, self.sleep)
        if not limiter.wait(until_s):
            return NoAnswer(sent=False, kind="limited", detail=f"{self.provider} asks to be called less often")
        argv = [path, *self.argv[1:], *words]
        if is_change:
            argv = [sys.executable, "-I", "-S", "-c", _GUARD, str(os.getpid()), *argv]
        env = {**os.environ, **self.environ, **{name: key.value for name, key in keys.items()}}
        began_s, mask = time.monotonic(), Mask({key.name: key.value for key in keys.values()})
        answer = _printed(argv, env, max(1.0, until_s - self.now_s()), mask)
        told: dict[str, object] = {"provider": self.provider, "program": list(words[:LOGGED_WORDS])}
        told["ms"] = round((time.monotonic() - began_s) * 1000)
        if isinstance(answer, NoAnswer):
            log.write({**told, "no_answer": answer.kind, "sent": answer.sent, "detail": answer.detail}, mask)
        else:
            said = {} if answer.rc == 0 else {"said": json.dumps(answer.fields.get("error"))[: https.LOGGED_CHARACTERS]}
            log.write({**told, "status": answer.rc, **said}, mask)
        return answer


def _printed(argv: Sequence[str], env: Mapping[str, str], timeout_s: float, mask: Mask) -> Printed | NoAnswer:
    """Run it, in a group of its own that does not outlive this call."""
    try:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            start_new_session=True,
        )
    except OSError as error:
        return NoAnswer(sent=False, kind="refused", detail=f"it cannot be started ({error.strerror})")
    try:
        out, err = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return NoAnswer(sent=True, kind="timeout", detail=f"the program did not end within {timeout_s:.0f} s")
    finally:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
    try:
        found = json.loads(out) if len(out) <= LIMIT_BYTES else None
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        return Printed(child.returncode, found)
    lines = mask.over(err[-4096:]).decode(errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "nothing")[:SAID_CHARACTERS]
    return NoAnswer(sent=True, kind="refused", detail=f"the program printed no JSON (exit {child.returncode}): {last}")
