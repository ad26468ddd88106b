"""The letters that every match of a regex holds: what lets a scan pass over most lines of a log without the regex."""

from __future__ import annotations

import re

from sojourn.core.gotcha import letters

SHORTEST = 4


def gate(regex: str) -> str:
    """The longest run of letters that every match holds, as `letters` leaves them; "" where there is none of 4.

    Read from the text of the regex: what stands in groups with alternatives, classes and optional parts is left out.
    """
    runs = [letters(run.encode()).decode("latin-1") for run in _runs(regex)]
    best = max(runs, key=len, default="")
    return best if len(best) >= SHORTEST else ""


def _runs(regex: str) -> list[str]:
    """Literal runs at the top level; letters, digits and punctuation between them count as one run, for `letters`
    takes the latter out anyway. [] where the top level has alternatives."""
    runs, run = [], ""
    i = 0
    while i < len(regex):
        c = regex[i]
        piece, size = "", 1
        breaks = False
        if c == "\\":
            piece, size = regex[i + 1 : i + 2], 2
            if piece.isalnum():  # \d \s \w \b ...
                breaks = piece not in "bBdsAZ"  # what stands for digits and blanks is dropped from lines as well
                piece = ""
        elif c == "[":
            size = _end_of_class(regex, i) - i
            inside = regex[i : i + size]
            breaks = not re.fullmatch(r"\[[\d\s.,:;()=+\\sd/-]*\]", inside)
        elif c == "(":
            size = _end_of_group(regex, i) - i
            breaks = not re.fullmatch(r"\((?:\?:)?(?:\\d\+?|\[\\d[.,:]*\]\+?)\)", regex[i : i + size])
        elif c == "|":
            return []
        elif c in ".^$)":
            breaks = c == "."
        elif c in "*+?{":
            i += _quantifier(regex, i)
            continue
        else:
            piece = c
        after = regex[i + size : i + size + 1]
        if after in ("*", "?") and after or re.match(r"\{0?,", regex[i + size :]):
            if piece and piece.isalpha() or breaks or piece == "":
                breaks = breaks or piece.isalpha()
            piece = ""
        if breaks:
            runs.append(run)
            run = ""
        run += piece
        i += size
    return [*runs, run]


def _quantifier(regex: str, i: int) -> int:
    if regex[i] == "{":
        return regex.index("}", i) - i + 1
    return 1


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
