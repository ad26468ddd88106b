"""`learn`: from a diagnosed run to a draft of a gotcha, and from a filled draft to a patch. Edits nothing.

A new entry must be root-caused (a near miss shows what tells it apart), reproduced (it is confirmed on a second case),
or mechanistic (a source tells the mechanism), and in each case the evidence must confirm it. What is none of these is a
note for the project. Of the evidence only what decides goes into the patch, without secrets.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sojourn.core.gotcha import Gotcha
from sojourn.diagnose import evidence, grammar, vocabulary
from sojourn.diagnose.case import Case
from sojourn.diagnose.reason import Verdict, reason
from sojourn.store.gotchas import BadGotcha, gotchas, parse_gotcha
from sojourn.verbs.explain.specimen import Hide, added, changed, kept, pattern, toml, without
from sojourn.verbs.explain.why import BadEvidence, CannotRead
from sojourn.wire import quote
from sojourn.wire.errors import Refusal

GROUNDS = ("root-caused", "reproduced", "mechanistic")
LIMIT_BYTES = 64 << 20
_FALLBACK = "program-error"
_LACKS = "LACKS"
_URL = re.compile(r"https?://\S+")


class NothingToLearn(Refusal):
    """{why}"""

    code = "nothing-to-learn"
    next_step = "{step}"


class NotGrounded(Refusal):
    """The draft is not a gotcha yet: {count} missing."""

    # What lacks stands in `lines`.
    code = "not-grounded"
    next_step = "sojourn learn --help"


@dataclass(frozen=True)
class Learned:
    """`kind`: "draft" (a TOML text to fill in), "patch" (for `git apply`, to be reviewed first) or "settings"."""

    kind: str
    text: str
    remarks: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """`{"kind", "text", "remarks"}`."""
        return {"schema": "sojourn/learn/v1", "kind": self.kind, "text": self.text, "remarks": list(self.remarks)}


def draft(path: str, *, environ: Mapping[str, str] | None = None) -> Learned:
    """What is known of a gotcha that nobody wrote yet, as a TOML file with LACKS where a person must say it.

    `path`: an evidence file, or a log. Raises: NothingToLearn (healthy, or known already), CannotRead, BadEvidence.
    """
    document, case = _case(path)
    judged = reason(gotchas(), case)
    _refuse_known(judged, ())
    hide = Hide(os.environ if environ is None else environ)
    said = next((raised.said for raised in case.log.raised if raised.said), "") if case.log else ""
    if not said and case.log:
        said = next((line for line in reversed(case.log.tail.splitlines()) if _ERROR.search(line)), "")
    said = hide.text(said.strip())
    if not said and case.is_log_alone:
        why = "No line reports a failure, and it holds no facts about a box: there is nothing to draft from"
        raise NothingToLearn(why=why, step=quote.join(["sojourn", "why", "--log", path]))
    name = re.sub(r"[^a-z0-9]+", "-", said.split(":")[0].split(".")[-1].lower()).strip("-")[:40] or "a-new-gotcha"
    scope = document.get("scope") if isinstance(document.get("scope"), list) else ["universal"]
    confirmed = [finding.id for finding in judged.findings if finding.status == "confirmed"]
    fields: list[tuple[str, Any]] = [
        ("id", name),
        ("title", _LACKS),
        ("theme", _LACKS),
        ("scope", scope),
        ("severity", "blocker"),
        ("role", "program" if said else "cause"),
        ("tier", 50),
        ("cause", _LACKS),
        ("fix", _LACKS),
        ("never", ""),
        ("sources", [_LACKS]),
    ]
    lines = [
        "# A draft. Fill in what LACKS; `sojourn help adding-a-gotcha` explains the keys. Then:",
        "#   sojourn learn EVIDENCE --draft THIS --because root-caused --miss A-NEAR-MISS.json",
        *(f"# also true in this evidence: {other}" for other in confirmed[:5]),
        *(f"{key} = {toml(value)}" for key, value in fields if value != ""),
        "",
        "[symptom]",
        f"en = {toml(said or _LACKS)}",
        f"zh = {toml(_LACKS)}",
    ]
    if said:
        lines += ["", "[[patterns]]", f"text = {toml(pattern(said))}"]
    else:
        lines.insert(-4, f"confirm = [{toml(_LACKS)}]")
    told = "no known cause matches" if judged.verdict is None else f"currently diagnosed as {judged.verdict.id}"
    return Learned("draft", "\n".join(lines) + "\n", (told,))


def patch(
    path: str,
    draft_path: str,
    because: str,
    *,
    again: str = "",
    miss: str = "",
    environ: Mapping[str, str] | None = None,
) -> Learned:
    """The filled draft with its specimens, as a patch to review.

    Raises: NotGrounded with all that lacks, NothingToLearn, CannotRead, BadEvidence.
    """
    document, case = _case(path)
    lacks: list[str] = []
    gotcha, text = _drafted(draft_path, lacks)
    if because not in GROUNDS:
        lacks.append(f"--because is one of {', '.join(GROUNDS)}; for anything else use --note")
    if gotcha is None:
        raise _lacking(lacks)
    _refuse_known(reason(gotchas(), case), (*gotcha.refines, gotcha.id))
    if gotcha.id in {one.id for one in gotchas()}:
        lacks.append(f"id: {gotcha.id} already exists; `sojourn gotchas show {gotcha.id}`")
    lacks += _odd_conditions(gotcha)
    if lacks:
        raise _lacking(lacks)
    if not _confirms(gotcha, document):
        lacks.append("evidence: the draft's conditions and patterns do not confirm it on this case")
    if because == "root-caused" and not miss:
        lacks.append("--miss FILE: a case that looks alike but has another cause")
    if because == "reproduced" and not again:
        lacks.append("--again FILE: a second case of the same problem")
    if because == "mechanistic" and not any(_URL.search(source) for source in gotcha.sources):
        lacks.append("sources: a URL that explains the mechanism")
    hide = Hide(os.environ if environ is None else environ)
    folder = f"tests/specimens/{gotcha.id}"
    specimens = {f"{folder}/hit-1.json": _specimen(document, gotcha, hide)}
    if again:
        other, _ = _case(again)
        if other == document:
            lacks.append("--again: this is the same case again")
        elif not _confirms(gotcha, other):
            lacks.append("--again: the draft is not confirmed there, so it was not reproduced")
        specimens[f"{folder}/hit-2.json"] = _specimen(other, gotcha, hide)
    if miss:
        other, _ = _case(miss)
        if _confirms(gotcha, other):
            lacks.append("--miss: the draft is confirmed there too, so nothing distinguishes the cause")
        specimens[f"{folder}/miss-1.json"] = hide.document(other)
    elif not _confirms(gotcha, bare := without(specimens[f"{folder}/hit-1.json"], gotcha)):
        specimens[f"{folder}/miss-1.json"] = bare
    if lacks:
        raise _lacking(lacks)
    files = {f"src/sojourn/data/gotchas/{gotcha.id}.toml": hide.text(text)}
    files.update({name: json.dumps(value, ensure_ascii=False, indent=1) + "\n" for name, value in specimens.items()})
    remarks = ["read it before you apply it: git apply FILE, then make test"]
    if not miss:
        remarks.append(
            "miss-1.json is this case minus the deciding evidence; a case with another cause (--miss FILE) proves more"
        )
    return Learned("patch", "".join(added(name, files[name]) for name in sorted(files)), tuple(remarks))


def note(path: str, text: str, *, environ: Mapping[str, str] | None = None) -> Learned:
    """What is true of one project only, as a patch of its `sojourn-notes.md`. Raises: CannotRead, BadEvidence."""
    document, case = _case(path)
    hide = Hide(os.environ if environ is None else environ)
    judged = reason(gotchas(), case)
    told = judged.verdict.id if judged.verdict else "healthy" if judged.is_healthy else "undetermined"
    body = f"- {hide.text(' '.join(text.split()))} (verdict: {told}; {len(document.get('probes') or {})} probes)\n"
    name = "sojourn-notes.md"
    old = ""
    if os.path.exists(name):
        with open(name, encoding="utf-8") as f:
            old = f.read()
    return Learned("patch", changed(name, old, old + body) if old else added(name, body), ("a note, not an entry",))


_ERROR = re.compile(r"(?i)error|exception|fatal|failed|abort")


def _case(path: str) -> tuple[dict[str, Any], Case]:
    """The evidence document of a file, and its case; a file that is not JSON is a log."""
    try:
        with open(path, "rb") as f:
            raw = f.read(LIMIT_BYTES + 1)
    except OSError as error:
        raise CannotRead(path=path, detail=error.strerror or str(error)) from error
    if len(raw) > LIMIT_BYTES:
        raise BadEvidence(path=path, detail="it is too large for a draft; give the part that matters")
    document: Any
    if raw.lstrip()[:1] == b"{":
        try:
            document = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise BadEvidence(path=path, detail="it is not JSON") from error
    elif b"\0" in raw[:4096]:
        raise BadEvidence(path=path, detail="it is neither an evidence file nor the text of a log")
    else:
        log = {"stdout": raw.decode("utf-8", "replace")}
        document = {"schema": "sojourn/evidence/v1", "scope": ["universal"], "probes": {"log": log}}
    try:
        return document, evidence.from_document(document, gotchas())
    except evidence.NotEvidence as error:
        raise BadEvidence(path=path, detail=str(error)) from error


def _refuse_known(judged: Verdict, allowed: tuple[str, ...]) -> None:
    """Raises: NothingToLearn where nothing is wrong, or an entry tells it already."""
    if judged.is_healthy:
        raise NothingToLearn(why="This run has no problem, so there is nothing to learn", step="sojourn status")
    best = judged.verdict
    if best is not None and best.status == "confirmed" and best.id not in (_FALLBACK, *allowed):
        why = f"This is already known: {best.title} [{best.id}]. If your draft adds something, name it under `refines`"
        raise NothingToLearn(why=why, step=f"sojourn gotchas show {best.id}")


def _drafted(path: str, lacks: list[str]) -> tuple[Gotcha | None, str]:
    try:
        with open(path, encoding="utf-8") as f:
            text = "".join(line for line in f if not line.startswith("#"))
    except (OSError, UnicodeDecodeError) as error:
        raise CannotRead(path=path, detail=getattr(error, "strerror", "") or "it is not UTF-8 text") from error
    lacks += [f"{line.split('=')[0].strip()}: still says {_LACKS}" for line in text.splitlines() if _LACKS in line]
    found = re.search(r'(?m)^id = "([^"]*)"', text)
    try:
        return parse_gotcha(f"{found.group(1) if found else ''}.toml", text), text
    except BadGotcha as error:
        lacks.append(error.message)
        return None, text


def _odd_conditions(gotcha: Gotcha) -> list[str]:
    out = []
    for condition in (*gotcha.confirm, *gotcha.refute, *gotcha.weak):
        try:
            names = {n for p in grammar.parse(condition) for n in (p.what, p.other) if n}
        except ValueError as error:
            out.append(f"condition {condition!r}: {error}")
            continue
        out += [
            f"condition: no observation is called {name}" for name in sorted(names - set(vocabulary.observations()))
        ]
    return out


def _confirms(gotcha: Gotcha, document: Mapping[str, Any]) -> bool:
    with_it = (*(one for one in gotchas() if one.id != gotcha.id), gotcha)
    judged = reason(with_it, evidence.from_document(document, with_it))
    return any(finding.id == gotcha.id and finding.status == "confirmed" for finding in judged.findings)


def _specimen(document: Mapping[str, Any], gotcha: Gotcha, hide: Hide) -> dict[str, Any]:
    """What of the evidence confirms the draft, without secrets; all of it where less would not do."""
    small: dict[str, Any] = hide.document(kept(document, gotcha))
    whole: dict[str, Any] = hide.document(document)
    return small if _confirms(gotcha, small) else whole


def _lacking(lacks: list[str]) -> NotGrounded:
    return NotGrounded(count=f"{len(lacks)} thing{'' if len(lacks) == 1 else 's'}", lines=lacks)
