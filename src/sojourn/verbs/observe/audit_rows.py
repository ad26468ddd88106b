"""One line of `leases --audit`, and what could not be compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sojourn.core.inventory import Asset, Verdict
from sojourn.verbs.answers import money


@dataclass(frozen=True)
class AuditRow:
    """One thing, and what list and journal make of it. `asset` None: the journal has it, the list has not."""

    verdict: Verdict
    provider: str
    lease: str
    asset: Asset | None = None
    next: str = ""

    def as_json(self) -> dict[str, Any]:
        """One element of `assets` of docs/json.md."""
        one = self.asset
        return {
            "verdict": self.verdict.value,
            "provider": self.provider,
            "lease": self.lease or None,
            "kind": one.kind if one else "machine",
            "native": one.native if one else None,
            "name": one.name or None if one else None,
            "state": one.state or None if one else None,
            "rate": money(one.rate_micro_per_h, one.currency) if one else None,
            "month": money(one.month_micro, one.currency) if one else None,
            "next": self.next or None,
        }


@dataclass(frozen=True)
class Blank:
    """What could not be compared: `what` of `provider`, and why."""

    provider: str
    what: str
    why: str
    next: str = ""
