"""`sojourn why`: what happened, from a run's box, an evidence file or a bare log. Starts and ends nothing anywhere.

A box is asked in one connection: for what is new of the run, and for the keeper's evidence. One that does not answer
proves nothing: then the run is as it was last seen, and nothing is concluded.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from sojourn.core.artifact import printable
from sojourn.core.gotcha import Gotcha
from sojourn.core.plain import finite
from sojourn.core.values import Finding, NoAnswer, State
from sojourn.diagnose import evidence, scan
from sojourn.diagnose.case import Case
from sojourn.diagnose.events import Event, events_of, last_error
from sojourn.diagnose.own import gotchas_of
from sojourn.diagnose.reason import Verdict, reason
from sojourn.store.gotchas import gotchas
from sojourn.store.records import RunRecord
from sojourn.verbs.answers import Reach, Row
from sojourn.verbs.context import Context
from sojourn.verbs.explain.kept_home import KeptHome, kept_home
from sojourn.verbs.explain.on_record import on_record
from sojourn.verbs.observe.reasons import scope_of
from sojourn.verbs.observe.refresh import ABSENT, LIMIT_BYTES, refresh_one, take_in
from sojourn.verbs.observe.spending import taken_s
from sojourn.verbs.observe.status import row
from sojourn.verbs.observe.view import RunView
from sojourn.wire import atomic, units
from sojourn.wire.errors import Misuse, Unreachable
from sojourn.wire.units import say_bytes

if TYPE_CHECKING:
    from sojourn.backends.keeper.client import Answer
    from sojourn.diagnose.nearest import Alike

CALL_S = 30.0
LOG_BYTES = 1 << 20  # of the end of a run's log
PIECE = 1 << 20
EVIDENCE_LIMIT_BYTES = 256 << 20
MAX_EVENTS = 100  # in a document


class CannotRead(Misuse):
    """{path}: {detail}"""

    code = "cannot-read"


class BadEvidence(Misuse):
    """{path}: not an evidence file: {detail}"""

    code = "bad-evidence"


class CannotWrite(Misuse):
    """{path}: {detail}"""

    code = "cannot-write"


class NoEvidence(Unreachable):
    """The box of {run} does not answer, so there is no evidence to write to {path}: {why}."""

    code = "no-evidence"
    next_step = "sojourn why {run}"


_REQUEUED = "requeued"


@dataclass(frozen=True)
class Why:
    """The answer. `about`: the run or file; `read`: how much was read; `said`: the log's own last error.

    Of a run also `row`, as `status` shows it; its `reach` says whether the box answered.
    """

    about: str
    judged: Verdict
    read: str
    said: str = ""
    row: Row | None = None
    note: str = ""
    kept_home: tuple[KeptHome, ...] = ()  # files that the log misses, and that an ignore file kept here
    events: tuple[Event, ...] = ()
    alike: tuple[Alike, ...] = ()  # where nothing is decided: entries whose known logs this one looks like
    is_done: bool = False  # nothing is wrong, and the last word is that it has finished

    @property
    def exit_status(self) -> int:
        """0 nothing is wrong or it will start again by itself, 1 a cause was found, 10 undetermined."""
        return 0 if self.outcome == _REQUEUED else self.judged.exit_status

    @property
    def outcome(self) -> str | None:
        """What it has come to: finished, waiting, requeued, running, or the state in which it ended; None of a log or
        evidence file that does not tell."""
        best, state = self.judged.verdict, self.row.state if self.row else None
        if best is not None and best.id.endswith("-requeued"):
            return _REQUEUED
        if state is State.QUEUED:
            return "waiting"
        if self.is_done or state is State.SUCCEEDED:
            return "finished"
        if state is not None and state.is_final:
            return state.value
        is_seen = self.row is not None and self.row.reach.ok is not False
        return "running" if is_seen and state is not None and state.is_alive else None

    def as_json(self) -> dict[str, Any]:
        """The `why` document of docs/json.md."""
        best = self.judged.verdict
        return {
            "schema": "sojourn/why/v1",
            "verdict": {key: getattr(best, key) for key in ("id", "was", "title", "status")} if best else None,
            "findings": [_plain(finding) for finding in self.judged.findings],
            "healthy": self.judged.is_healthy,
            "outcome": self.outcome,
            "said": self.said,
            "events": [_plain(event) for event in self.events[:MAX_EVENTS]],
            **({"nearest": [_plain(one) for one in self.alike]} if self.alike else {}),
            **({"run": self.row.as_json(), "note": self.note or None} if self.row else {}),
            **({"kept_home": [asdict(one) for one in self.kept_home]} if self.row else {}),
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
        document = json.loads(raw)
        catalog = _catalog(document)
        case = evidence.from_document(document, catalog)
    except (ValueError, RecursionError) as error:
        detail = str(error) if isinstance(error, evidence.NotEvidence) else "it is not JSON"
        raise BadEvidence(path=shown, detail=detail) from error
    return _answer(path, case, f"{len(case.facts.known)} observations", catalog)


_UNKNOWN = "the box does not answer, so the run's state is unknown; this is the last known state"


def of_run(ctx: Context, name: str, *, attempt: int = 0, save: str = "") -> Why:
    """Judge a run, alive or ended, by what its box says in one connection. `attempt` 0: the newest. `save`: write the
    evidence there too, for `of_evidence`.

    Raises: Misuse (not-found, ambiguous, cannot-write, no-evidence), WorldError where the box answered with an error.
    """
    record = ctx.store.index.find(name)
    if record.attempt == 0:
        return _undecided(ctx, record, "it was never launched, so there is nothing to judge")
    seen = _by_its_scheduler(ctx, record)
    if seen is not None:
        if seen.reach.ok is False:
            return _unseen(ctx, record, attempt, seen.reach.error, save)
        record = seen.record
        if seen.status.state is State.QUEUED and not attempt:
            return _waiting(ctx, seen, save)
    answers = _asked(ctx, record, attempt)
    if isinstance(answers, str):
        return _unseen(ctx, record, attempt, answers, save)
    since, document = answers
    view = seen if seen is not None and seen.reach.ok else _heard(ctx, record, since)
    if document is None:
        note = "its box answered but has no such run: the disk was wiped, or the run was never placed there"
        return _undecided(ctx, view.record, note, view)
    if view.status.state is State.QUEUED and record.queue and not view.record.heard.attempt:
        # The box's evidence speaks of what else happened there, and of nothing of this run.
        note = "it waits in the queue of its box, and nothing of it has run yet"
        return _undecided(ctx, view.record, note, view)
    document["scope"] = scope_of(record.site)
    document["probes"] = {**(document.get("probes") or {}), **on_record(ctx, view.record, attempt)}
    if save:
        _write(save, document)
    return replace(_judged(record, document), row=_row(ctx, view), note=_not_seen(document))


def _by_its_scheduler(ctx: Context, record: RunRecord) -> RunView | None:
    """The run as `status` shows it, with its scheduler's word, which is then also on record; None without one."""
    box = ctx.box(record.site, record.lease)
    return refresh_one(ctx, record, timeout_s=CALL_S) if box.scheduler else None


