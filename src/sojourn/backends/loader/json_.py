"""Verifies JSON: parsed whole and strictly in pieces of 1 MiB, whatever its size. Values complete in a piece are read
by Python's own C code; those across pieces, or possibly not finite, by our own reader, which knows its position. NaN
and Infinity, which Python writes but JSON lacks, are `non-finite`; a document that lacks only its end is `truncated`.

Source: RFC 8259.
"""

from __future__ import annotations

import codecs
import json
import math
import os
import re
from typing import Any, ClassVar

from sojourn.core.ports import Loaded, Loader
from sojourn.formats.damage import Unloadable

_PIECE_BYTES = 1 << 20
_AHEAD = 1 << 19  # characters that should be ahead before reading a value in one step
_TRIES = 8  # per piece, to read in one step a value that turns out not to end in it
_MAX_DEPTH = 500  # Python's own reader gives up near 1,000
_MAX_TOKEN = 64 << 20  # characters of one string
_KEYS_KNOWN = 100_000  # an object's keys are remembered up to here, to detect duplicates
_LISTED = 256

_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NUMBER_BEGUN = re.compile(r"-?(?:0|[1-9][0-9]*)?(?:\.[0-9]*)?(?:[eE][+-]?[0-9]*)?")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_ESCAPE_BEGUN = re.compile(r"\\(?:u[0-9a-fA-F]{0,4})?")
# Most of any large document, taken in one step if nothing in it needs a closer look: a member's key and colon, a plain
# value followed by something, plain numbers of an array with their commas.
_KEY = re.compile(r'[ \t\n\r]*"([^"\\\x00-\x1f]*)"[ \t\n\r]*:')
_PLAIN_VALUE = r'[ \t\n\r]*(?:"[^"\\\x00-\x1f]*"|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?|true|false|null)[ \t\n\r]*'
_LAST_VALUE = re.compile(_PLAIN_VALUE + r"(?=[,\]}])")
_ROW = re.compile(r"(?:[ \t\n\r]*-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?[ \t\n\r]*,){1,10000}")
_BETWEEN = re.compile(r"[ \t\n\r]*,[ \t\n\r]*(?=[\[{])")
_LONGEST_FLOAT = 300
_WORDS = ("true", "false", "null", "NaN", "Infinity", "-Infinity")
_BEST = re.compile(rb'"best_model_checkpoint": *"((?:[^"\\]|\\.)*)"')
_BEST_BYTES = 1 << 14  # its keys are sorted: this one is near the start
_NOT_FINITE = {"NaN", "Infinity", "-Infinity"}


class Backend(Loader):
    """Loads one .json file."""

    kind: ClassVar[str] = "json"
    suffixes: ClassVar[tuple[str, ...]] = (".json",)
    magic: ClassVar[tuple[bytes, ...]] = ()

    def owns(self, path: str, head: bytes) -> bool:
        """Text does not identify itself: only the name does."""
        return False

    def load(self, path: str) -> Loaded:
        """Parse it. Raises: Unloadable, OSError."""
        reader = _Reader(path)
        try:
            reader.document()
        finally:
            reader.close()
        facts = {
            "type": reader.kind,
            "count": reader.count,
            "keys": reader.keys,
            "by": "sojourn",
        }
        if reader.not_finite:
            raise Unloadable("non-finite", "; ".join(reader.not_finite[:5]))
        return Loaded(("structure", "load", "content"), facts, (*reader.remarks, *_of_elsewhere(path)))


def _of_elsewhere(path: str) -> list[str]:
    """What the Trainer of Hugging Face keeps as an absolute path in trainer_state.json, if that is not here."""
    if os.path.basename(path) != "trainer_state.json":
        return []
    with open(path, "rb") as f:
        hit = _BEST.search(f.read(_BEST_BYTES))
    named = os.fsdecode(hit.group(1)) if hit else ""
    beside = os.path.join(os.path.dirname(os.path.dirname(path)), os.path.basename(named))
    if not named or os.path.isdir(named) or os.path.isdir(beside):
        return []
    return [f"best_model_checkpoint names {named}, which is not here: correct or clear it before a resume"]


