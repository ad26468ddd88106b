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


class Sieve:
    """Made once for a set of gates."""

    def __init__(self, gates: Iterable[bytes]) -> None:
        import numpy

        self._by_code: dict[int, list[bytes]] = {}
        for gate in gates:
            parts = (gate[at : at + _SIZE] for at in range(len(gate) - _SIZE + 1))
            self._by_code.setdefault(_code(min(parts, key=_weight)), []).append(gate)
        self._is_wanted = numpy.zeros(1 << (_BITS * _SIZE), dtype=bool)
        self._is_wanted[list(self._by_code)] = True

    def near(self, kinds: bytes) -> Iterator[tuple[int, bytes, list[int]]]:
        """(number of the line from 0, the line, codes seen in it) of each line that a gate may stand in.

        `kinds`: lines as `letters` leaves them.
        """
        import numpy

        marks = numpy.frombuffer(kinds, dtype=numpy.uint8)
        if len(marks) < _SIZE:
            return
        small = marks & ((1 << _BITS) - 1)
        codes = small[: -_SIZE + 1].astype(numpy.uint32)
        for at in range(1, _SIZE):
            codes <<= _BITS
            codes |= small[at : len(small) - _SIZE + 1 + at]
        hits = numpy.flatnonzero(self._is_wanted[codes])
        if not len(hits):
            return
        ends = numpy.flatnonzero(marks == 10)
        lines = numpy.searchsorted(ends, hits)
        firsts = numpy.flatnonzero(numpy.diff(lines, prepend=-1))
        bounds = [*firsts.tolist(), len(hits)]
        seen = codes[hits].tolist()
        starts = numpy.concatenate(([0], ends + 1))
        stops = numpy.concatenate((ends, [len(marks)]))
        chosen = lines[firsts]
        for at, (line, start, stop) in enumerate(
            zip(chosen.tolist(), starts[chosen].tolist(), stops[chosen].tolist(), strict=True)
        ):
            yield line, kinds[start:stop], seen[bounds[at] : bounds[at + 1]]

    def gates(self, kind: bytes, codes: Iterable[int]) -> list[bytes]:
        """The gates that really stand in the line."""
        return [gate for code in set(codes) for gate in self._by_code[code] if gate in kind]


class Lines(Sequence[bytes]):
    """The lines of a piece, cut out when they are asked for. A carriage return ends a line as well."""

    def __init__(self, data: bytes) -> None:
        import numpy

        marks = numpy.frombuffer(data, dtype=numpy.uint8)
        ends = numpy.flatnonzero((marks == 10) | (marks == 13))
        self._data = data
        self._starts = [0, *(ends + 1).tolist()]
        self._stops = [*ends.tolist(), len(data)]

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
