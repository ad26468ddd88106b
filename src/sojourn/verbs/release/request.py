"""What a user asks of `down`, made once by the command line. Who confirms it, and when, is not part of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class DownRequest:
    """The lease to let go of, and what may be lost with it.

    `target`: a lease, a site, or a run, which stands for its lease. `abandon`: what is given up, each by its full name
    (RUN, RUN:checkpoint, BOX:BASE/RUN); `accept`: files that are home and were not loaded (RUN:PATH). `keeps_disk`:
    stop it in the way that keeps its disk. `is_stopped`: the user has stopped it by hand.
    """

    target: str
    abandon: Sequence[str] = ()
    accept: Sequence[str] = ()
    keeps_disk: bool = False
    is_stopped: bool = False
