"""Verifies CSV and TSV: text, quotes that close, as many fields in every row as in the first, only finite numbers.

A cut file ends inside a row. If it ends inside the last field, only that field can show it: one shorter than all above
it was cut; otherwise the missing line end is a remark, since RFC 4180 allows it. Only the sha256 shows a cut between
two rows, or a flipped digit.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, ClassVar

from sojourn.core.ports import Loaded, Loader
from sojourn.formats.damage import Unloadable

_DELIMITERS = ",\t;|"
_FIELD_LIMIT = 16 << 20
_JSON = (b'{"', b'[{"', b'["', b"{\n", b"[\n", b"{\r\n", b"[\r\n", b"[[")
_CONTROL = re.compile("[\x01-\x08\x0e-\x1a\x7f]")
_LOOKED_AT = 1000  # rows
# A possible non-finite number, in lower case: a whole field, or an exponent of three digits.
_NOT_FINITE = re.compile(
    r'(?:nan|inf(?:inity)?)(?= *(?:[,;|\t"\r\n]|$))(?<![a-z_]nan)(?<![a-z_]inf)(?<![a-z_]infinity)'
)
_NAMED = 5
_NOTES = 64  # rows before the header, at most


class Backend(Loader):
    """Loads one .csv or .tsv file."""

    kind: ClassVar[str] = "csv"
    suffixes: ClassVar[tuple[str, ...]] = (".csv", ".tsv")
    magic: ClassVar[tuple[bytes, ...]] = ()

    def owns(self, path: str, head: bytes) -> bool:
        """Text does not identify itself: only the name does."""
        return False

    def load(self, path: str) -> Loaded:
        """Parse every row. Raises: Unloadable, OSError."""
        with open(path, "rb") as f:
            table = _read(f)
        table.settle()
        facts = {"rows": table.rows, "columns": len(table.header), "header": [h[:200] for h in table.header[:256]]}
        return Loaded(("structure", "load", "content"), {**facts, "by": "sojourn"}, table.remarks)


def _read(f: BinaryIO) -> _Table:
    """The table, by the rules of RFC 4180, or by other writers' rules if it shows signs of them.

    Raises: Unloadable (by RFC 4180, if no rules fit), OSError.
    """
    head = f.read(1 << 16)
    ways: list[dict[str, str]] = [{}] + [{"escapechar": "\\"}] * (b"\\" in head)
    ways += [{"quotechar": "'"}] * head.lstrip(b"\xef\xbb\xbf").startswith(b"'")
    refused = None
    for way in ways:
        f.seek(0)
        table = _Table(way)
        try:
            table.read(f)
        except Unloadable as error:
            refused = refused or error
            continue
        if way:
            table.remarks += ("not quoted as RFC 4180 says, which many readers take for damage",)
        return table
    assert refused
    raise refused


class _Table:
    """The content of one file, row by row. `way`: how its writer differs from RFC 4180, in terms of `csv`."""

    def __init__(self, way: Mapping[str, Any]) -> None:
        self._way = dict(way)
        self.header: list[str] = []
        self.rows = 0  # below the header
        self.remarks: tuple[str, ...] = ()
        self._has_end = True
        self._is_done = False
        self._blocks = 0
        self._is_odd = self._was_odd = False
        self._last: list[str] = []
        self._shortest = 1 << 30  # characters of the last field, in the rows above the last
        self._numbers: list[int] = []  # for each column: fields that are finite numbers
        self._words: list[int] = []  # and other fields
        self._odd: dict[int, str] = {}  # and the location of the first NaN or infinity

    def read(self, f: BinaryIO) -> None:
        """Take every row. Raises: Unloadable, OSError."""
        from sojourn.backends.proof import lines

        head = f.read(1 << 16)
        f.seek(0)
        how = lines.encoding(head)
        if how != "utf-8":
            self.remarks = (f"written in {how.upper()}, which many readers take for damage",)
            head = head[: len(head) // 4 * 4].decode(how, "replace").encode("utf-8")
        first = head.lstrip(b"\xef\xbb\xbf \t\r\n")
        if first.startswith(_JSON):
            raise Unloadable("mismatch", "named like csv but looks like JSON")
        csv.field_size_limit(_FIELD_LIMIT)
        reader = csv.reader(self._text(f), delimiter=_delimiter(head), strict=True, **self._way)
        rows: list[list[str]] = []
        blocks, line = 0, 1
        try:
            for row in reader:
                rows.append(row)
                if self._blocks != blocks and (self.header or len(rows) > _NOTES or not _is_note(row)):
                    self._take(rows, line)
                    rows, blocks, line = [], self._blocks, reader.line_num + 1
        except csv.Error as error:
            self._take(rows, line)
            if "unexpected end of data" in str(error):
                raise Unloadable("truncated", "it ends inside a quoted field: cut off") from None
            raise Unloadable("unparseable", f"line {reader.line_num}: {error}") from None
        self._is_done = True
        self._take(rows, line)
        self._end(reader.line_num)

    def _text(self, f: BinaryIO) -> Iterator[str]:
        from sojourn.backends.proof import lines

        for block in lines.blocks(f):
            text = block.text
            hit = _CONTROL.search(text)
            if hit:
                number = block.line + text.count("\n", 0, hit.start())
                raise Unloadable("unparseable", f"line {number} holds control characters")
            if not block.has_end and text.endswith("\r") and (block.line > 1 or "\n" in text):
                number = block.line + text.count("\n")
                raise Unloadable("truncated", f"line {number}, the last, ends within its line ending")
            self._has_end = block.has_end
            self._blocks += 1
            # Rows of the previous block are checked together with this block's.
            self._was_odd, self._is_odd = self._is_odd, _is_odd(text)
            if "\r" in text:  # old Macintosh programs ended their lines so
                text = text.replace("\r\n", "\n") if "\n" in text else text.replace("\r", "\n")
            yield from io.StringIO(text, newline="\n")

    def _take(self, rows: list[list[str]], line: int) -> None:
        """Take in some rows, the first of them on line `line`. Raises: Unloadable."""
        if not rows:
            return
        if not self.header:
            while rows and _is_blank(rows[0]):
                line += _height(rows.pop(0))
            notes = _notes(rows)
            line += sum(map(_height, rows[:notes]))
            del rows[:notes]
            if not rows:
                return
            self.header = rows.pop(0)
            self._numbers, self._words = [0] * len(self.header), [0] * len(self.header)
            line += _height(self.header)
        whole = [row for row in rows if len(row) == len(self.header)]
        if len(whole) < len(rows) or len(self.header) == 1:
            whole = self._uneven(rows, line)
        # Its first rows identify a column of numbers; after them only fields that may not be finite are checked.
        if self.rows < _LOOKED_AT or self._is_odd or self._was_odd:
            for at, row in enumerate(rows):
                if not _is_blank(row) and (self.rows + at < _LOOKED_AT or _is_odd(",".join(row))):
                    self._look(row, line)
                line += _height(row)
        if whole:
            above = whole[:-1] if not self._last else [self._last, *whole[:-1]]
            self._shortest = min([self._shortest, *(len(row[-1]) for row in above)])
            self._last = whole[-1]
            self.rows += len(whole)

    def _uneven(self, rows: list[list[str]], line: int) -> list[list[str]]:
        """The rows that are not blank. Raises: Unloadable if one has another number of fields than the first."""
        whole, width = [], len(self.header)
        for at, row in enumerate(rows):
            if not _is_blank(row):
                if len(row) != width:
                    is_last = self._is_done and not self._has_end and at == len(rows) - 1
                    if is_last and len(row) < width:
                        raise Unloadable("truncated", f"line {line}, the last, has {len(row)} of {width} fields")
                    raise Unloadable("unparseable", f"line {line} has {len(row)} fields, the first has {width}")
                whole.append(row)
            line += _height(row)
        return whole

    def _look(self, row: list[str], line: int) -> None:
        for column, field in enumerate(row):
            if not field:
                continue
            try:
                is_finite = math.isfinite(float(field))
            except ValueError:
                self._words[column] += 1
                continue
            if is_finite:
                self._numbers[column] += 1
            else:
                self._odd.setdefault(column, f"{field.strip()[:20]} on line {line}")

    def _end(self, line: int) -> None:
        if not self.header:
            raise Unloadable("empty", "only white space")
        if self._has_end:
            return
        if not self.rows:
            raise Unloadable("truncated", "it ends inside its first line")
        if self.rows > 1 and len(self._last[-1]) < self._shortest:
            raise Unloadable(
                "truncated", f"line {line}, the last, has no line ending, and its last field is shorter than any above"
            )
        self.remarks += ("its last line has no line ending: its last field may be cut off",)

    def settle(self) -> None:
        """Raises: Unloadable("non-finite") if a column of numbers contains NaN or infinity."""
        bad = [
            f"{self.header[column][:80]}: {where}"
            for column, where in sorted(self._odd.items())
            if not self._words[column]  # among words it is a word
        ]
        if bad:
            more = f" and {len(bad) - _NAMED} more columns" if len(bad) > _NAMED else ""
            raise Unloadable("non-finite", "; ".join(bad[:_NAMED]) + more)


def _is_odd(text: str) -> bool:
    from sojourn.backends.proof import lines

    low = text.lower()
    if lines.EXPONENT.search(low) or (("nan" in low or "inf" in low) and _NOT_FINITE.search(low)):
        return True
    return lines.has_long_number(low)


def _is_note(row: list[str]) -> bool:
    return bool(row) and row[0].lstrip().startswith("#")


def _notes(rows: list[list[str]]) -> int:
    """How many of the first rows are notes (# ...), of another width than the first other row."""
    count = next((at for at, row in enumerate(rows) if not _is_note(row)), len(rows))
    if count == len(rows):
        return 0
    while count and len(rows[count - 1]) == len(rows[count]):
        count -= 1  # names of columns after a #, as written by numpy
    return count


def _is_blank(row: list[str]) -> bool:
    return not row or (len(row) == 1 and not row[0].strip())


def _height(row: list[str]) -> int:
    """Lines that a row takes."""
    return 1 + sum(field.count("\n") for field in row)


def _delimiter(head: bytes) -> str:
    """The one on which the first lines agree: equally often in each; of several the most frequent."""
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