class _Reader:
    """A pushdown reader over a window of the text. `keys`, `count` describe the outermost value."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "rb")  # noqa: SIM115 - closed by `close`
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._text = ""
        self._at = 0
        self._ended = False
        self._lines = 0  # newlines in dropped text
        self.kind = ""
        self.count = 0
        self.keys: list[str] = []
        self.remarks: list[str] = []
        self.not_finite: list[str] = []
        self._doubled: list[str] = []
        self._tries = 0  # left in this piece
        scanner = json.JSONDecoder(object_pairs_hook=self._pairs, parse_int=str)
        self._scan = scanner.scan_once  # type: ignore[attr-defined]

    @property
    def _line(self) -> int:
        return 1 + self._lines + self._text.count("\n", 0, self._at)

    def close(self) -> None:
        self._file.close()

    def document(self) -> None:
        """Read exactly one value and nothing after it."""
        self._more()
        if self._text.startswith("\ufeff"):
            self._at = 1
            self.remarks.append("begins with a byte order mark, which many readers refuse")
        if not self._peek():
            raise Unloadable("empty", "no bytes" if not self._text else "only white space")
        stack: list[set[str] | None] = []  # for each open container: its keys, or None for an array
        doubled = self._doubled
        self.kind = {"{": "object", "[": "array"}.get(self._peek(), "value")
        while True:
            if stack and stack[-1] is None:
                self._row(len(stack) == 1)
                self._many(len(stack) == 1)
            opened = self._value(len(stack) + 1)
            if opened is not None:
                stack.append(set() if opened == "{" else None)
                if self._peek() == "}]"[opened == "["]:
                    self._at += 1
                    stack.pop()
                else:
                    self._key(stack, doubled)
                    continue
            while stack:
                mark = self._peek()
                if not mark:
                    raise self._cut()
                self._at += 1
                if mark == ",":
                    self._key(stack, doubled)
                    break
                if mark != ("]" if stack[-1] is None else "}"):
                    raise self._wrong("a comma or the end of what is open")
                stack.pop()
            if not stack:
                break
        if self._peek():
            raise self._wrong("nothing more: the document had ended")
        if doubled:
            self.remarks.append(f"duplicate keys in one object: {', '.join(doubled[:5])}")

    def _key(self, stack: list[set[str] | None], doubled: list[str]) -> None:
        """In an object, the next key and its colon; counts the outermost container's content."""
        keys = stack[-1]
        if len(stack) == 1:
            self.count += 1
        if keys is None:
            return
        hit = _KEY.match(self._text, self._at)
        if hit:
            key = hit.group(1)
            self._at = hit.end()
        else:
            key = self._slow_key()
        if key in keys:
            doubled.append(key[:80])
        elif len(keys) < _KEYS_KNOWN:
            keys.add(key)
        if len(stack) == 1 and len(self.keys) < _LISTED:
            self.keys.append(key[:200])

    def _slow_key(self) -> str:
        """A key with escapes, one across two pieces, or none."""
        if self._peek() != '"':
            raise self._wrong("a key in double quotes") if self._peek() else self._cut()
        key = self._string()
        if self._peek() != ":":
            raise self._wrong("a colon") if self._peek() else self._cut()
        self._at += 1
        return key

    def _row(self, is_outermost: bool) -> None:
        """Plain numbers of an array, as long as each is followed by a comma."""
        while True:
            hit = _ROW.match(self._text, self._at)
            if not hit:
                return
            count = hit.group().count(",")
            self.count += count if is_outermost else 0
            self._at = hit.end()

    def _many(self, is_outermost: bool) -> None:
        """As many as possible of an array's containers, or texts, that are complete in this piece, with their commas.

        Their ends are guessed from what separates the first two; a wrong guess does not parse.
        """
        first = self._peek()
        if first not in ("{", "[", '"') or not self._may_try():
            return
        text, at = self._text, self._at
        end = self._end_of(text, at) if first != '"' else 0
        between = _BETWEEN.match(text, end) if end else None
        if between:
            begin = max(text.rfind("\n", at, end), end - 2, at)
            mark = text[begin : between.end() + 1]
            last = text.rfind(mark, end)
            stop, behind = last + end - begin, last + len(mark) - 1
        else:
            last = text.rfind('",', at + _LONGEST_FLOAT) if first == '"' else -1
            stop, behind = last + 1, last + 2
        if last < 0:
            return
        try:
            found, _ = self._scan("[" + text[at:stop] + "]", 0)
        except (StopIteration, ValueError, RecursionError):
            self._tries -= 1
            return
        self.count += len(found) if is_outermost else 0
        self._at = behind

    def _may_try(self) -> bool:
        """Enough text is ahead, nothing in it needs a closer look, and few values in it were too long."""
        if len(self._text) - self._at < _AHEAD and not self._ended:
            self._more()
        return self._tries > 0

    def _end_of(self, text: str, at: int) -> int:
        """The end of the container at `at`, 0 if it is not in this piece or unknown."""
        try:
            return int(self._scan(text, at)[1])
        except (StopIteration, ValueError, RecursionError):
            self._tries -= 1
            return 0

    def _pairs(self, found: list[tuple[str, Any]]) -> None:
        """Called for every object read in one step: only its keys matter, and nothing is kept."""
        if len(dict(found)) < len(found) and len(self._doubled) < _LISTED:
            keys = [key for key, _ in found]
            self._doubled.append(next(key for key in keys if keys.count(key) > 1)[:80])

    def _value(self, depth: int) -> str | None:
        """Read one plain value, or just the opening bracket of a container, which is returned."""
        hit = _LAST_VALUE.match(self._text, self._at)
        if hit:
            if hit.end() - self._at > _LONGEST_FLOAT and not math.isfinite(_float(hit.group())):
                self.not_finite.append(f"a number on line {self._line} exceeds the range of a float")
            self._at = hit.end()
            return None
        mark = self._peek()
        if not mark:
            raise self._cut()
        if mark in "{[":
            if depth > _MAX_DEPTH:
                raise Unloadable("unparseable", f"line {self._line}: nested deeper than {_MAX_DEPTH}")
            end = self._end_of(self._text, self._at) if depth > 1 and self._may_try() else 0
            if end:
                self._at = end
                return None
            self._at += 1
            return mark
        if mark == '"':
            self._string()
            return None
        self._need(max(map(len, _WORDS)))
        for word in _WORDS:
            if self._text.startswith(word, self._at):
                if word in _NOT_FINITE:
                    self.not_finite.append(f"{word} on line {self._line}")
                self._at += len(word)
                return None
        if self._ended and any(word.startswith(self._text[self._at :]) for word in _WORDS):
            raise self._cut()
        self._number()
        return None

    def _number(self) -> None:
        begin = self._at
        while True:
            hit = _NUMBER_BEGUN.match(self._text, self._at)
            end = hit.end() if hit else self._at
            if end < len(self._text) or self._ended or end - self._at > 4096:
                break
            begin = self._more()
        whole = _NUMBER.match(self._text, begin)
        if whole is None or whole.end() < end:
            raise self._cut() if self._ended and end == len(self._text) > begin else self._wrong("a value")
        text = whole.group()
        if not math.isfinite(_float(text)):
            self.not_finite.append(f"{text[:20]} on line {self._line} exceeds the range of a float")
        self._at = whole.end()

    def _string(self) -> str:
        """The string that starts here, as written (escapes are not resolved)."""
        parts: list[str] = []
        length = 0
        self._at += 1
        while True:
            plain = _PLAIN.match(self._text, self._at)
            part = plain.group() if plain else ""
            parts.append(part)
            self._at += len(part)
            length += len(part)
            if length > _MAX_TOKEN:
                raise Unloadable("unsupported", f"line {self._line}: a string of more than {_MAX_TOKEN} characters")
            if self._at == len(self._text):
                if self._ended:
                    raise self._cut()
                self._more()
                continue
            mark = self._text[self._at]
            if mark == '"':
                self._at += 1
                return "".join(parts)
            if mark != "\\":
                raise self._wrong("a string without control characters")
            self._need(6)
            escape = _ESCAPE.match(self._text, self._at)
            if escape is None:
                begun = _ESCAPE_BEGUN.match(self._text, self._at)
                is_cut = self._ended and begun is not None and begun.end() == len(self._text)
                raise self._cut() if is_cut else self._wrong("an escape that JSON knows")
            parts.append(escape.group())
            length += 6
            self._at = escape.end()

    def _peek(self) -> str:
        """The next character that is not white space, "" at the end; moves to it."""
        while True:
            space = _SPACE.match(self._text, self._at)
            end = space.end() if space else self._at
            self._at = end
            if end < len(self._text):
                return self._text[end]
            if self._ended:
                return ""
            self._more()

    def _need(self, count: int) -> None:
        while len(self._text) - self._at < count and not self._ended:
            self._more()

    def _more(self) -> int:
        """Drop what was read and append the next piece; returns the position."""
        from sojourn.backends.proof import lines

        raw = self._file.read(_PIECE_BYTES)
        if not self._text and not self._lines and raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise Unloadable("unparseable", "UTF-16 or UTF-32, where JSON must be UTF-8 (RFC 8259)")
        try:
            text = self._decoder.decode(raw, final=not raw)
        except UnicodeDecodeError as error:
            if not raw or error.reason == "unexpected end of data":
                raise Unloadable("truncated", "it ends inside a character") from None
            raise Unloadable(
                "unparseable", f"line {self._line} or later: not UTF-8: damaged, or written in another encoding"
            ) from None
        self._ended = not raw
        self._lines += self._text.count("\n", 0, self._at)
        self._text = self._text[self._at :] + text
        self._at = 0
        self._tries = 0 if lines.is_odd_json(self._text) else _TRIES
        return 0

    def _cut(self) -> Unloadable:
        return Unloadable("truncated", f"it ends on line {self._line} before its brackets are closed")

    def _wrong(self, wanted: str) -> Unloadable:
        seen: Any = self._text[self._at : self._at + 12]
        return Unloadable("unparseable", f"line {self._line}: {seen!r} where there must be {wanted}")


def _float(text: str) -> float:
    """A reader's value of a JSON number; 0 for a whole number, which has no bounds, and for anything else."""
    if text.strip()[:1] not in "-0123456789" or not any(mark in text for mark in ".eE"):
        return 0.0
    return float(text)
