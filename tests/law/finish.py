"""The honest end of an order: every lease gets down by doing what sojourn says is next, and by names given in full."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sojourn.core.law import Withheld
from sojourn.wire.errors import SojournError
from tests.law.client import Client
from tests.law.order import How, Order
from tests.law.steps import stopped_by_hand

ROUNDS = 12


def finish(order: Order) -> None:
    """Bring home what there is, and get every lease down. Where that is not possible, the law cannot be satisfied."""
    order.tell("== the honest end")
    _stop_all(order)
    for client in order.clients:
        for lease in [one.name for one in order.leases(client) if one.lease.site == "paid"]:
            user = User(order, client, lease)
            if not any(user.tries() for _ in range(ROUNDS)):
                order.broke(f"{client.name}: {lease} does not get down by what sojourn says is next")


@dataclass
class User:
    """Somebody who does as told, line by line; what was told twice, and did not help, is given up by its run's name."""

    order: Order
    client: Client
    lease: str
    abandon: dict[str, None] = field(default_factory=dict)
    accept: dict[str, None] = field(default_factory=dict)
    heeded: dict[tuple[str, str], int] = field(default_factory=dict)

    def tries(self) -> bool:
        """One `down`, and what it asks for. Whether the lease is down."""
        order, client = self.order, self.client
        is_gone = client.is_by_hand and not order.machine.is_on
        answer = order.down(client, self.lease, How(tuple(self.abandon), tuple(self.accept), is_stopped=is_gone))
        stopped_by_hand(order, client, is_done=True)
        if not any(one.name == self.lease for one in order.leases(client)):
            return True
        done: set[str] = set()
        for lack in answer.missing if isinstance(answer, Withheld) else ():
            key = (lack.run, lack.what)
            self.heeded[key] = self.heeded.get(key, 0) + 1
            if lack.run in self.abandon and "never on this lease" in lack.what:
                del self.abandon[lack.run]
            elif "--accept-gap" in lack.next and not order.machine.is_on:  # its box is gone, and cannot be asked
                order.accept_gap(client, "paid", self.lease)
            elif self.heeded[key] > 1 and lack.run:
                self.abandon.setdefault(lack.run)
            elif lack.next not in done:
                done.add(lack.next)
                self._heed(lack.next)
        return False

    def _heed(self, line: str) -> None:
        """Do what a line tells: give what it names, and the first command in it."""
        every, words = shlex.split(line), shlex.split(line.partition(", or ")[0])
        for flag, value in zip(every, every[1:], strict=False):
            if flag in ("--abandon", "--accept"):
                (self.abandon if flag == "--abandon" else self.accept).setdefault(value)
        acts: dict[str, Callable[[str], Any]] = {
            "pull": lambda run: self.order.pull(self.client, run),
            "stop": lambda run: self.order.stop(self.client, run),
            "recover": self._recover,
            "status": lambda run: self.order.status(self.client),
        }
        if words[1:2] and words[1] in acts and len(words) > 2:
            acts[words[1]](words[2])

    def _recover(self, site: str) -> Any:
        return self.order.recover(self.client, site)


def _stop_all(order: Order) -> None:
    """Whoever started something that lives ends it; where the records of it are lost, they are asked for first."""
    for placed in order.runs:
        if placed.root.exists() and not order.is_sealed(placed):
            said: Any = order.stop(placed.client, placed.name)
            if isinstance(said, SojournError):
                order.recover(placed.client, placed.site)
                order.stop(placed.client, placed.name)
