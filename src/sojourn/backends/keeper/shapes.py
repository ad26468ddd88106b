"""Shapes of remote JSON: small parts that say what a value must be, and refuse every other one in half a line.

A shape is called with a value and returns it, made safe to use, or raises Wrong. Every text, list and number here has a
maximum. Our own code, because every command that asks a box loads it: msgspec is compiled for the client's machine
alone, and importing pydantic takes longer than a whole `sojourn status`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sojourn.wire import manifest, names, units

Shape = Callable[[Any], Any]

MOST = 1 << 53  # beyond it other readers of JSON round; none of our counts or sizes comes near
TEXT_CHARS = 4096
_SAID_CHARS = 60  # of a wrong value, in the message
_HEX = re.compile(r"[0-9a-f]{64}")
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z", re.ASCII)


class Wrong(ValueError):
    """A value that does not fit its shape. `where`: the path to it, outermost first."""

    def __init__(self, what: str, *where: str) -> None:
        super().__init__(what)
        self.what, self.where = what, where

    def __str__(self) -> str:
        way = ".".join(self.where[:6])
        return f"{way}: {self.what}" if way else self.what

    def under(self, name: object) -> Wrong:
        """The same, one level further out."""
        return Wrong(self.what, preview(name), *self.where)


def preview(value: object) -> str:
    """A remote value in a few plain characters, for a message: no controls, at most one line."""
    if isinstance(value, str):
        head = value[: _SAID_CHARS + 1]
    elif value is None or isinstance(value, (bool, float)):
        head = str(value)
    elif isinstance(value, int):
        head = str(value) if abs(value) < 1 << 128 else "a number of more than 38 digits"
    else:
        head = "a list" if isinstance(value, list) else "an object" if isinstance(value, dict) else type(value).__name__
    plain = "".join(c if c.isascii() and c.isprintable() else "?" for c in head)
    return plain if len(plain) <= _SAID_CHARS else plain[: _SAID_CHARS - 3] + "..."


def boolean(value: Any) -> bool:
    """true or false."""
    if not isinstance(value, bool):
        raise Wrong(f"{preview(value)} where true or false is expected")
    return value


def number(low: float, high: float) -> Shape:
    """A finite number from `low` to `high`."""

    def check(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise Wrong(f"{preview(value)} where a number is expected")
        if not low <= value <= high:  # not-a-number is in no range
            raise Wrong(f"the number {preview(value)} is out of range")
        return value

    return check


def whole(low: int = 0, high: int = MOST) -> Shape:
    """A whole number from `low` to `high`."""

    def check(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int):
            raise Wrong(f"{preview(value)} where a whole number is expected")
        if not low <= value <= high:
            raise Wrong(f"the number {preview(value)} is out of range")
        return value

    return check


def words(text: str) -> str:
    """The text with broken characters (lone surrogates, which cannot be written out) as escapes."""
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def text(most: int = TEXT_CHARS) -> Shape:
    """A text of at most `most` characters; broken ones come out as escapes."""

    def check(value: Any) -> str:
        if not isinstance(value, str):
            raise Wrong(f"{preview(value)} where text is expected")
        if len(value) > most:
            raise Wrong(f"a text of {len(value)} characters, {most} at most")
        return words(value)

    return check


def word(value: Any) -> str:
    """A short text that may be an argument: without NUL."""
    found: str = text()(value)
    if "\0" in found:
        raise Wrong("a NUL in a text")
    return found


def path(value: Any) -> str:
    """An absolute path in its canonical spelling. A name on the box that is not UTF-8 keeps its bytes (PEP 383)."""
    if not isinstance(value, str) or not value.startswith("/"):
        raise Wrong(f"{preview(value)} where an absolute path is expected")
    parts = value.split("/")[1:]
    if len(value) > TEXT_CHARS or "\0" in value or (value != "/" and {"", ".", ".."}.intersection(parts)):
        raise Wrong(f"{preview(value)} is not a normalized absolute path")
    if not value.isascii():
        try:
            value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise Wrong(f"the path {preview(value)} contains an invalid character") from None
    return value


def below(value: Any) -> str:
    """A path that stays below its root."""
    found: str = text()(value)
    if not manifest.is_safe(found) or found != value:
        raise Wrong(f"the path {preview(value)} leads out of its root")
    return found


def name(value: Any) -> str:
    """A valid name of a run."""
    if not isinstance(value, str) or not names.is_name(value):
        raise Wrong(f"{preview(value)} cannot be the name of a run")
    return value


def root_name(value: Any) -> str:
    """A valid name of a run or revision."""
    if not isinstance(value, str) or not names.is_root(value):
        raise Wrong(f"{preview(value)} cannot be the name of a run")
    return value


def digest(value: Any) -> str:
    """A sha256: 64 lower-case hex digits."""
    if not isinstance(value, str) or not _HEX.fullmatch(value):
        raise Wrong(f"{preview(value)} where 64 hex digits are expected")
    return value


def stamp(value: Any) -> str:
    """A time as in all our files."""
    if not isinstance(value, str) or not _STAMP.fullmatch(value):
        raise Wrong(f"{preview(value)} where a time is expected")
    try:
        units.unstamp(value)
    except ValueError:
        raise Wrong(f"there is no time {preview(value)}") from None
    return value


def one_of(*known: str) -> Shape:
    """One of these words."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in known:
            raise Wrong(f"{preview(value)} where one of {', '.join(known)} is expected")
        return value

    return check


