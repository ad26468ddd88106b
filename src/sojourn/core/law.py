"""The Iron Law as a type: only `clear` mints a Clearance, and a provider releases nothing without one."""

from __future__ import annotations

from dataclasses import dataclass

from sojourn.wire.errors import Defect

_MINT = object()


@dataclass(frozen=True, init=False)
class Clearance:
    """Permission to release one lease, minted by `clear` alone."""

    lease: str
    runs: tuple[str, ...]
    at_s: float

    def __init__(self, mint: object, lease: str, runs: tuple[str, ...], at_s: float) -> None:
        if mint is not _MINT:
            raise Defect(detail="a Clearance can only be minted by core.law.clear")
        object.__setattr__(self, "lease", lease)
        object.__setattr__(self, "runs", runs)
        object.__setattr__(self, "at_s", at_s)
