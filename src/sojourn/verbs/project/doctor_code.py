"""`doctor --code`: traps that a project's Python source shows, under the ids of the catalog. Reads, never runs."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sojourn.core.values import Evidence, Finding
from sojourn.store.gotchas import gotchas
from sojourn.store.job.read import find_job, read_job
from sojourn.verbs.answers import document, worst
from sojourn.verbs.project.codecheck import inplace, loaders, loops, parameters, precision, ranks, resuming, saving
from sojourn.verbs.project.codecheck.source import Code, Sight, Source, source_of
from sojourn.verbs.project.source.tree import walk
from sojourn.wire import quote
from sojourn.wire.errors import Misuse

RULES = (
    *inplace.RULES,
    *loaders.RULES,
    *loops.RULES,
    *parameters.RULES,
    *precision.RULES,
    *ranks.RULES,
    *resuming.RULES,
    *saving.RULES,
)
MOST_FILES, MOST_BYTES = 2000, 1 << 20
# Folders whose code is not what a run runs.
_PASSED = {"tests", "test", "docs", "doc", "site-packages", "third_party", "vendor", "node_modules", "build", "dist"}
SHOWN = 5  # places of one trap
_PROTECTED = "saved-in-place"  # what `protect: saves` mends
_SEVERITIES = ("blocker", "warning", "note")


class NoSuchCode(Misuse):
    """{path}: {detail}"""

    code = "no-such-code"


@dataclass(frozen=True)
class DoctorCode:
    """What was seen. `facts`: files read, files that are not Python as this Python knows it, and `code.traps`."""

    path: str
    facts: dict[str, Any]
    findings: tuple[Finding, ...]
    next: str
    exit_status: int

    def as_json(self) -> dict[str, Any]:
        """The `doctor` document, with `path` where a site's has `site`."""
        return document(self, "doctor", without=("exit_status",), exit=self.exit_status)


def doctor_code(path: str = ".") -> DoctorCode:
    """Judge a file, or the Python files of a folder that would be pushed, without tests and docs.

    Raises: Misuse (no-such-code).
    """
    sources, unread = _read(path)
    if not sources and not unread:
        raise NoSuchCode(path=path, detail="there is no Python file")
    sights = [sight for sight in look(sources) if sight.gotcha != _PROTECTED or not _is_protected(path)]
    findings = _findings(sights)
    traps = [finding.id for finding in findings]
    return DoctorCode(
        path=path,
        facts={"files": len(sources), "unread": unread, "code.traps": traps},
        findings=findings,
        next=quote.join(["sojourn", "doctor", "--code", path] if findings else ["sojourn", "plan"]),
        exit_status=worst(findings),
    )


def look(sources: Iterable[Source]) -> list[Sight]:
    """Every trap in these files."""
    code = Code(tuple(sources))
    return [sight for rule in RULES for sight in rule(code)]


def _findings(sights: Iterable[Sight]) -> tuple[Finding, ...]:
    """One finding a gotcha, with the places; the grave ones first, the certain before the likely."""
    by_id: dict[str, list[Sight]] = {}
    for sight in sights:
        by_id.setdefault(sight.gotcha, []).append(sight)
    known = {gotcha.id: gotcha for gotcha in gotchas()}
    found = []
    for name, places in by_id.items():
        gotcha = known[name]
        status = "confirmed" if any(place.is_sure for place in places) else "likely"
        evidence = [
            Evidence("code", place.said, f"{place.path}:{place.line}")
            for place in sorted(set(places), key=lambda place: (not place.is_sure, place.path, place.line))[:SHOWN]
        ]
        found.append(
            Finding(
                name,
                status,
                gotcha.title,
                "warning" if gotcha.severity == "blocker" else gotcha.severity,  # it runs; the code only shows the trap
                gotcha.cause,
                gotcha.fix,
                gotcha.never,
                gotcha.was,
                tuple(evidence),
            )
        )
    return tuple(sorted(found, key=lambda f: (_SEVERITIES.index(f.severity), f.status != "confirmed", f.id)))


def _is_protected(path: str) -> bool:
    """Whether the job file beside the code says `protect: saves`; one that cannot be read says nothing."""
    try:
        return read_job(find_job(path if os.path.isdir(path) else os.path.dirname(path) or ".")).protect == "saves"
    except Misuse:
        return False


def _is_own(name: str) -> bool:
    return name.endswith(".py") and _PASSED.isdisjoint(name.split("/")[:-1])


def _read(path: str) -> tuple[list[Source], list[str]]:
    if os.path.isfile(path):
        names = [os.path.basename(path)]
        root = os.path.dirname(path) or "."
    elif os.path.isdir(path):
        root = path
        names = sorted(name for name, size in walk(path) if _is_own(name) and size <= MOST_BYTES)[:MOST_FILES]
    else:
        raise NoSuchCode(path=path, detail="there is no such file or folder")
    sources, unread = [], []
    for name in names:
        try:
            with open(os.path.join(root, name), "rb") as file:
                text = file.read(MOST_BYTES).decode("utf-8-sig", "replace")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the user's code, such as an odd escape
                sources.append(source_of(name, text))
        except (OSError, SyntaxError, ValueError, RecursionError):
            unread.append(name)
    return sources, unread
