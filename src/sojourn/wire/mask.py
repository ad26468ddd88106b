"""Secrets in text that somebody will read: found in the forms programs print them in, and replaced by `***NAME***`.

The replacement has as many bytes as what it replaces, so that no position in a log changes: `***NAME***` and more
stars, or as much of it as there is room for. Pure.
"""

from __future__ import annotations

import os

from sojourn.wire import lean_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Mapping, Tuple

LEAST_CHARACTERS = 4  # shorter values stand in logs by chance: hiding them would hide the log, and tell the value
LINE_CHARACTERS = 8  # of a value of several lines, lines as long as this are hidden also where they stand alone


class Mask:
    """Hides the values of `values` (name -> value). Falsy where there is nothing to hide."""

    def __init__(self, values: Mapping[str, str]) -> None:
        needles: Dict[bytes, bytes] = {}
        for name in sorted(values):
            for form in forms(values[name]):
                needles.setdefault(form, b"***" + name.encode("utf-8", "surrogateescape") + b"***")
        self._needles = sorted(needles.items(), key=lambda item: -len(item[0]))
        self.longest_bytes = max([len(needle) for needle in needles] or [0])

    def __bool__(self) -> bool:
        return bool(self._needles)

    def spans(self, data: bytes) -> List[Tuple[int, int, bytes]]:
        """(from, to, label) of all that is to be hidden, in order; what overlaps is one span."""
        found = []
        for needle, label in self._needles:
            at = data.find(needle)
            while at >= 0:
                found.append((at, at + len(needle), label))
                at = data.find(needle, at + 1)
        merged: List[Tuple[int, int, bytes]] = []
        for start, end, label in sorted(found, key=lambda span: (span[0], -span[1])):
            if merged and start < merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]), merged[-1][2])
            else:
                merged.append((start, end, label))
        return merged

    def over(self, data: bytes) -> bytes:
        """`data` with everything hidden; as long as before."""
        spans = self.spans(data)
        if not spans:
            return data
        out = bytearray(data)
        for start, end, label in spans:
            out[start:end] = cover(label, end - start)
        return bytes(out)

    def over_text(self, text: str) -> str:
        """`over` for text."""
        return self.over(text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")

    def begun_bytes(self, data: bytes) -> int:
        """How many bytes at the end of `data` may be the beginning of something to hide."""
        longest = 0
        for needle, _ in self._needles:
            for size in range(min(len(needle) - 1, len(data)), longest, -1):
                if data.endswith(needle[:size]):
                    longest = size
                    break
        return longest


def cover(label: bytes, size_bytes: int) -> bytes:
    """What stands in the place of `size_bytes` hidden bytes."""
    return label[:size_bytes].ljust(size_bytes, b"*")


def forms(value: str) -> List[bytes]:
    """The bytes a value is looked for as: itself, without blanks around it, as JSON and as an URL write it, its lines.

    None for a value of fewer than LEAST_CHARACTERS characters.
    """
    bare = value.strip()
    if len(bare) < LEAST_CHARACTERS:
        return []
    texts = [value, bare, lean_json.dumps(bare)[1:-1], lean_json.dumps(bare, ensure_ascii=False)[1:-1], _quoted(bare)]
    texts += [line.strip() for line in bare.splitlines() if len(line.strip()) >= LINE_CHARACTERS]
    return list(dict.fromkeys(os.fsencode(text) for text in texts))


def _quoted(text: str) -> str:
    """As `urllib.parse.quote(text, safe="")`; that module would cost every keeper 5 ms and 1 MiB."""
    plain = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~"
    return "".join(chr(byte) if byte in plain else "%%%02X" % byte for byte in os.fsencode(text))
