"""An evidence document (schema sojourn/evidence/v1) or a log becomes a case. Pure: the document is read already.

Raw text wins over a given fact: a parser mended later judges an old document anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sojourn.core.gotcha import Gotcha
from sojourn.diagnose import derive, pasted, scan, vocabulary
from sojourn.diagnose.case import BARE_LOG_SCOPE, Case, scope_of
from sojourn.diagnose.events import with_events
from sojourn.diagnose.facts import kernel, ports, table
from sojourn.diagnose.grammar import KEPT, Facts, Known
from sojourn.diagnose.scan import LogSeen

# Observations whose text is searched for patterns, by stream.
STREAMS = {
    "log": ("run.log_text",),  # and vocabulary.outputs()
    "kernel": ("kmsg.oom_lines", "kmsg.fs_errors", "kmsg.segfaults"),
    "ssh": ("ssh.stderr",),
    "smi": ("gpu.smi_text",),
    "k8s": ("k.events", "k.message", "k.cond", "k.job_cond", "k.last"),
}
BLOCK_BYTES = 1024  # the smallest that file systems give out
_LOG = re.compile(r"^log|log.?tail|logs?/\d+|\.log$|\.out$|stdout|stderr")
_RECORDS = re.compile(r"^(?:exits?|stop|events)\b")
_KERNEL = re.compile(r"dmesg|kmsg|kernel")


class NotEvidence(ValueError):
    """A document that is not of the schema."""


def from_document(document: Any, gotchas: Sequence[Gotcha]) -> Case:
    """The case of an evidence document. Raises: NotEvidence."""
    if not isinstance(document, Mapping):
        raise NotEvidence("the document is no JSON object")
    schema = document.get("schema", "sojourn/evidence/v1")
    if not str(schema).startswith("sojourn/evidence/"):
        raise NotEvidence(f"the schema is {schema!r}, not sojourn/evidence/v1")
    launch, probes, given = (_part(document, name) for name in ("launch", "probes", "facts"))
    known = {str(name): Known(value, "given") for name, value in given.items()}
    known.update(_observed(probes, launch))
    for word in ("before", "now"):  # other looks at the same run and at its box
        looked = _of(_of(document, word), "probes")
        seen_then = _observed(looked, launch)
        known = (derive.since if word == "before" else derive.besides)(known, seen_then, probes, looked)
    streams: dict[str, list[str]] = {}
    for probe in _probes(probes, launch):
        if _LOG.search(probe.name) and not probe.is_silent:
            parts = streams.setdefault("log", [])
            text = probe.text + ("\n" + probe.stderr if probe.stderr else "")
            parts.insert(0 if probe.name.endswith(" head") else len(parts), text)
        elif _KERNEL.search(probe.name):
            streams.setdefault("kernel", []).append(kernel.apart(kernel.since_launch(probe), kernel.group_of(probe))[0])
    for stream, names in STREAMS.items():
        for what in (*names, *(vocabulary.outputs() if stream == "log" else ())):
            if what in known and (stream != "kernel" or "kernel" not in streams):
                streams.setdefault(stream, []).append(_lines(known[what].value))
    log = scan.scan_log("\n".join(streams.pop("log")).encode(), gotchas) if "log" in streams else None
    known = derive.joined({**_with_log(known, log), **ports.taken(log.text if log else "", probes, launch)}, launch)
    if "kernel" in streams:
        streams["kernel"] = [derive.of_kernel("\n".join(streams["kernel"]), known)]
    texts = {stream: "\n".join(parts) for stream, parts in streams.items()}
    seen = {stream: scan.scan_log(text.encode(), gotchas) for stream, text in texts.items() if text.strip()}
    kept = {word: {**launch, **_of(document, word)} for word in KEPT}
    looked = seen if log is None else {"log": log, **seen}
    return with_events(Case(Facts(known, kept), scope_of(document.get("scope")), looked))


def _probes(probes: Mapping[str, Any], launch: Mapping[str, Any]) -> Iterator[table.Probe]:
    """Every probe, the keeper's own records last: what they say of an end stands."""
    texts = {str(name): _text(told, "stdout") for name, told in probes.items()}
    for name, told in sorted(probes.items(), key=lambda item: bool(_RECORDS.search(str(item[0])))):
        more = told if isinstance(told, Mapping) else {}
        yield table.Probe(
            str(name), texts[str(name)], _text(told, "stderr"), _rc(told), _text(told, "at"), launch, texts, more
        )


