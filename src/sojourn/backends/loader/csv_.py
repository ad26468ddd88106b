"""Proves CSV and TSV: text, quotes that close, as many fields in every row as in the first, no number that is not
finite.

A file that was cut ends inside a row. Where it ends inside the last field, only that field can tell: one that is
shorter than all above it was cut; otherwise the missing line end is a remark, since RFC 4180 lets a writer leave it
out. A cut between two rows, and a flipped digit, are only seen by the sha256.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator
from typing import BinaryIO, ClassVar

from sojourn.core.ports import Loaded
from sojourn.wire.damage import Unloadable

_DELIMITERS = ",\t;|"
_FIELD_LIMIT = 16 << 20
_JSON = (b'{"', b'[{"', b'["', b"{\n", b"[\n", b"{\r\n", b"[\r\n", b"[[")
_CONTROL = re.compile("[\x01-\x08\x0e-\x1a\x7f]")
_LOOKED_AT = 1000  # rows
_ODD = re.compile(r"nan|inf|e\+?[0-9]{3}", re.IGNORECASE)
_NAMED = 5


class Backend:
    """Loads one .csv or .tsv file."""

    kind: ClassVar[str] = "csv"
    suffixes: ClassVar[tuple[str, ...]] = (".csv", ".tsv")
    magic: ClassVar[tuple[bytes, ...]] = ()

    def owns(self, path: str, head: bytes) -> bool:
        """Text does not say what it is: only the name does."""
        return False

    def load(self, path: str) -> Loaded:
        """Parse every row. Raises: Unloadable, OSError."""
        with open(path, "rb") as f:
            table = _Table()
            table.read(f)
        table.settle()
        facts = {"rows": table.rows, "columns": len(table.header), "header": [h[:200] for h in table.header[:32]]}
        return Loaded(("structure", "load", "content"), {**facts, "by": "sojourn"}, table.remarks)


class _Table:
    """What one file holds, a row at a time."""

    def __init__(self) -> None:
        self.header: list[str] = []
        self.rows = 0  # below the header
        self.remarks: tuple[str, ...] = ()
        self._has_end = True
        self._last: list[str] = []
        self._shortest = 1 << 30  # characters of the last field, in the rows above the last
        self._numbers: list[int] = []  # of each column: fields that are finite numbers
        self._words: list[int] = []  # and fields that are none
        self._odd: dict[int, str] = {}  # and where the first NaN or infinity stands

    def read(self, f: BinaryIO) -> None:
        """Take every row. Raises: Unloadable, OSError."""
        head = f.read(1 << 16)
        f.seek(0)
        first = head.lstrip(b"\xef\xbb\xbf \t\r\n")
        if first.startswith(_JSON):
            raise Unloadable("mismatch", "named like csv, holds what looks like JSON")
        csv.field_size_limit(_FIELD_LIMIT)
        reader = csv.reader(self._text(f), delimiter=_delimiter(head), strict=True)
        try:
            for row in reader:
                if len(row) > 1 or (row and row[0].strip()):
                    self._take(row, reader.line_num)
        except csv.Error as error:
            if "unexpected end of data" in str(error):
                raise Unloadable("truncated", "it ends inside a quoted field: cut off") from None
            raise Unloadable("unparseable", f"line {reader.line_num}: {error}") from None
        self._end(reader.line_num)

    def _text(self, f: BinaryIO) -> Iterator[str]:
        from sojourn.backends.client import lines

        for number, text, has_end in lines.lines(f):
            if _CONTROL.search(text):
                raise Unloadable("unparseable", f"line {number} holds control characters")
            if not has_end and text.endswith("\r") and number > 1:
                raise Unloadable("truncated", f"line {number}, the last, ends inside its line end")
            self._has_end = has_end
            yield text + "\n" * has_end

    def _take(self, row: list[str], line: int) -> None:
        if not self.header:
            self.header = row
            self._numbers, self._words = [0] * len(row), [0] * len(row)
            return
        if len(row) != len(self.header):
            if not self._has_end and len(row) < len(self.header):
                raise Unloadable("truncated", f"line {line}, the last, has {len(row)} of {len(self.header)} fields")
            raise Unloadable("unparseable", f"line {line} has {len(row)} fields, the first has {len(self.header)}")
        if self._last:
            self._shortest = min(self._shortest, len(self._last[-1]))
        self._last = row
        self.rows += 1
        # What is a column of numbers, its first rows tell; after them only what may not be finite is looked at.
        if self.rows <= _LOOKED_AT or _ODD.search("\n".join(row)):
            for column, field in enumerate(row):
                self._look(column, field, line)

    def _look(self, column: int, field: str, line: int) -> None:
        if not field:
            return
        try:
            is_finite = math.isfinite(float(field))
        except ValueError:
            self._words[column] += 1
            return
        if is_finite:
            self._numbers[column] += 1
        else:
            self._odd.setdefault(column, f"{field.strip()[:20]} on line {line}")

    def _end(self, line: int) -> None:
        if not self.header:
            raise Unloadable("empty", "nothing but white space")
        if self._has_end:
            return
        if not self.rows:
            raise Unloadable("truncated", "it ends inside its first line")
        if self.rows > 1 and len(self._last[-1]) < self._shortest:
            raise Unloadable(
                "truncated", f"line {line}, the last, has no end, and its last field is shorter than any above"
            )
        self.remarks = ("its last line has no end: it may have been cut inside its last field",)

    def settle(self) -> None:
        """Raises: Unloadable("non-finite") where a column of numbers holds NaN or infinity."""
        bad = [
            f"{self.header[column][:80]}: {where}"
            for column, where in sorted(self._odd.items())
            if not self._words[column]  # among words it is a word
        ]
        if bad:
            more = f" and {len(bad) - _NAMED} more columns" if len(bad) > _NAMED else ""
            raise Unloadable("non-finite", "; ".join(bad[:_NAMED]) + more)


def _delimiter(head: bytes) -> str:
    """The one that the first lines agree about: as often in each of them; of several the most frequent."""
    rows = [line for line in head.decode("utf-8", "replace").splitlines()[:20] if line.strip()]
    rows = rows[:-1] if len(rows) > 2 else rows  # the last one may be cut
    best, most = ",", 0
    for mark in _DELIMITERS:
        counts = {row.count(mark) for row in rows}
        if len(counts) == 1 and max(counts) > most:
            best, most = mark, max(counts)
    if most:
        return best
    first = rows[0] if rows else ""
    return max(_DELIMITERS, key=lambda mark: (first.count(mark), -_DELIMITERS.index(mark)))
