"""Findings on the screen: the problem, why, what to do, and what never to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sojourn.cli.show.text import clean, line
from sojourn.wire.units import say_bytes

if TYPE_CHECKING:
    from sojourn.core.values import Evidence, Finding


_LEAST_BYTES = 1 << 20


def lines(findings: Sequence[Finding], columns: int) -> list[str]:
    """Best first, as given. Ruled-out ones are left out."""
    out: list[str] = []
    for finding in findings:
        if finding.status == "ruled-out":
            continue
        label = finding.severity if finding.status == "confirmed" else finding.status
        out += line(label, f"{clean(finding.title)} [{clean(finding.id)}]", columns)
        out += details(finding, columns)
    return out


def details(finding: Finding, columns: int) -> list[str]:
    """The evidence, the cause, the fix, what never to do."""
    out: list[str] = []
    for evidence in finding.evidence:
        seen = f"{clean(evidence.what)} = {_value(evidence)} ({clean(evidence.source)})"
        out += line(
            "",
            f"unknown: {clean(evidence.what)} ({clean(evidence.source.removeprefix('unknown; '))})"
            if evidence.value is None and evidence.source.startswith("unknown;")
            else f"seen: {seen}",
            columns,
        )
    for word, text in (("cause", finding.cause), ("fix", finding.fix), ("never", finding.never)):
        if text:
            out += line("", f"{word}: {clean(text.removeprefix('never ') if word == 'never' else text)}", columns)
    return out


def _value(evidence: Evidence) -> str:
    """A large number of bytes in units; other values unchanged."""
    value = evidence.value
    if isinstance(value, int) and value >= _LEAST_BYTES:
        from sojourn.verbs.explain.observations import unit_of

        if unit_of(evidence.what) == "bytes":
            return say_bytes(value)
    return clean(value)
