"""`sojourn why`: what happened, from an evidence file or a bare log. Reads what it is given, writes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from sojourn.backends.client.proof import printable
from sojourn.core.plain import finite
from sojourn.core.values import Finding
from sojourn.diagnose import evidence, scan
from sojourn.diagnose.case import Case
from sojourn.diagnose.reason import Verdict, reason
from sojourn.store.gotchas import gotchas
from sojourn.wire.errors import Misuse
from sojourn.wire.units import say_bytes

PIECE = 1 << 20
EVIDENCE_LIMIT_BYTES = 256 << 20


class CannotRead(Misuse):
    """{path}: {detail}"""

    code = "cannot-read"


class BadEvidence(Misuse):
    """{path}: not an evidence file: {detail}"""

    code = "bad-evidence"


@dataclass(frozen=True)
class Why:
    """The answer. `about`: the file; `read`: how much of what was read; `said`: last words of the log's own error."""

    about: str
    judged: Verdict
    read: str
    said: str = ""

    @property
    def exit_status(self) -> int:
        """0 nothing is wrong, 1 a cause was found, 10 undetermined."""
        return self.judged.exit_status

    def as_json(self) -> dict[str, Any]:
        """The `why` document of interface.md."""
        best = self.judged.verdict
        return {
            "schema": "sojourn/why/v1",
            "verdict": {key: getattr(best, key) for key in ("id", "was", "title", "status")} if best else None,
            "findings": [_plain(finding) for finding in self.judged.findings],
            "healthy": self.judged.is_healthy,
            "said": self.said,
        }


def of_log(path: str, *, say: Callable[[str], None] | None = None) -> Why:
    """Judge a log, all of it, as its bytes come; a few MiB of memory whatever its size. Raises: CannotRead."""
    reading = scan.Scan(gotchas())
    done_bytes = 0
    try:
        with open(path, "rb") as f:
            while piece := f.read(PIECE):
                reading.feed(piece)
                done_bytes += len(piece)
                if say and done_bytes % (64 * PIECE) < PIECE:
                    say(f"read {say_bytes(done_bytes)}")
    except OSError as error:
        raise CannotRead(path=printable(path), detail=error.strerror or str(error)) from error
    seen = reading.done()
    return _answer(path, evidence.from_log(seen), f"{seen.lines:,} lines, {say_bytes(seen.size_bytes)}")


def of_evidence(path: str) -> Why:
    """Judge an evidence file. Raises: CannotRead, BadEvidence."""
    shown = printable(path)
    try:
        with open(path, "rb") as f:
            raw = f.read(EVIDENCE_LIMIT_BYTES + 1)
    except OSError as error:
        raise CannotRead(path=shown, detail=error.strerror or str(error)) from error
    if len(raw) > EVIDENCE_LIMIT_BYTES:
        raise BadEvidence(path=shown, detail=f"it is larger than {say_bytes(EVIDENCE_LIMIT_BYTES)}")
    try:
        case = evidence.from_document(json.loads(raw), gotchas())
    except (ValueError, RecursionError) as error:
        detail = str(error) if isinstance(error, evidence.NotEvidence) else "it is not JSON"
        raise BadEvidence(path=shown, detail=detail) from error
    return _answer(path, case, f"{len(case.facts.known)} observations")


def _answer(path: str, case: Case, read: str) -> Why:
    judged = reason(gotchas(), case)
    said = next((raised.said for raised in case.log.raised if raised.said), "") if case.log else ""
    return Why(printable(path), judged, read, said)


def _plain(finding: Finding) -> dict[str, Any]:
    plain: dict[str, Any] = finite(asdict(finding))
    return plain
