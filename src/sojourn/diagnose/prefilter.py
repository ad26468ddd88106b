"""Which lines of a large log a pattern may be near: found for a whole piece at once, in a few passes over its bytes.

Of every gate four letters that stand together are looked for, those that are rarest; where they are found the gate
itself is. A regular expression would look at each letter by itself, ten times as long.
Needs numpy, which is slow to load: for logs so large that it pays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

# Of English text, in percent, how often a letter is seen (Norvig, norvig.com/mayzner.html, 2026-11); others are rare.
_OFTEN = dict(
    zip(
        b"etaoinsrhldcumfpgwybvkxjqz",
        (12.5, 9.3, 8, 7.6, 7.6, 7.2, 6.5, 6.3, 5.1, 4.1, 3.8, 3.3, 2.7, 2.5, 2.4, 2.1, 1.9, 1.7, 1.7, 1.5)
        + (1.1, 0.5, 0.2, 0.2, 0.1, 0.1),
        strict=True,
    )
)
_SIZE = 4  # no gate is shorter
_BITS = 5  # tell letters apart; what else there is falls together with some


class Near:
    """The lines of a piece that a gate may stand in. `rows`: their numbers from 0; `kind(at)`: the line `rows[at]`."""

    def __init__(self, kinds: bytes, rows: Any, starts: Any, stops: Any, codes: Any, firsts: Any) -> None:
        self.rows, self._codes, self._firsts = rows, codes, firsts
        self._kinds, self._starts, self._stops = kinds, starts, stops

    def lines(self, places: Any = None) -> Iterator[tuple[int, int, bytes]]:
        """(place, number of the line, the line) of each place, or of all."""
        import numpy

        places = numpy.arange(len(self.rows)) if places is None else places
        starts, stops, rows = (some[places].tolist() for some in (self._starts, self._stops, self.rows))
        for at, row, start, stop in zip(places.tolist(), rows, starts, stops, strict=True):
            yield at, row, self._kinds[start:stop]

    def codes(self, at: int) -> list[int]:
        """The codes seen in the line at that place, each once."""
        stop = self._firsts[at + 1] if at + 1 < len(self._firsts) else len(self._codes)
        return list(set(self._codes[self._firsts[at] : stop].tolist()))

    def last(self, count: int) -> Any:
        """The last places."""
        import numpy

        return numpy.arange(max(0, len(self.rows) - count), len(self.rows))

    def last_of_each(self) -> Any:
        """Of each code the place where it is seen last."""
        import numpy

        last = len(self._codes) - 1 - numpy.unique(self._codes[::-1], return_index=True)[1]
        return numpy.unique(numpy.searchsorted(self._firsts, last, side="right") - 1)


class Prefilter:
    """Made once for a set of gates."""

    def __init__(self, gates: Iterable[bytes]) -> None:
        import numpy

        parts = ([gate[at : at + _SIZE] for at in range(len(gate) - _SIZE + 1)] for gate in gates)
        self._codes = sorted({_code(min(some, key=_weight)) for some in parts})
        self._empty = numpy.zeros(0, dtype=numpy.int64)

    def tables(self) -> tuple[Any, Any]:
        """(a table of all codes with those marked that a gate has, one with none marked)."""
        import numpy

        none = numpy.zeros(1 << (_BITS * _SIZE), dtype=bool)
        wanted = none.copy()
        wanted[self._codes] = True
        return wanted, none

    def near(self, kinds: bytes, wanted: Any) -> Near:
        """The lines with a code that is marked in the table `wanted`. `kinds`: lines as `letters` leaves them."""
        import numpy

        empty = self._empty
        marks = numpy.frombuffer(kinds, dtype=numpy.uint8)
        if len(marks) < _SIZE:
            return Near(kinds, empty, empty, empty, empty, empty)
        small = marks & ((1 << _BITS) - 1)
        codes = small[: -_SIZE + 1].astype(numpy.uint32)
        for at in range(1, _SIZE):
            codes <<= _BITS
            codes |= small[at : len(small) - _SIZE + 1 + at]
        hits = numpy.flatnonzero(wanted[codes])
        ends = numpy.flatnonzero(marks == 10)
        lines = numpy.searchsorted(ends, hits)
        firsts = numpy.flatnonzero(numpy.diff(lines, prepend=-1))
        chosen = lines[firsts]
        starts = numpy.concatenate(([0], ends + 1))
        stops = numpy.concatenate((ends, [len(marks)]))
        return Near(kinds, chosen, starts[chosen], stops[chosen], codes[hits], firsts)


class Lines(Sequence[bytes]):
    """The lines of a piece, cut out when they are asked for. A carriage return ends a line as well."""

    def __init__(self, data: bytes) -> None:
        import numpy

        marks = numpy.frombuffer(data, dtype=numpy.uint8)
        ends = numpy.flatnonzero((marks == 10) | (marks == 13))
        self._data = data
        self._starts = [0, *(ends + 1).tolist()]
        self._stops = [*ends.tolist(), len(data)]
        self.longest = int(numpy.diff(ends, prepend=-1, append=len(data)).max())

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, at: int) -> bytes: ...

    @overload
    def __getitem__(self, at: slice) -> list[bytes]: ...

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        return self._data[self._starts[at] : self._stops[at]]


def _code(part: bytes) -> int:
    code = 0
    for byte in part:
        code = code << _BITS | byte & ((1 << _BITS) - 1)
    return code


def _weight(part: bytes) -> float:
    """How often four letters are seen together, about."""
    weight = 1.0
    for byte in part:
        weight *= _OFTEN.get(byte, 0.5)
    return weight
