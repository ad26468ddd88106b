"""Entry point for a box's answers: each is decoded by the shape of its op and checked against its question, or refused.

A box is not trusted (docs/threat-model.md). What passes has the types that verbs rely on, is finite and bounded,
answers the question, and its paths stay inside; whether it is true is another matter.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from sojourn.backends.keeper.answer_shapes import ANSWERS, BATCH, REFUSED, STAMPS, little
from sojourn.backends.keeper.shapes import Wrong, preview, text
from sojourn.wire.errors import WorldError

_LINE_BYTES = 1 << 20  # as in box/ops/since: beyond its limit an answer holds one more line, to make progress
_READ_BYTES = 8 << 20  # as in box/ops/files
_EVENTS_BYTES = 8 << 20
_HEAD_BYTES = 1 << 20  # frames' heads, login messages, and what any answer has beside the requested data
_RUN_BYTES, _RUNS_BYTES = 72 << 10, 64 << 20  # per run in an answer, beside its events: mostly its progress; of all
_BATCH_BYTES = 256 << 20
_WHY_CHARS = 2000
_CODE = re.compile(r"[a-z][a-z0-9-]{0,40}")
_DEFAULT_BASE = "/.local/share/sojourn"


class BadAnswer(WorldError):
    """{site} gave an invalid answer to `{op}`: {what}. It was not used."""

    # The box is sick or hostile, or something in between alters the data.
    code = "bad-answer"
    next_step = "sojourn doctor {site}"


def decode(op: str, request: Mapping[str, Any], value: Any, blobs: Sequence[bytes]) -> dict[str, Any]:
    """The answer to one op, made safe to use. `request`: the fields of the question. Raises: Wrong."""
    head = STAMPS(value)
    if op == "batch":
        body = {"answers": _batch(request["ops"], value, len(blobs))}
    else:
        body = ANSWERS[op](value)
        _CHECKS.get(op, _nothing)(request, body, blobs)
    return {**{key: head[key] for key in _STAMPED if key in head}, **body}


def refusal(value: Any) -> dict[str, Any]:
    """The box's refusal: `code`, `message`, and that code's other fields. Raises: Wrong."""
    if not isinstance(value, dict):
        raise Wrong(f"{preview(value)} where an object is expected")
    code, said = value.get("code", "world"), value.get("message", "no reason given")
    if not isinstance(code, str) or not _CODE.fullmatch(code):
        raise Wrong(f"{preview(code)} where the name of an error is expected").under("code")
    message = text(1 << 20)(said)
    more = REFUSED[code](value) if code in REFUSED else little({k: v for k, v in value.items() if k in _MORE})
    return {**more, "ok": False, "code": code, "message": message[:_WHY_CHARS]}


def limit_bytes(op: str, request: Mapping[str, Any]) -> int:
    """The largest possible answer to this, in bytes."""
    if op == "batch":
        return min(_HEAD_BYTES + sum(limit_bytes(str(one["op"]), one) for one in request["ops"]), _BATCH_BYTES)
    if op in ("since", "proven"):
        asked = request.get("runs")
        is_all = op == "since" and asked is None
        count = 1000 if is_all else 1 + len(asked or ()) + len(request.get("moved") or ())
        return _events_bytes(request) + min(count * _RUN_BYTES, _RUNS_BYTES) + _HEAD_BYTES
    if op == "read":
        return _HEAD_BYTES + min(int(request.get("length") or _READ_BYTES), _READ_BYTES)
    return _BYTES.get(op, 4 << 20)


def is_base(asked: str, said: str) -> bool:
    """Whether a box may say that its base is `said`: our files go below it. `asked`: as in the settings."""
    if not asked:
        return said.endswith(_DEFAULT_BASE)
    if os.path.isabs(asked):
        return os.path.normpath(asked) == said
    return said.endswith("/" + os.path.normpath(asked.removeprefix("~/")).lstrip("/"))


_STAMPED = ("ok", "now", "boot_id", "pid1_start", "by")
_MORE = ("errno", "ops", "last", "identity", "root")
_BYTES = {
    "manifest": 256 << 20,
    "lacking": 32 << 20,
    "roots": 16 << 20,
    "survey": 32 << 20,
    "usage": 32 << 20,
    "withdraw": 16 << 20,
    "forget_secrets": 16 << 20,
    "bundle": 48 << 20,
    "look": 48 << 20,
}


def _batch(ops: Sequence[Mapping[str, Any]], value: Any, blobs: int) -> list[dict[str, Any]]:
    answers: list[dict[str, Any]] = BATCH(value)["answers"]
    if len(answers) > len(ops) or not all(one["ok"] for one in answers[:-1]):
        raise Wrong(f"{len(answers)} answers to {len(ops)} questions, or more after one that was refused")
    if len(answers) < len(ops) and (not answers or answers[-1]["ok"]):
        raise Wrong(f"{len(answers)} answers to {len(ops)} questions")
    if sum(one["frames"] for one in answers) != blobs:
        raise Wrong(f"{blobs} frames of bytes, but its answers announce {sum(one['frames'] for one in answers)}")
    return answers


def _nothing(request: Mapping[str, Any], value: Mapping[str, Any], blobs: Sequence[bytes]) -> None:
    if blobs:
        raise Wrong(f"{len(blobs)} frames of bytes where none is expected")


def _events_bytes(request: Mapping[str, Any]) -> int:
    return int(request.get("limit_bytes") or _EVENTS_BYTES) + _LINE_BYTES


def _since(request: Mapping[str, Any], value: Mapping[str, Any], blobs: Sequence[bytes]) -> None:
    asked = request.get("runs")
    offsets = None if asked is None else {**(request.get("moved") or {}), **asked}
    _rows(value["runs"], offsets, blobs, _events_bytes(request))


def _proven(request: Mapping[str, Any], value: Mapping[str, Any], blobs: Sequence[bytes]) -> None:
    rows = value["runs"]
    if len(rows) != 1:
        raise Wrong(f"{len(rows)} runs, but one was asked for")
    _rows(rows, {request["run"]: int(request.get("offset") or 0)}, blobs, _events_bytes(request))


def _rows(
    rows: Sequence[Mapping[str, Any]], offsets: Mapping[str, Any] | None, blobs: Sequence[bytes], most_bytes: int
) -> None:
    if len(blobs) != len(rows):
        raise Wrong(f"{len(rows)} runs and {len(blobs)} frames of events")
    if sum(map(len, blobs)) > most_bytes:
        raise Wrong(f"more than {most_bytes} bytes of events, which was the limit")
    seen = set()
    for row, blob in zip(rows, blobs, strict=True):
        run = row["id"]
        if run in seen or (offsets is not None and run not in offsets):
            raise Wrong(f"{run} was not asked for, or comes twice")
        seen.add(run)
        before = 0 if offsets is None else int(offsets[run])
        # From the requested offset, or from the start if the file became shorter than that.
        if row["offset"] - len(blob) not in (before, 0):
            raise Wrong(f"events of {run} from {before} on end at {row['offset']} after {len(blob)} bytes")
        if blob and not blob.endswith(b"\n"):
            raise Wrong(f"events of {run} end within a line")
        if row["keeper"] != "alive" and "argv" not in row:
            raise Wrong(f"no keeper of {run} lives, and argv is missing")
        _root_of(row["root"], run)


def _root_of(root: str, run: str) -> None:
    if not root.endswith("/runs/" + run):
        raise Wrong(f"the root of {run} is {preview(root)}")


def _read(request: Mapping[str, Any], value: Mapping[str, Any], blobs: Sequence[bytes]) -> None:
    if len(blobs) != 1:
        raise Wrong(f"{len(blobs)} frames of bytes where one is expected")
    most = min(int(request.get("length") or _READ_BYTES), _READ_BYTES)
    if len(blobs[0]) > most:
        raise Wrong(f"{len(blobs[0])} bytes, but {most} were requested")
    size, offset = value["size"], value["offset"]
    asked = int(request.get("offset") or 0)
    if request.get("tail_lines") is not None:
        if offset > size:
            raise Wrong(f"an offset of {offset} in a file of {size} bytes")
    elif offset != (asked if asked <= size else 0):
        raise Wrong(f"bytes from offset {offset}, but offset {asked} was requested")


def _manifest(request: Mapping[str, Any], value: Mapping[str, Any], blobs: Sequence[bytes]) -> None:
    _nothing(request, value, blobs)
    document = value["manifest"]
    if document["run"] != request["run"]:
        raise Wrong(f"a manifest of {document['run']}, but that of {request['run']} was requested")
    paths = [row["path"] for row in document["files"]]
    if len(set(paths)) != len(paths):
        raise Wrong("the manifest lists a file twice")


def _roots(request: Mapping[str, Any], value: Mapping[str, Any], blobs: Sequence[bytes]) -> None:
    _nothing(request, value, blobs)
    before, rows = str(request.get("after") or ""), value["runs"]
    for row in rows:
        if row["id"] <= before:
            raise Wrong(f"{row['id']} after {preview(before)}: they are not in the order of their names")
        before = row["id"]
        _root_of(row["root"], before)
    if value["more"] and not rows:
        raise Wrong("there are more runs, but none is listed")


def _survey(request: Mapping[str, Any], value: Mapping[str, Any], blobs: Sequence[bytes]) -> None:
    _nothing(request, value, blobs)
    if value["more"] and not any(base["runs"] for base in value["bases"]):
        raise Wrong("there are more runs, but none is listed")
    for base in value["bases"]:
        for row in base["runs"]:
            _root_of(row["root"], row["id"])


def _have(request: Mapping[str, Any], value: Mapping[str, Any], blobs: Sequence[bytes]) -> None:
    _nothing(request, value, blobs)
    _among(value["missing"], request["names"])


def _lacking(request: Mapping[str, Any], value: Mapping[str, Any], blobs: Sequence[bytes]) -> None:
    _nothing(request, value, blobs)
    numbers = [row[0] for row in value["lacking"] if len(row) == 2]
    if len(numbers) != len(value["lacking"]) or numbers != sorted(set(numbers)):
        raise Wrong("what is lacking is told in pairs, in order, once each")
    if value["made"] and numbers:
        raise Wrong("nothing can be lacking of what is made")


def _moved(request: Mapping[str, Any], value: Mapping[str, Any], blobs: Sequence[bytes]) -> None:
    """For `withdraw` and `forget_secrets`: runs in the question, each on one side."""
    _nothing(request, value, blobs)
    told = [run for key in ("taken", "gone", "kept") for run in value.get(key, ())]
    if len(set(told)) != len(told):
        raise Wrong("a run is listed twice")
    if request.get("runs") is not None:
        _among(told, request["runs"])


def _placed(request: Mapping[str, Any], value: Mapping[str, Any], blobs: Sequence[bytes]) -> None:
    _nothing(request, value, blobs)
    _root_of(value["root"], str(request["run"]["run"]))
    if request.get("want") and not {"attempt", "last"} <= value.keys():
        raise Wrong("an attempt was requested, but none is named")


def _remove(request: Mapping[str, Any], value: Mapping[str, Any], blobs: Sequence[bytes]) -> None:
    _nothing(request, value, blobs)
    asked = [request["name"]] if request["kind"] == "runs" else list(request["names"])
    told = [row["name"] for row in (*value["removed"], *value["kept"])]
    _among(told, asked)
    if len(told) != len(asked):
        raise Wrong(f"{len(told)} items are reported, but {len(asked)} were requested")


def _usage(request: Mapping[str, Any], value: Mapping[str, Any], blobs: Sequence[bytes]) -> None:
    _nothing(request, value, blobs)
    for row in value["things"]:
        if "/" in row["name"] or row["name"] in ("", ".", ".."):
            raise Wrong(f"{preview(row['name'])} is not the name of anything that sojourn stores")


def _reap(request: Mapping[str, Any], value: Mapping[str, Any], blobs: Sequence[bytes]) -> None:
    _nothing(request, value, blobs)
    told = [(row["pid"], row["start"]) for row in (*value["ended"], *value["kept"])]
    _among(told, [tuple(one) for one in request["victims"]])


def _bundle(request: Mapping[str, Any], value: Mapping[str, Any], blobs: Sequence[bytes]) -> None:
    _nothing(request, value, blobs)
    if value["evidence"].get("run", request["run"]) != request["run"]:
        raise Wrong(f"evidence of {value['evidence']['run']}, but that of {request['run']} was requested")


def _hello(request: Mapping[str, Any], value: Mapping[str, Any], blobs: Sequence[bytes]) -> None:
    _nothing(request, value, blobs)
    if not is_base(str(request.get("base") or ""), value["base"]):
        raise Wrong(f"its base is {preview(value['base'])}, which is not the one asked for")
    if (request.get("run") or request.get("queue")) and "argv" not in value:
        raise Wrong("argv is missing")


def _among(told: Sequence[Any], asked: Sequence[Any]) -> None:
    known = set(asked)
    for one in told:
        if one not in known:
            raise Wrong(f"{preview(one if isinstance(one, str) else str(one))} was not asked about")


_CHECKS = {
    "hello": _hello,
    "have": _have,
    "lacking": _lacking,
    "receive": _lacking,
    "since": _since,
    "proven": _proven,
    "read": _read,
    "manifest": _manifest,
    "roots": _roots,
    "survey": _survey,
    "withdraw": _moved,
    "forget_secrets": _moved,
    "place": _placed,
    "remove": _remove,
    "usage": _usage,
    "reap": _reap,
    "bundle": _bundle,
}