def _waiting(ctx: Context, view: RunView, save: str) -> Why:
    """A run that waits for a machine: judged is what it waits for. What an earlier attempt died of is no cause of
    that, so neither its log nor its keeper's evidence counts."""
    from sojourn.verbs.observe import scheduled

    record = view.record
    probes = scheduled.evidence(ctx.box(record.site, record.lease), record)
    document: dict[str, Any] = {"schema": "sojourn/evidence/v1", "scope": scope_of(record.site), "probes": probes}
    document.update(run=record.id, attempt=view.status.attempt)
    if save:
        _write(save, document)
    why = _judged(record, document)
    judged = why.judged if why.judged.verdict else replace(why.judged, findings=(), is_healthy=True)
    return replace(why, judged=judged, row=_row(ctx, view), note=view.status.reason)


def _judged(record: RunRecord, document: Mapping[str, Any]) -> Why:
    catalog = _catalog(document)
    case = evidence.from_document(document, catalog)
    probes = document.get("probes") or {}
    read = f"{len(probes)} probes, {len(case.facts.known)} observations, attempt {document.get('attempt')}"
    answer = _answer(record.id, case, read, catalog)
    return answer if answer.judged.is_healthy else replace(answer, kept_home=kept_home(record, document))


def _heard(ctx: Context, record: RunRecord, since: Answer) -> RunView:
    for entry, blob in zip(since.value["runs"], since.blobs, strict=True):
        if entry["id"] == record.id:
            return take_in(ctx, record, entry, blob)
    return take_in(ctx, record, ABSENT, b"")


def _asked(ctx: Context, record: RunRecord, attempt: int) -> tuple[Answer, dict[str, Any] | None] | str:
    """(what is new of the run, its evidence or None where the box has no such run), or why the box does not answer."""
    box = ctx.box(record.site, record.lease)
    from sojourn.backends.keeper.client import KeeperRefused

    since = {"op": "since", "runs": {record.id: record.offset}, "moved": {}, "limit_bytes": LIMIT_BYTES}
    try:
        answers = box.keeper.ask_all(
            [since, {"op": "bundle", "run": record.id, "attempt": attempt, "log_bytes": LOG_BYTES}], timeout_s=CALL_S
        )
    except Unreachable as error:
        return error.message
    except KeeperRefused as error:
        if error.code != "no-such-run":
            raise
        return box.answer("since", runs={record.id: record.offset}, moved={}, limit_bytes=LIMIT_BYTES), None
    if isinstance(answers, NoAnswer):
        return f"{answers.kind}: {answers.detail}".removesuffix(": ")
    document = dict(answers[1].value["evidence"])
    if box.scheduler:  # what ended it may have seen more than what it ended
        from sojourn.verbs.observe import scheduled

        document["probes"] = {**(document.get("probes") or {}), **scheduled.evidence(box, record)}
    return answers[0], document


