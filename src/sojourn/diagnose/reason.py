"""From a case and the catalog to findings, best first. Pure.

A gotcha is confirmed by one condition (or proving text) that is true while nothing rules it out; one for and one
against are a conflict, which is shown and on which nobody acts; what lacks a fact is blind and names the probe.
Order: confirmed before likely; the user's own rules before all others; causes before the program's own error before
what only follows; records of a scheduler or provider before what is inferred on the box; the more special before the
more general; the earlier before the later.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sojourn.core.gotcha import OWN, ROLES, Gotcha
from sojourn.core.values import Evidence, Finding
from sojourn.diagnose import grammar, vocabulary
from sojourn.diagnose.case import Case
from sojourn.diagnose.events import FAMILY, PARTS
from sojourn.diagnose.grammar import Truth, evaluate
from sojourn.diagnose.harm import harmless
from sojourn.diagnose.linekind import WARNING
from sojourn.diagnose.scan import Hit

STATUSES = ("confirmed", "likely", "conflict", "blind", "ruled-out")
RECORDS = (
    "k.",
    "prov.",
    "nb.",
)  # observations that a provider keeps; what schedulers keep is in vocabulary.scheduled()
# What counts for the whole machine, or for everything in a control group: others move it too.
COUNTERS = ("cg.", "kmsg.", "box.", "gpu.ecc_uncorr", "shm.pct")
# What a box shows at the moment of a look, of whatever runs there then: after its end it is nothing of this run.
GAUGES = ("gpu.util", "gpu.mem_u", "gpu.power", "gpu.sm_clock", "gpu.temp", "gpu.throttle", "gpu.holders", "cg.psi")
_GPU_FULL = re.compile(
    r"(?i)\bout of memory\b|\bOutOfMemoryError\b|RESOURCE_EXHAUSTED|_ALLOC_FAILED|\bbusy or unavailable\b"
)
# What can end a run; for the rest an unknown fact is no news.
ENDERS = ("process", "memory", "storage", "gpu", "slurm", "k8s", "spot", "multinode", "platform")
# Shown by the lines that hit, not whole, as are outputs().
TEXTS = (*(f"{FAMILY}{name}" for name in PARTS), "run.log_raised", "gpu.smi_text", "ssh.stderr")
MAX_BLIND = 5
MAX_VALUE = 300
LAST = 5  # lines at the end of a log: what stands there and may be fatal had the last word


@dataclass(frozen=True)
class Verdict:
    """The answer. `verdict` None: nothing is wrong (`is_healthy`) or nothing can be said (not `is_healthy`)."""

    verdict: Finding | None
    findings: tuple[Finding, ...]
    is_healthy: bool

    @property
    def exit_status(self) -> int:
        """0 nothing is wrong, 1 a cause was found, 10 undetermined."""
        if self.is_healthy:
            return 0
        return 1 if self.verdict is not None else 10


@dataclass(frozen=True)
class _Judged:
    gotcha: Gotcha
    finding: Finding
    has_record: bool = False
    line: int = 1 << 60
    score: float = 0.0


def reason(gotchas: Iterable[Gotcha], case: Case) -> Verdict:
    """Judge every gotcha whose scope fits."""
    hits: dict[str, list[tuple[str, Hit]]] = {}
    for stream, seen in case.seen.items():
        for hit in seen.hits:
            hits.setdefault(hit.gotcha, []).append((stream, hit))
    judged = []
    for gotcha in gotchas:
        if case.scope.isdisjoint(gotcha.scope):
            continue
        one = _judge(gotcha, case, hits.get(gotcha.id, []))
        if one is not None:
            judged.append(one)
    judged.sort(key=_order)
    judged = _specials_first(judged)
    best = _verdict(judged, case)
    has_cause = best is not None and best.status == "confirmed"
    blind = [one for one in judged if one.finding.status == "blind"]
    shown = blind[:MAX_BLIND] if not has_cause and not _is_well(case, judged) else []
    kept = [one for one in judged if one.finding.status != "blind" or one in shown]
    is_healthy = _is_well(case, judged)
    return Verdict(best, tuple(one.finding for one in kept), is_healthy)


def _judge(gotcha: Gotcha, case: Case, hits: Sequence[tuple[str, Hit]]) -> _Judged | None:
    used: list[str] = []
    hints: list[str] = []  # counters of the box that nothing links to this run's end
    lacking: list[str] = []
    partly = 0.0
    is_confirmed = False
    for condition in gotcha.confirm:
        truth, names, missing = evaluate(condition, case.facts)
        if truth is Truth.YES and not _is_of_its_time(names, case):
            continue
        if truth is Truth.YES and gotcha.ends and not _is_linked(names, case):
            hints += names
        elif truth is Truth.YES:
            is_confirmed = True
            used += names
        elif truth is Truth.UNKNOWN and names:
            share = len(names) / (len(names) + len(missing))
            if share > partly:
                partly, lacking = share, list(missing)
    live = [(stream, hit) for stream, hit in hits if not case.is_past(stream, hit)]
    is_counted = gotcha.ends and not _has_end(case)  # the kernel speaks of the whole machine too
    proving = [(stream, hit) for stream, hit in live if _is_proof(hit) and not (is_counted and stream == "kernel")]
    against = [
        name
        for c in gotcha.refute
        for truth, names, _ in [evaluate(c, case.facts)]
        if truth is Truth.YES
        for name in names
    ]
    weak = [
        name
        for c in gotcha.weak
        for truth, names, _ in [evaluate(c, case.facts)]
        if truth is Truth.YES
        for name in names
    ]
    weak = [*hints, *weak]
    is_for = is_confirmed or bool(proving)
    if gotcha.ends and case.life:  # what goes on, or is done, was ended by nothing
        if not (is_for or weak):
            return None
        is_for, against = False, list(case.life)
    if is_for and against:
        status, used = "conflict", used + against
    elif is_for:
        status = "confirmed"
    elif against:
        if not (weak or hits or partly):
            return None
        status, used = "ruled-out", against
    elif weak or live:
        status, used = "likely", weak
    elif partly >= 0.5 and gotcha.theme in ENDERS and gotcha.role != "advice" and gotcha.severity != "note":
        status, used = "blind", []
    else:
        return None
    lines = [_line(stream, hit) for stream, hit in (proving or live) if status not in ("ruled-out", "blind")]
    conditions = (*gotcha.confirm, *gotcha.refute, *gotcha.weak)
    evidence = [
        _seen(case, name, conditions)
        for name in dict.fromkeys(used)
        if not (lines and name in (*TEXTS, *vocabulary.outputs()))
    ]
    evidence += list({one.value: one for one in reversed(lines)}.values())[::-1][:3]
    if status in ("confirmed", "likely", "conflict"):
        evidence += [_seen(case, name) for name in gotcha.shows if name not in used and case.value(name) is not None]
    if status in ("blind", "likely"):
        evidence += [
            Evidence(name, None, f"unknown; the probe {vocabulary.probe_for(name)!r} would settle it")
            for name in dict.fromkeys(lacking)
        ]
    finding = Finding(
        gotcha.id,
        status,
        gotcha.title,
        gotcha.severity,
        gotcha.cause,
        harmless(gotcha.fix, case.facts),
        gotcha.never,
        gotcha.number(case.scope),
        tuple(evidence),
    )
    has_record = is_confirmed and any(name.startswith(RECORDS) or name in vocabulary.scheduled() for name in used)
    line = min((hit.number for _, hit in (proving or live)), default=1 << 60)
    return _Judged(gotcha, finding, has_record, line, partly if status == "blind" else float(is_for))


def _is_linked(names: Sequence[str], case: Case) -> bool:
    """Whether observations say something of this run's own process and end. Counters alone do not: beside them its bad
    end has to be known, and its first error may not be one of its own program. A box without a run has only these.
    """
    # Beside anything known of a run, a driver that answers badly is of the box too.
    of_box = (*COUNTERS, "gpu.smi") if any(name.startswith("run.") for name in case.facts.known) else COUNTERS
    return not all(name.startswith(of_box) or name == "run.alive" for name in names) or _has_end(case)


def _is_of_its_time(names: Sequence[str], case: Case) -> bool:
    """Whether what was observed is of this run's time: not what a card shows after its end. Memory that is taken then
    may have been taken before, where that is what it died of."""
    is_over = case.value("run.exit_code") is not None or bool(case.value("run.exit_signal"))
    if not is_over or not any(name.startswith(GAUGES) for name in names):
        return True
    is_full = _GPU_FULL.search(str(case.value("log.ended_by") or "")) is not None
    return is_full and any(name.startswith(("gpu.mem_u", "gpu.holders")) for name in names)


def _has_end(case: Case) -> bool:
    """Whether what happened to the machine may be told as this run's end: it is known how it ended, or that nobody
    wrote that down, and sojourn did not end it. Or there is no run.
    """
    is_seen = case.value("run.exit_record") is False or bool(
        case.value("run.exit_signal") or case.value("run.exit_code")
    )
    is_its = case.has_ended_badly and is_seen and not case.has_own_end and not case.value("run.stop_why")
    return case.value("box.alone") is True or is_its


def _order(one: _Judged) -> tuple[object, ...]:
    gotcha, status = one.gotcha, one.finding.status
    role = ROLES.index(gotcha.role)
    is_note = gotcha.severity == "note"
    is_special = "universal" not in gotcha.scope
    return (
        STATUSES.index(status),
        gotcha.theme != OWN,
        role,
        is_note,
        not one.has_record,
        -one.score,
        gotcha.tier // 10,
        one.line,
        not is_special,
        gotcha.tier,
        gotcha.id,
    )


def _specials_first(judged: list[_Judged]) -> list[_Judged]:
    """What refines another finding of the same status is told before it."""
    out = list(judged)
    for one in judged:
        for name in one.gotcha.refines:
            places = [
                i
                for i, other in enumerate(out)
                if other.gotcha.id == name and other.finding.status == one.finding.status
            ]
            here = out.index(one)
            if places and places[0] < here:
                out.insert(places[0], out.pop(here))
    return out


def _verdict(judged: Sequence[_Judged], case: Case) -> Finding | None:
    has_doubt = any(one.finding.status == "conflict" and one.gotcha.role == "cause" for one in judged)
    for one in judged:
        finding = one.finding
        if finding.status == "conflict":
            return None
        if finding.status == "confirmed" and one.gotcha.role != "advice":
            # What only follows from a cause is no answer while there is one for and against which something speaks.
            return None if has_doubt and one.gotcha.role != "cause" else finding
        is_open = finding.status == "likely" and one.gotcha.role != "advice"
        if is_open and case.is_log_alone and not _is_well(case, judged):
            return finding
    return None


def _is_well(case: Case, judged: Sequence[_Judged]) -> bool:
    """Nothing is wrong, and something says so: it moves, or its own record says it is done, or its log goes on."""
    for one in judged:
        is_trouble = one.finding.status in ("confirmed", "conflict")
        if is_trouble and one.gotcha.role != "advice" and one.gotcha.severity != "note":
            return False
    if case.has_ended_badly:
        return False
    if case.is_moving or (case.has_succeeded and not case.is_done_unseen):
        return True
    if case.is_left_off or case.value("run.alive") is not None or case.value("run.exit_code") is not None:
        return False
    if case.log is None:
        return False
    end = case.log.end
    if any(_is_proof(hit) and hit.pattern.fatal and end.progress_after(hit.last) < 3 for hit in case.log.hits):
        return end.kind == "done" and not end.is_short
    if end.kind == "progress":
        open_ones = {
            one.gotcha.id
            for one in judged
            if one.finding.status == "likely" and one.gotcha.role != "advice" and one.gotcha.severity != "note"
        }
        ends = [hit for hit in case.log.hits if hit.gotcha in open_ones and hit.pattern.fatal and hit.kind != WARNING]
        return all(hit.last <= case.log.lines - LAST or end.progress_after(hit.last) for hit in ends)
    return end.kind == "done" and not end.is_short


def _is_proof(hit: Hit) -> bool:
    return hit.is_proof


def _seen(case: Case, name: str, conditions: Sequence[str] = ()) -> Evidence:
    """One observation as it is shown; of the events of a log the first line that a condition speaks of."""
    known = case.facts.known[name]
    value = known.value
    if isinstance(value, str) and name in TEXTS:
        value = next((line for one in conditions for line in grammar.lines_of(one, name, value)), value)
    if isinstance(value, str) and len(value) > MAX_VALUE:
        value = value[:MAX_VALUE].rstrip() + " ..."
    return Evidence(name, value, known.source or "given", known.at)


def _line(stream: str, hit: Hit) -> Evidence:
    who = f", rank {hit.rank}" if hit.rank is not None else ""
    often = f", {hit.times} times" if hit.times > 1 else ""
    return Evidence(stream, hit.line[:MAX_VALUE], f"line {hit.number}{who}{often}")
