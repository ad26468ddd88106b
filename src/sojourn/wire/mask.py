"""Secrets in text for people: found in the forms that programs print them in, and replaced by `***NAME***`.

The replacement has the original's length in bytes, so that no position in a log changes: `***NAME***` and more stars,
or as much as fits. Pure.
"""

from __future__ import annotations

import binascii
import os

from sojourn.wire import lean_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Mapping, Tuple

LEAST_CHARACTERS = 4  # shorter values occur by chance: hiding them would hide the log, and reveal the value
LINE_CHARACTERS = 8  # of a value of several lines, lines at least this long are hidden on their own too
_LEAST_BASE64 = 5  # characters, of six bits each: a value of four characters alone gives six or more
_PLAIN = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~"
_TO_URLSAFE = bytes(range(256)).translate(bytes.maketrans(b"+/", b"-_"))


class Mask:
    """Hides the values of `values` (name -> value). Falsy if there is nothing to hide."""

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
        """(from, to, label) of everything to hide, in order; overlaps are one span."""
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
        """`data` with every secret hidden; the same length."""
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
        """How many bytes at the end of `data` may begin a secret."""
        longest = 0
        for needle, _ in self._needles:
            for size in range(min(len(needle) - 1, len(data)), longest, -1):
                if data.endswith(needle[:size]):
                    longest = size
                    break
        return longest


def cover(label: bytes, size_bytes: int) -> bytes:
    """The replacement for `size_bytes` hidden bytes."""
    return label[:size_bytes].ljust(size_bytes, b"*")


def forms(value: str) -> List[bytes]:
    """The byte forms of a value to look for: itself, without surrounding blanks, its lines, and as written in JSON,
    Python, a URL, a shell and base64. None for a value of fewer than LEAST_CHARACTERS characters.

    A few dozen, each a small multiple of the value: the number stays bounded.
    """
    bare = value.strip()
    if len(bare) < LEAST_CHARACTERS:
        return []
    found: List[bytes] = []
    for text in (value, bare):
        found += [os.fsencode(text), *_in_json(text), *_in_python(text), *_in_shell(text), *_in_urls(os.fsencode(text))]
    for text in (value, bare):
        found += _in_base64(os.fsencode(text))
    found += [os.fsencode(line.strip()) for line in bare.splitlines() if len(line.strip()) >= LINE_CHARACTERS]
    return list(dict.fromkeys(found))


def _in_json(text: str) -> List[bytes]:
    """As in JSON texts, with `/` plain or escaped; without the quotes."""
    told = [lean_json.dumps(text)[1:-1], lean_json.dumps(text, ensure_ascii=False)[1:-1]]
    return [os.fsencode(one) for form in told for one in (form, form.replace("/", "\\/"))]


def _in_python(text: str) -> List[bytes]:
    """As `repr` and `ascii` write it, and the `repr` of its bytes: alone, and where the text around has both quotes."""
    found = []
    for one in (text, text + "'\""):
        least = -1 if one == text else -4
        found += [repr(one)[1:least], ascii(one)[1:least], repr(os.fsencode(one))[2:least]]
    return [os.fsencode(one) for one in found]


def _in_shell(text: str) -> List[bytes]:
    """As written between single quotes: a quote inside closes them, and is written by `shlex.quote` or by hand."""
    return [os.fsencode(text.replace("'", one)) for one in ("'\"'\"'", "'\\''")] if "'" in text else []


def _in_urls(data: bytes) -> List[bytes]:
    """As `urllib.parse.quote` writes it, with and without a safe `/`, and `quote_plus`; hexadecimal in both cases.

    That module would cost every keeper 5 ms and 1 MiB.
    """
    found = []
    for safe in (b"/", b""):
        for form in ("%%%02X", "%%%02x"):
            quoted = "".join(chr(byte) if byte in _PLAIN + safe else form % byte for byte in data)
            found += [quoted.encode("ascii"), quoted.replace("%20", "+").encode("ascii")]
    return found


def _in_base64(data: bytes) -> List[bytes]:
    """As base64 writes it, standard and for URLs: alone, and within a longer text, where it starts at one of three
    offsets. There, only the characters it determines by itself; too few would match other texts."""
    found = []
    for lead in range(3):
        coded = binascii.b2a_base64(b"\0" * lead + data, newline=False)
        first = -(-8 * lead // 6)  # the first character without bits of the preceding text
        last = 8 * (lead + len(data)) // 6  # from here on characters contain bits of the following text
        found += [coded[first:last]] if last - first >= _LEAST_BASE64 else []
    whole = binascii.b2a_base64(data, newline=False)
    # Alone it ends with a character of fewer bits, and with padding, which some omit.
    found += [whole, whole.rstrip(b"=")] if len(whole.rstrip(b"=")) >= _LEAST_BASE64 else []
    return found + [form.translate(_TO_URLSAFE) for form in found if b"+" in form or b"/" in form]
