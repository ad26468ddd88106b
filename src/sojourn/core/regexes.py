"""What every match of a regex contains, so that a scan can skip most lines of a log without running the regex.

Read from the regex's text; groups, alternatives, classes and optional parts are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sojourn.core.gotcha import letters

SHORTEST = 4

_QUANTIFIER = re.compile(r"(?:[*+?]|\{\d*,?\d*\})[?+]?")
_OPTIONAL = ("*", "?", "{0", "{,")
_ZERO_WIDTH = (r"\b", r"\B", r"\A", r"\Z", "^", "$")
# Matches only what `letters` removes: digits, blanks, punctuation.
_NO_LETTERS = re.compile(r"\\(?:[sd]|[^\w])|\[[\d\s.,:;()=+\\sd/-]*\]|\((?:\?:)?(?:\\d\+?|\[\\d[.,:]*\]\+?)\)")


def gate(regex: str) -> str:
    """The longest run of letters in every match, as `letters` leaves them; "" if none has 4."""
    atoms = []
    for atom, times in _atoms(regex):
        kept = letters(atom.encode()).decode("latin-1") if _is_itself(atom) else ""
        if kept or not (_is_itself(atom) or _NO_LETTERS.fullmatch(atom)):
            atoms.append((kept, times))
    best = max(_runs(atoms), key=len, default="")
    return best if len(best) >= SHORTEST else ""


def needle(regex: str) -> str:
    """A text that every match contains literally, in lower case: the longest run with a digit, else the longest run; ""
    if there is none."""
    atoms = []
    for atom, times in _atoms(regex):
        is_escaped = atom[0] == "\\" and not atom[1:].isalnum()
        atoms.append((atom[1:] if is_escaped else atom if _is_itself(atom) else "", times))
    return max(
        _runs(atoms), key=lambda run: (len(run) > 1 and any(map(str.isdigit, run)), len(run)), default=""
    ).lower()


def _is_itself(atom: str) -> bool:
    return len(atom) == 1 and atom not in ".|"


def _runs(atoms: Sequence[tuple[str, str]]) -> list[str]:
    """Consecutive texts of (text, how often), joined. A run ends at an empty text or a count other than one."""
    runs = [""]
    for text, times in atoms:
        if text and not times.startswith(_OPTIONAL):
            runs[-1] += text
        if times or not text:
            runs.append("")
    return runs


def _atoms(regex: str) -> list[tuple[str, str]]:
    """(a letter, an escape, a class or a group; how often, "" for once), without the places between letters. Empty if
    there are alternatives at the top."""
    atoms, i = [], 0
    while i < len(regex):
        end = _ENDS[regex[i]](regex, i) if regex[i] in _ENDS else i + 1
        times = _QUANTIFIER.match(regex, end)
        if regex[i:end] == "|":
            return []
        if regex[i:end] not in _ZERO_WIDTH:
            atoms.append((regex[i:end], times.group() if times else ""))
        i = times.end() if times else end
    return atoms


def _end_of_class(regex: str, i: int) -> int:
    i += 2 if regex[i + 1] in "]^" else 1
    while regex[i] != "]":
        i += 2 if regex[i] == "\\" else 1
    return i + 1


def _end_of_group(regex: str, i: int) -> int:
    depth = 0
    while True:
        c = regex[i]
        if c == "\\":
            i += 1
        elif c == "[":
            i = _end_of_class(regex, i) - 1
        elif c == "(":
            depth += 1
        elif c == ")":
            depth -= 1
            if depth == 0:
                return i + 1
        i += 1


_ENDS: dict[str, Callable[[str, int], int]] = {"\\": lambda _, at: at + 2, "[": _end_of_class, "(": _end_of_group}
