"""Seconds, bytes and money as people write and read them."""

from __future__ import annotations

import time

_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_second = (0, "1970-01-01T00:00:00")  # the last one written: many runs are heard at once
_BYTES = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}


def seconds(text: object) -> float:
    """Seconds from 90, "90", "90s", "350ms", "20m", "12h", "1h30m", "2d". Raises: ValueError (also below 0)."""
    import re  # the shim on the box needs only `stamp`, not 1 MiB for the rest

    raw = str(text).strip().lower()
    if re.fullmatch(r"\d+(\.\d+)?", raw):
        return float(raw)
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*(ms|[smhdw])", raw)
    if not parts or "".join(a + b for a, b in parts) != raw.replace(" ", ""):
        raise ValueError("not a duration: %r (write 90s, 20m, 12h, 1h30m or 2d)" % (text,))
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def size_bytes(text: object) -> int:
    """Bytes from 512, "512", "64k", "1.5GiB", "2g" (all powers of 1024). Raises: ValueError."""
    import re

    hit = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", str(text).strip().lower())
    if not hit:
        raise ValueError("not a size: %r (write 512, 64KiB, 1.5GiB)" % (text,))
    return int(float(hit.group(1)) * _BYTES[hit.group(2)])


def say_seconds(value_s: float) -> str:
    """A duration in at most two units: "0.4 s", "12 s", "3 m 12 s", "5 h 02 m", "3 d 4 h"."""
    if value_s < 10:
        return "%.1f s" % max(value_s, 0.0)
    whole = int(value_s + 0.5)
    if whole < 60:
        return "%d s" % whole
    if whole < 3600:
        return "%d m %02d s" % divmod(whole, 60)
    if whole < 86400:
        return "%d h %02d m" % (whole // 3600, whole % 3600 // 60)
    return "%d d %d h" % (whole // 86400, whole % 86400 // 3600)


def say_bytes(value_bytes: int) -> str:
    """A size in GiB and below: "312 B", "4.0 KiB", "2.31 GiB"."""
    if value_bytes < 1024:
        return "%d B" % value_bytes
    value = float(value_bytes)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= 1024
        if value < 1024 or unit == "TiB":
            break
    return ("%.2f %s" if unit in ("GiB", "TiB") else "%.1f %s") % (value, unit)


def say_money(micro: int, currency: str) -> str:
    """Integer micro-units of a currency as "1.19 USD"."""
    return "%.2f %s" % (micro / 1e6, currency)


_FIRST_S, _LAST_S = -30610224000.0, 253402300799.0  # the years of four digits, 1000 to 9999


def stamp(at_s: float) -> str:
    """UTC time with milliseconds and `Z`, as in all our files: "2026-11-21T10:00:00.123Z".

    A time beyond the years of four digits is the last or first in them: a broken clock, or "never".
    """
    global _second
    at_s = min(_LAST_S, max(_FIRST_S, at_s))
    whole = int(at_s // 1)
    if whole != _second[0]:
        _second = whole, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))
    return "%s.%03dZ" % (_second[1], int((at_s - whole) * 1000))


def unstamp(text: str) -> float:
    """Seconds since the epoch of a `stamp`. Raises: ValueError."""
    import calendar

    head, _, tail = text.rstrip("Z").partition(".")
    return calendar.timegm(time.strptime(head, "%Y-%m-%dT%H:%M:%S")) + float("0." + (tail or "0"))