def maybe(shape: Shape) -> Shape:
    """null, or that."""
    return lambda value: None if value is None else shape(value)


def list_of(shape: Shape, most: int) -> Shape:
    """A list of at most `most` such values."""

    def check(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise Wrong(f"{preview(value)} where a list is expected")
        if len(value) > most:
            raise Wrong(f"a list of {len(value)}, {most} at most")
        out = []
        for at, one in enumerate(value):
            try:
                out.append(shape(one))
            except Wrong as wrong:
                raise wrong.under(at) from None
        return out

    return check


def map_of(shape: Shape, most: int, key: Shape = word) -> Shape:
    """An object of at most `most` such values under names."""

    def check(value: Any) -> dict[str, Any]:
        out = {}
        for name, one in _object(value, most).items():
            try:
                out[key(name)] = shape(one)
            except Wrong as wrong:
                raise wrong.under(name) from None
        return out

    return check


def record(
    needed: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None, rest: Shape | None = None
) -> Shape:
    """An object with these fields. Others are dropped, as nobody asked for them, or must fit `rest`."""
    known = {**needed, **(optional or {})}

    def check(value: Any) -> dict[str, Any]:
        given = _object(value, _MEMBERS)
        out: dict[str, Any] = {}
        for name in needed:
            if name not in given:
                raise Wrong(f"{name} is missing")
        for name, one in given.items():
            shape = known.get(name, rest)
            if shape is not None:
                try:
                    out[words(name)] = shape(one)
                except Wrong as wrong:
                    raise wrong.under(name) from None
        return out

    return check


_MEMBERS = 1 << 16


def _object(value: Any, most: int) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Wrong(f"{preview(value)} where an object is expected")
    if len(value) > most:
        raise Wrong(f"an object of {len(value)} members, {most} at most")
    return value


def anything(chars: int = 1 << 20, nodes: int = 20_000, depth: int = 24) -> Shape:
    """Any JSON, bounded in characters, values and levels."""

    def check(value: Any) -> Any:
        left = [chars, nodes]
        return _bounded(value, left, depth)

    return check


def _bounded(value: Any, left: list[int], depth: int) -> Any:
    left[1] -= 1
    if left[1] < 0 or depth < 0:
        raise Wrong("more values, or deeper nesting, than any valid answer")
    if isinstance(value, str):
        left[0] -= len(value)
        if left[0] < 0:
            raise Wrong("more text than any valid answer")
        return words(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if not -MOST * 1024 <= value <= MOST * 1024:  # what fits 64 bits: inode numbers, times in nanoseconds
            raise Wrong(f"the number {preview(value)} is out of range")
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise Wrong(f"{preview(value)} where a number is expected")
        return value
    if isinstance(value, dict):
        return {
            _bounded(name, left, depth - 1): _bounded(one, left, depth - 1)
            for name, one in _object(value, _MEMBERS).items()
        }
    if isinstance(value, Sequence):
        return [_bounded(one, left, depth - 1) for one in value]
    raise Wrong(f"{preview(value)} is not JSON")
