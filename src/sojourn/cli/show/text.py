"""Plain text for terminals and log files: what may reach a terminal, its width there, tables, times. Pure."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sojourn.wire.units import say_seconds, unstamp

LABEL = 9  # columns of a line's first word, including the gap
_JOINERS = "\u00ad\u200c\u200d"  # invisible, harmless, and needed by real words and emoji
_DOTS = "..."


def clean(text: object) -> str:
    r"""`text` without anything a terminal would obey: controls, bidi overrides and broken bytes are shown as `\x1b`.

    Newlines and tabs also become `\n` and `\t`, so the result is always one line. Printable text is unchanged.
    """
    raw = str(text)
    if raw.isprintable():
        return raw
    return "".join(_shown(c) for c in raw)


def width(text: str) -> int:
    """Columns that `text` takes in a terminal: 2 for wide characters (CJK, emoji), 0 for combining marks."""
    if text.isascii():
        return len(text)
    return sum(_columns(c) for c in text)


def cut(text: str, columns: int) -> str:
    """`text` in at most `columns` columns; if too long it loses its middle, because names differ at their ends."""
    if width(text) <= columns:
        return text
    if columns <= len(_DOTS):
        return _head(text, columns)
    room = columns - len(_DOTS)
    tail = _head(text[::-1], room // 2)[::-1]
    return _head(text, room - width(tail)) + _DOTS + tail


def cut_start(text: str, columns: int) -> str:
    """`text` in at most `columns` columns; too long a name loses its start, which the cells of a sweep share."""
    if width(text) <= columns:
        return text
    if columns <= len(_DOTS):
        return _head(text[::-1], columns)[::-1]
    return _DOTS + _head(text[::-1], columns - len(_DOTS))[::-1]


def pad(text: str, columns: int, *, right: bool = False) -> str:
    """`text` padded with spaces to `columns`; with `right` the text is right-aligned."""
    gap = " " * max(0, columns - width(text))
    return gap + text if right else text + gap


def line(label: str, text: str, columns: int) -> list[str]:
    """`label    text`, folded at spaces below itself so that no line is longer than `columns`."""
    folded = fold(text, columns - LABEL)
    return [(pad(label if i == 0 else "", LABEL) + part).rstrip() for i, part in enumerate(folded)]


def command(label: str, text: str) -> str:
    """A line with text to copy: never folded, never cut."""
    return pad(label, LABEL) + text


def fold(text: str, columns: int) -> list[str]:
    """Lines of at most `columns`, broken at spaces; a word longer than a line is broken where necessary."""
    lines: list[str] = []
    now = ""
    for word in text.split(" "):
        joined = now + " " + word if now else word
        if width(joined) <= columns:
            now = joined
            continue
        if now:
            lines.append(now)
        while width(word) > columns:
            lines.append(_head(word, columns) or word[0])
            word = word[len(lines[-1]) :]
        now = word
    return [*lines, now] if now or not lines else lines


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    columns: int,
    *,
    right: Iterable[int] = (),
    leave_out: Sequence[int] = (),
) -> list[str]:
    """Aligned lines of at most `columns`, `head` first. Cells must be clean; the first one names the row.

    A column that is empty in every row is left out. If room is short, the first column shrinks (down to 16 columns,
    names lose their start), then the columns of `leave_out` go in that order, then the line is cut.
    """
    kept = [i for i in range(len(head)) if i == 0 or any(row[i] for row in rows)]
    wide = {i: max([width(head[i])] + [width(row[i]) for row in rows]) for i in kept}
    least = min(16, wide[0])
    leave = [i for i in leave_out if i in kept]

    def needed() -> int:
        return sum(wide[i] for i in kept) + 2 * (len(kept) - 1)

    while leave and needed() - wide[0] + least > columns:
        kept.remove(leave.pop(0))
    wide[0] = max(least, wide[0] - max(0, needed() - columns))
    flush = frozenset(right)
    return [
        _head(
            "  ".join(pad((cut if i else cut_start)(row[i], wide[i]), wide[i], right=i in flush) for i in kept), columns
        ).rstrip()
        for row in [head, *rows]
    ]


def clock(at_s: float, now_s: float) -> str:
    """Local time with its zone: "14:03 CET" within today, "2026-11-20 14:03 CET" otherwise."""
    at, now = time.localtime(at_s), time.localtime(now_s)
    day = "" if at[:3] == now[:3] else time.strftime("%Y-%m-%d ", at)
    return day + time.strftime("%H:%M %Z", at)


def danger_clock(danger: Mapping[str, Any], now_s: float) -> str:
    """What happens to a machine, when (UTC stamps become local time and the time left), and what is lost."""
    try:
        at = clock(unstamp(danger["at"]), now_s)
    except ValueError:
        at = clean(danger["at"])
    left_s = danger.get("left_s")
    if isinstance(left_s, (int, float)):
        at += f", in {say_seconds(left_s)}" if left_s >= 0 else f", {say_seconds(-left_s)} ago"
    return f"{clean(danger['what'])} ({at}); loses {clean(danger['loses'])}"


def count(number: int, thing: str, things: str = "") -> str:
    """ "1 file", "2 files", "0 files"."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def _shown(c: str) -> str:
    kind = unicodedata.category(c)
    if c == "\n":
        return "\\n"
    if c == "\t":
        return "\\t"
    if kind == "Cs":  # a byte that was not UTF-8, as kept by os.fsdecode
        return f"\\x{ord(c) - 0xDC00:02x}" if 0xDC80 <= ord(c) <= 0xDCFF else f"\\u{ord(c):04x}"
    if kind in ("Cc", "Zl", "Zp") or (kind == "Cf" and c not in _JOINERS):
        return f"\\x{ord(c):02x}" if ord(c) < 256 else f"\\u{ord(c):04x}"
    return c


def _columns(c: str) -> int:
    if unicodedata.east_asian_width(c) in "WF":
        return 2
    return 0 if unicodedata.category(c) in ("Mn", "Me", "Cf") else 1


def _head(text: str, columns: int) -> str:
    taken = 0
    for i, c in enumerate(text):
        taken += _columns(c)
        if taken > columns:
            return text[:i]
    return text