def _observed(probes: Mapping[str, Any], launch: Mapping[str, Any]) -> dict[str, Known]:
    found: dict[str, Known] = {}
    for probe in _probes(probes, launch):
        if _LOG.search(probe.name) and not probe.is_silent:
            found.update(_log_age(probe))
        for what, value in table.observe(probe, is_log=_LOG.search(probe.name) is not None).items():
            if what == "run.alive" and value is False and found.get(what, Known(None)).value is True:
                found["run.alive_disputed"] = Known(True, f"{found[what].source}, probe {probe.name}", probe.at)
            found[what] = Known(value, f"probe {probe.name}", probe.at)
    return found


def from_log(seen: LogSeen, scope: Iterable[str] = BARE_LOG_SCOPE) -> Case:
    """The case of a log that was scanned, and nothing else known but what tables of tools in it say."""
    known = pasted.observed(seen.tail, seen.lines - seen.tail.count("\n"), seen.end)
    return with_events(Case(Facts(_with_log(known, seen), {}), frozenset(scope), {"log": seen}))


def _with_log(known: Mapping[str, Known], log: LogSeen | None) -> dict[str, Known]:
    found = dict(known)
    if log is not None and not log.size_bytes:  # it was read, and the run printed nothing
        found.setdefault("run.log_text", Known("", "the log"))
    elif log is not None:
        told: dict[str, Any] = {
            "run.log_text": log.text,
            "run.log_traceback": bool(log.raised),
            "run.log_end": log.end.kind,
            "run.log_loss_finite": log.end.is_finite,
            "run.log_norm_finite": log.end.is_norm_finite,
            "run.log_raised": log.end.raised or None,
            "run.step": log.end.step,
            "run.step_total": log.end.total,
        }
        for what, value in told.items():
            if value is not None and (what not in found or what == "run.log_text"):
                found[what] = Known(value, "the log")
    return found


def _log_age(probe: table.Probe) -> dict[str, Known]:
    found: dict[str, Known] = {}
    if not probe.name.endswith(" head"):
        for key, name in (("age_s", "run.log_age_s"), ("size", "run.log_bytes")):
            if isinstance(probe.more.get(key), (int, float)):
                found[name] = Known(probe.more[key], f"probe {probe.name}", probe.at)
        size = found.get("run.log_bytes", Known(0)).value
        if size:
            found["run.log_block_left"] = Known(-int(size) % BLOCK_BYTES, f"probe {probe.name}", probe.at)
    return found


def _text(told: Any, key: str) -> str:
    if isinstance(told, str):
        return told if key == "stdout" else ""
    value = told.get(key) if isinstance(told, Mapping) else None
    return value if isinstance(value, str) else ""


def _rc(told: Any) -> int | None:
    value = told.get("rc") if isinstance(told, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _lines(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return " ".join(f"{key} {inner}" for key, inner in value.items())
    if isinstance(value, (list, tuple)):
        return "\n".join(_lines(inner) for inner in value)
    return ""


def _part(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = document.get(name)
    if value is not None and not isinstance(value, Mapping):
        raise NotEvidence(f"{name} is no object")
    return value or {}


def _of(document: Mapping[str, Any], word: str) -> Mapping[str, Any]:
    value = document.get(word)
    return value if isinstance(value, Mapping) else {}
