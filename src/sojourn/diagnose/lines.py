"""The words of a program in a line of a log, without what others put around them: colours, times, names of containers
and hosts, ranks, and a progress bar that had no line end of its own."""

from __future__ import annotations

import re

MAX_LINE = 4096  # longer lines are looked at in parts
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")
_RANK = re.compile(
    r"\s*(?:\[(?:rank|default|Rank|RANK)?[ :_-]?(\d+)\]\s*:?|(\d{1,4}): |\[1,(\d+)\]<std(?:out|err)>:|"
    r"\((?:[\w.]+ )?(?:pid|rank)=(\d+)(?:, ip=[\d.]+)?\)|(?:rank|RANK|Rank)[ _:=]?(\d+)[\]:>]+)\s?"
)
# Times, and who copied the line: kubectl, docker compose, journald, a task runner.
_LEAD = re.compile(
    r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?:?(?:\s+(?:std(?:out|err) F )?|$)"
    r"|[A-Z][a-z]{2}\s+\d{1,2} \d\d:\d\d:\d\d \S+ (?!kernel)[\w./@-]+(?:\[\d+\])?: "
    r"|\[(?:pod|task|container)[/ ][^\]]{1,120}\] +|[\w.-]{1,60} +\| "
)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?|\b\d\d:\d\d:\d\d\b")
_QUOTED = re.compile(r"(?:> ?)*(?:`{1,3}|\*\*)?(?=[\w\[(])")  # as a person pastes it: a quotation, or marked as code
_BAR = re.compile(r".*?(?:it/s|s/it)\b[^\]]{0,300}\]\s*(?=[A-Z\[(])")


def plain(data: bytes) -> str:
    """Text without colours, carriage returns as line ends."""
    text = data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    return _COLOUR.sub("", text) if "\x1b" in text else text


def split_rank(line: str) -> tuple[int | None, str]:
    """(rank written before the line, the line without it)."""
    found = _RANK.match(line)
    if not found:
        return None, line
    digits = next((group for group in found.groups() if group), None)
    return (int(digits) if digits else None), line[found.end() :]


def bare(line: str) -> tuple[int | None, str]:
    """(rank, the program's own words)."""
    bar = _BAR.match(line) if "it/s" in line or "s/it" in line else None
    text = line[bar.end() :] if bar else line
    if text[:1] in (">", "`", "*") and (quoted := _QUOTED.match(text)):
        text = text[quoted.end() :]
    lead = _LEAD.match(text)
    return split_rank(text[lead.end() :] if lead else text)


def time_of(line: str) -> str:
    """The time that stands near the beginning of a line, as written; "" where none does."""
    found = _TIME.search(line[:60])
    return found.group() if found else ""
