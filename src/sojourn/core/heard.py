"""One event of a box as the fold takes it: every field of the right type, finite and bounded, or left out. Pure.

Events come from the box, and a box is not trusted: a field of the wrong type counts as not reported, so one odd line
neither ends a look nor fills the records. wire/events.py says what the fields mean.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sojourn.core.plain import finite
from sojourn.wire import units

if TYPE_CHECKING:
    from sojourn.wire.documents import Event

MOST = 1 << 53
UNITS = ("epoch", "sample")  # what a progress counts, if not steps
_MOST_ATTEMPT = 1 << 31
_TEXT_CHARS = 2000
_GLOBS = 1000
_CARDS = 1024
_METRICS = 200  # values in all; a training process's own report is shown in one line
_METRIC_CHARS = 200
_METRIC_DEPTH = 4
_HEX = re.compile(r"[0-9a-f]{64}")
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z", re.ASCII)

_UNTOLD = object()
Read = Callable[[Any], Any]


def heard(event: Mapping[str, Any]) -> Event | None:
    """The event with the fields of its kind; None if it cannot be folded: an unknown kind, or an invalid sequence or
    attempt number.
    """
    kind = event.get("kind")
    fields = _FIELDS.get(kind) if isinstance(kind, str) else None
    seq, attempt = whole(event.get("seq")), whole(event.get("attempt"))
    if fields is None or seq is None or attempt is None or attempt > _MOST_ATTEMPT:
        return None
    found: Any = {"kind": kind, "seq": seq, "attempt": attempt, "at": _time(event.get("at"))}
    for name, read in fields.items():
        if name in event:
            value = read(event[name])
            if value is not _UNTOLD:
                found[name] = value
    known: Event = found
    return known


def whole(value: Any) -> int | None:
    """A whole number from 0 to 2^53, else None."""
    is_one = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST
    return value if is_one else None


def signed(value: Any) -> int | None:
    """The same, negative numbers included: a return code, a step that counts down."""
    is_one = isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MOST
    return value if is_one else None


def number(value: Any) -> float | None:
    """A finite number, else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= MOST:
        return None
    return float(value)


def text(value: Any) -> str:
    """A text, cut if longer than any of ours; "" if it is not one. Broken characters become escapes."""
    if not isinstance(value, str):
        return ""
    head = value if len(value) <= _TEXT_CHARS else value[: _TEXT_CHARS - 4] + " ..."
    return head if head.isascii() else head.encode("utf-8", "backslashreplace").decode("utf-8")


def progress(value: Any) -> Any:
    """A progress document: {"step","total","epoch","unit","metrics","at"}, keeping what has the right type."""
    if not isinstance(value, Mapping):
        return _UNTOLD
    found: dict[str, Any] = {name: signed(value.get(name)) for name in ("step", "total", "epoch")}
    found["at"] = _time(value.get("at"))
    found["unit"] = value["unit"] if value.get("unit") in UNITS else ""
    if isinstance(value.get("metrics"), Mapping):
        found["metrics"] = finite(_metrics(value["metrics"], [_METRICS], _METRIC_DEPTH))
    return found


def _time(value: Any) -> str:
    """A stamp, or "" if it is not one."""
    if not isinstance(value, str) or not _STAMP.fullmatch(value):
        return ""
    try:
        units.unstamp(value)
    except ValueError:
        return ""
    return value


def _metrics(value: Any, left: list[int], depth: int) -> Any:
    left[0] -= 1
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return text(value[:_METRIC_CHARS])
    if isinstance(value, int):
        return value if abs(value) <= MOST else (math.inf if value > 0 else -math.inf)
    if isinstance(value, float):
        return value
    out: dict[str, Any] = {}
    if depth and isinstance(value, Mapping):
        for name, one in value.items():
            if left[0] <= 0:
                break
            out[text(str(name)[:_METRIC_CHARS])] = _metrics(one, left, depth - 1)
        return out
    if depth and isinstance(value, (list, tuple)):
        return [_metrics(one, left, depth - 1) for one in value[: max(0, left[0])]]
    return None


def _digest(value: Any) -> str:
    return value if isinstance(value, str) and _HEX.fullmatch(value) else ""


def _globs(value: Any) -> tuple[str, ...]:
    return tuple(text(one) for one in value[:_GLOBS]) if isinstance(value, (list, tuple)) else ()


def _cards(value: Any) -> Any:
    if not isinstance(value, (list, tuple)):
        return _UNTOLD
    return [{"util_pct": number(card.get("util_pct"))} if isinstance(card, Mapping) else {} for card in value[:_CARDS]]


def _code(value: Any) -> Any:
    """What an event reports beside its end: a number or a short text, unchanged."""
    if isinstance(value, str):
        return text(value)
    return value if value is None or isinstance(value, bool) else _finite(value)


def _finite(value: Any) -> Any:
    if isinstance(value, int):
        return signed(value)
    return number(value) if isinstance(value, float) else None


_FIELDS: dict[str, dict[str, Read]] = {
    "attempt": {"oom_kill": whole, "seat": text},
    "started": {},
    "beat": {"log_bytes": whole, "log_age_s": number, "oom_kill": whole, "gpu": _cards, "progress": progress},
    "checkpoint": {"path": text, "step": signed, "bytes": whole, "write_s": number},
    "restarted": {"step": signed, "resumes": text},
    "budget": {"pct": whole, "spent_s": number, "limit_s": number},
    "stalled": {"quiet_s": number},
    "moving": {},
    "signal": {"signal": _code, "why": text},
    "ended": {
        "state": text,
        "rc": signed,
        "signal": signed,
        "seconds": number,
        "oom_kill_delta": signed,
        "why": text,
        "by": text,
        "detail": text,
    },
    "prepared": {"code": _digest},
    "judged": {"state": text, "detail": text},
    "ruled": {"rule": text, "action": text},
    "sealed": {"manifest": _digest, "missing": _globs, "unnamed": _globs},
    "refused": {"why": text},
}
