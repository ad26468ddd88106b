"""A transport that fails on purpose around the real local one, and a provider whose meter is a variable."""

import os
from collections.abc import Callable, Sequence
from typing import Any

from sojourn.backends.transport import local
from sojourn.core import law
from sojourn.core.ports import Offer
from sojourn.core.values import Ended, Lease, NoAnswer, Pulse, Site

OFF = NoAnswer(sent=False, kind="timeout", detail="nobody is there")
CUT = NoAnswer(sent=True, kind="reset", detail="the line was cut", next_step="mend it")


class Transport:
    """The real one, with: `is_cut` (nothing gets through), `is_off` (nobody is there to take a call), `get_limit_bytes`
    (a line that breaks after so many bytes in all), `spoil` (called with the path of each file that came), `calls` and
    `got_bytes` counted.
    """

    def __init__(self, site: Site) -> None:
        self._real = local.Backend(site)
        self.is_cut = self.is_off = False
        self.get_limit_bytes: int | None = None
        self.spoil: Callable[[str, str], None] | None = None
        self.calls = 0
        self.asked: list[tuple[str, int | None]] = []
        self.got_bytes = 0

    def call(self, argv: Sequence[str], **how: Any) -> Ended | NoAnswer:
        self.calls += 1
        if self.is_off:
            return OFF
        return CUT if self.is_cut else self._real.call(argv, **how)

    def put(self, local: str, remote: str, *, timeout_s: float = 600.0) -> None | NoAnswer:
        return CUT if self.is_cut else self._real.put(local, remote, timeout_s=timeout_s)

    def get(
        self, remote: str, local: str, *, offset: int = 0, timeout_s: float = 600.0, limit_bytes: int | None = None
    ) -> int | NoAnswer:
        if self.is_cut:
            return CUT
        self.asked.append((remote, limit_bytes))
        if not os.path.isfile(remote):
            return self._real.get(remote, local, offset=offset, timeout_s=timeout_s)  # which says so in its own words
        with open(remote, "rb") as source, open(local, "ab") as out:
            source.seek(offset)
            limits = [limit for limit in (self.get_limit_bytes, limit_bytes) if limit is not None]
            data = source.read(min(limits) if limits else None)
            out.write(data)
        self.got_bytes += len(data)
        if self.get_limit_bytes is not None:
            self.get_limit_bytes -= len(data)
            if self.get_limit_bytes <= 0:
                return CUT
        if self.spoil is not None:
            self.spoil(remote, local)
        return len(data)


class Provider:
    """A provider that stops its own meter; `pulses` are its next answers to `look`, the last one for ever."""

    metered = True
    rents, stops_itself = False, True
    stop_verb = "destroy"
    is_final = True

    def __init__(self, site: Site, pulses: Sequence[Pulse] = (Pulse.ALIVE,)) -> None:
        self._site = site
        self.pulses = list(pulses)
        self.after_release: list[Pulse] = [Pulse.GONE]
        self.taken: list[str] = []
        self.released: list[law.Clearance] = []

    def offers(self, need: object) -> Sequence[Offer]:
        return (Offer("a-box", 2_000_000, "EUR"),)

    def take(self, offer: Offer, token: str, now_s: float) -> Lease:
        self.taken.append(token)
        name = self._site.name
        rate = offer.rate_micro_per_h
        return Lease(name, name, "faulty", token, rate, offer.currency, now_s, self.stop_verb, self.is_final)

    def look(self, lease: Lease) -> Pulse:
        return self.pulses.pop(0) if len(self.pulses) > 1 else self.pulses[0]

    def release(self, lease: Lease, clearance: law.Clearance) -> str:
        law.check(clearance, lease)
        self.released.append(clearance)
        self.pulses = list(self.after_release)
        return "destroyed"
