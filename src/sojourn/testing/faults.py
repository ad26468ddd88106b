"""A transport that fails on purpose around a real one: what was never sent, what was done and never heard, what came
back torn, twice, or with chatter before it.

As a site's transport: register `Backend` as an entry point `faulty` of `sojourn.transport`, and let `address` name a
folder with `plan.json` (see `Plan`). What was injected is appended to `injected.jsonl` there.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sojourn.core.ports import Transport
from sojourn.core.values import Ended, NoAnswer, Place

CHATTER = b"Welcome to box1!\r\n\x1b[1mDisk quota: \x00 of \xff\xfe used\x1b[0m\n"

Rest = Mapping[str, Any]  # the keyword arguments of a call


@dataclass(frozen=True)
class Plan:
    """Which calls fail: each with probability `rate`, `most` at most, with a kind of `kinds`, as `seed` decides.

    `log`: the file that each injected fault is appended to, "" = none.
    """

    seed: str
    rate: float
    most: int
    kinds: tuple[str, ...] = ()  # () = all that there are
    log: str = ""


class Faulty:
    """The real transport, with faults. `injected`: (operation, kind) of those so far."""

    def __init__(self, real: Transport, plan: Plan) -> None:
        self._real, self._plan = real, plan
        self._dice = random.Random(plan.seed)
        self.injected: list[tuple[str, str]] = []

    def call(self, argv: Sequence[str], **rest: Any) -> Ended | NoAnswer:
        """See `core.ports.Transport`."""
        kind = self._next("call", (*UNSENT, *CALLS))
        if kind in UNSENT:
            return NoAnswer(sent=False, kind=kind, detail="injected")
        return CALLS[kind](self._real, self._dice, argv, rest) if kind else self._real.call(argv, **rest)

    def put(self, local: str, remote: str, *, timeout_s: float = 600.0) -> None | NoAnswer:
        """See `core.ports.Transport`."""
        kind = self._next("put", (*UNSENT, "unheard", "twice"))
        if kind in UNSENT:
            return NoAnswer(sent=False, kind=kind, detail="injected")
        answer = self._real.put(local, remote, timeout_s=timeout_s)
        if kind == "twice":
            answer = self._real.put(local, remote, timeout_s=timeout_s)
        return NoAnswer(sent=True, kind="timeout", detail="injected") if kind == "unheard" else answer

    def get(
        self, remote: str, local: str, *, offset: int = 0, timeout_s: float = 600.0, limit_bytes: int | None = None
    ) -> int | NoAnswer:
        """See `core.ports.Transport`."""
        kind = self._next("get", (*UNSENT, "unheard", "cut", "flipped"))
        if kind in UNSENT:
            return NoAnswer(sent=False, kind=kind, detail="injected")
        answer = self._real.get(remote, local, offset=offset, timeout_s=timeout_s, limit_bytes=limit_bytes)
        if isinstance(answer, NoAnswer) or kind not in ("unheard", "cut", "flipped"):
            return answer
        size = os.path.getsize(local)
        if kind == "flipped" and answer:
            with open(local, "r+b") as file:
                file.seek(size - 1 - self._dice.randrange(answer))
                byte = file.read(1)
                file.seek(-1, os.SEEK_CUR)
                file.write(bytes((byte[0] ^ (1 << self._dice.randrange(8)),)))
            return answer
        if kind == "cut":
            os.truncate(local, size - self._dice.randint(0, answer))
        return NoAnswer(sent=True, kind="reset", detail="injected")

    def _next(self, operation: str, able: Sequence[str]) -> str:
        """The kind of fault for this operation, "" for none."""
        kinds = [kind for kind in able if not self._plan.kinds or kind in self._plan.kinds]
        if len(self.injected) >= self._plan.most or not kinds or self._dice.random() >= self._plan.rate:
            return ""
        kind = self._dice.choice(kinds)
        self.injected.append((operation, kind))
        if self._plan.log:
            line = json.dumps({"operation": operation, "kind": kind}) + "\n"
            fd = os.open(self._plan.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                os.write(fd, line.encode("ascii"))
            finally:
                os.close(fd)
        return kind


class Backend(Faulty):
    """Faults around this machine itself, as plan.json in the folder `place.address` says; without it there are none."""

    def __init__(self, place: Place) -> None:
        from sojourn.backends.transport import local

        try:
            with open(os.path.join(place.address, "plan.json"), encoding="utf-8") as file:
                said = json.load(file)
        except FileNotFoundError:
            said = {"seed": "", "rate": 0.0, "most": 0}
        plan = Plan(**{**said, "kinds": tuple(said.get("kinds", ()))})
        super().__init__(local.Backend(place), replace(plan, log=os.path.join(place.address, "injected.jsonl")))


# Nothing was sent: the words of `ssh` for why.
UNSENT = ("refused", "name", "auth", "host-key", "banner", "busy", "no-route", "timeout")


def _unheard(real: Transport, dice: random.Random, argv: Sequence[str], rest: Rest) -> NoAnswer:
    real.call(argv, **rest)
    return NoAnswer(sent=True, kind="timeout", detail="injected")


def _reset(real: Transport, dice: random.Random, argv: Sequence[str], rest: Rest) -> NoAnswer:
    """The line breaks while the question is on its way: what is there sees only its beginning."""
    stdin = bytes(rest.get("stdin", b""))
    real.call(argv, **{**rest, "stdin": stdin[: dice.randint(0, len(stdin))]})
    return NoAnswer(sent=True, kind="reset", detail="injected")


def _twice(real: Transport, dice: random.Random, argv: Sequence[str], rest: Rest) -> Ended | NoAnswer:
    first = real.call(argv, **rest)
    second = real.call(argv, **rest)
    return dice.choice((first, second))


def _spoilt(spoil: Callable[[random.Random, bytes], bytes]) -> Callable[..., Ended | NoAnswer]:
    def call(real: Transport, dice: random.Random, argv: Sequence[str], rest: Rest) -> Ended | NoAnswer:
        answer = real.call(argv, **rest)
        return answer if isinstance(answer, NoAnswer) else replace(answer, stdout=spoil(dice, answer.stdout))

    return call


def _flip(dice: random.Random, data: bytes) -> bytes:
    if not data:
        return data
    at = dice.randrange(len(data))
    return data[:at] + bytes((data[at] ^ (1 << dice.randrange(8)),)) + data[at + 1 :]


def _killed(real: Transport, dice: random.Random, argv: Sequence[str], rest: Rest) -> Ended | NoAnswer:
    """What was called is killed over there when it has done its work: its words are lost, its shell says so."""
    answer = real.call(argv, **rest)
    return answer if isinstance(answer, NoAnswer) else replace(answer, rc=137, stdout=b"", stderr=b"Killed\n")


# The box was reached: it does all or a part, and what comes back is not what it said.
CALLS: dict[str, Callable[..., Ended | NoAnswer]] = {
    "unheard": _unheard,
    "reset": _reset,
    "twice": _twice,
    "torn": _spoilt(_flip),
    "truncated": _spoilt(lambda dice, data: data[: dice.randrange(len(data) + 1)]),
    "silent": _spoilt(lambda dice, data: b""),
    "chatter": _spoilt(lambda dice, data: CHATTER + data),
    "killed": _killed,
}