def _unseen(ctx: Context, record: RunRecord, attempt: int, why: str, save: str) -> Why:
    """The box does not answer: what its ssh said is judged, and of the run nothing is concluded.

    But for one whose bad end was recorded, where what its keeper saw then came home with the rest.
    """
    box = ctx.box(record.site, record.lease)
    at = record.run.root if box.is_blind else record.pulled_dir
    kept = _came_home(record.id, at, attempt or record.attempt)
    if kept is not None and not save:
        view = RunView(record, record.status, _reach(record, why))
        note = f"its box does not answer; this is the evidence that its keeper recorded at the end: {at}"
        kept["probes"] = {**(kept.get("probes") or {}), **on_record(ctx, record, attempt)}
        return replace(_judged(record, kept), row=_row(ctx, view), note=note)
    if save:
        raise NoEvidence(path=printable(save), run=record.id, why=why)
    probes = {"ssh": {"rc": 255, "stderr": why}, **on_record(ctx, record, attempt)}
    case = evidence.from_document({"scope": scope_of(record.site), "probes": probes}, gotchas())
    judged = reason(gotchas(), case)
    view = RunView(record, record.status, _reach(record, why))
    read, note = "nothing: its box does not answer", _UNKNOWN
    if box.is_blind and record.status.state.is_final:
        read, note = "nothing", f"{box.site.name} returned no evidence of how it ended; check its logs"
    return Why(record.id, replace(judged, verdict=None, is_healthy=False), read, row=_row(ctx, view), note=note)


def _reach(record: RunRecord, why: str) -> Reach:
    return Reach(False, "" if record.heard_s is None else units.stamp(record.heard_s), why)


def _came_home(run: str, folder: str, attempt: int) -> dict[str, Any] | None:
    """The keeper's evidence of that attempt among the run's files in `folder`; None where there is none."""
    if not folder:
        return None
    try:
        document = atomic.read_json(os.path.join(folder, "evidence", f"{attempt}.json"))
    except OSError:
        return None
    is_its = isinstance(document, dict) and (document.get("run"), document.get("attempt")) == (run, attempt)
    return document if is_its else None


def _undecided(ctx: Context, record: RunRecord, note: str, view: RunView | None = None) -> Why:
    row = _row(ctx, view or RunView(record, record.status, Reach()))
    return Why(record.id, Verdict(None, (), False), "nothing", row=row, note=note)


def _row(ctx: Context, view: RunView) -> Row:
    leases = {record.name: record for record in ctx.store.index.leases(open_only=False)}
    return row(view, leases, taken_s(ctx, [view], leases))


def _not_seen(document: Mapping[str, Any]) -> str:
    """What the evidence cannot speak of, in one line."""
    if document.get("here") is False:
        ran, here = (document.get("launch") or {}).get("host") or "another machine", document.get("host")
        return f"it ran on {printable(str(ran))}, and {printable(str(here))} answered: only its files could be read"
    return ""


def _write(path: str, document: Mapping[str, Any]) -> None:
    try:
        atomic.write(path, json.dumps(document, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass") + b"\n")
    except OSError as error:
        raise CannotWrite(path=printable(path), detail=error.strerror or str(error)) from error


def _catalog(document: Any) -> tuple[Gotcha, ...]:
    """The gotchas, and before them the rules that the run was launched with."""
    launch = document.get("launch") if isinstance(document, Mapping) else None
    own = gotchas_of(launch) if isinstance(launch, Mapping) else ()
    return own + gotchas() if own else gotchas()


def _answer(path: str, case: Case, read: str, catalog: tuple[Gotcha, ...] = ()) -> Why:
    judged = reason(catalog or gotchas(), case)
    said, alike = last_error(case), _alike(judged, case)
    is_done = judged.is_healthy and (case.has_succeeded or (case.log is not None and case.log.end.kind == "done"))
    return Why(printable(path), judged, read, said, events=events_of(case), alike=alike, is_done=is_done)


def _alike(judged: Verdict, case: Case) -> tuple[Alike, ...]:
    """Known logs speak only where no evidence does."""
    if judged.verdict is not None or judged.is_healthy or case.log is None or not case.log.size_bytes:
        return ()
    from sojourn.diagnose.nearest import nearest
    from sojourn.verbs.explain.known_logs import known_logs

    return nearest(known_logs(), case.log.tail)


def _plain(finding: Finding | Event | Alike) -> dict[str, Any]:
    plain: dict[str, Any] = finite(asdict(finding))
    return plain
