"""Tables of tools that stand in a log or in a text that somebody pasted: each read by the parser of its tool.

Known by their heads: nvidia-smi, df -h and df -i, free, ps, squeue, sacct, scontrol show job, kubectl describe, kubectl
get pods. One that training steps came after was of another moment and says nothing. Of two tables of one tool the later
one counts. Looked for in the end of a log, as far as it is kept (64 KiB).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sojourn.diagnose import logend
from sojourn.diagnose.facts import cards, table
from sojourn.diagnose.grammar import Known

SOURCE = "the log"  # of everything here, as of all that is known by a log alone
_PAST = 3  # so many lines of progress after a table: the run went on
_LONGEST = 400  # lines of a table


@dataclass(frozen=True)
class _Tool:
    """`head`: the first line of a table; `row`: what each line below it looks like; `name`: as its probe is called."""

    name: str
    head: re.Pattern[str]
    row: re.Pattern[str]


_ANY = re.compile(r"\s*\S")
_TOOLS = (
    _Tool("nvidia-smi", re.compile(r"\| NVIDIA-SMI \d"), re.compile(r"\s*[|+]|\s*$")),
    _Tool("df", re.compile(r"Filesystem\s+(?:Size|Inodes|1K-blocks|1024-blocks|Type)\b"), re.compile(r"\S+\s.*\d%")),
    _Tool("free", re.compile(r"\s+total\s+used\s+free\b"), re.compile(r"\s*(?:Mem|Swap|-/\+ buffers/cache|Total):")),
    _Tool("ps", re.compile(r"\s*(?:USER\s+PID|PID\s+(?:TTY|PPID|USER|STAT|S)\b).*\b(?:COMMAND|CMD|ARGS)\s*$"), _ANY),
    _Tool("squeue", re.compile(r"\s*JOBID\s+PARTITION\b"), re.compile(r"\s*\d+\S*\s")),
    _Tool("sacct", re.compile(r"\s*JobID\b.*\bState\b"), re.compile(r"\s*(?:-+[ -]*$|\d+\S*[ |])")),
    _Tool("scontrol show job", re.compile(r"\s*JobId=\d+"), re.compile(r"\s+\w+=")),
    _Tool("kubectl describe", re.compile(r"Name:\s+\S+\s*$"), re.compile(r"\s*\S|\s*$")),
    _Tool("kubectl get pods", re.compile(r"(?:NAMESPACE\s+)?NAME\s+READY\s+STATUS\s+RESTARTS\s+AGE"), _ANY),
)
_WAITS = re.compile(r"(?:CrashLoop|ImagePull)BackOff|ErrImage\w+|InvalidImageName|CreateContainer(?:Config)?Error")


def observed(text: str, first: int, end: logend.End) -> dict[str, Known]:
    """What tables in the text say. `first`: the number of the lines before it."""
    found: dict[str, Known] = {}
    for tool, number, lines in _tables(text.split("\n"), first):
        if end.progress_after(number) >= _PAST:
            continue
        for what, value in _read(tool, "\n".join(lines)).items():
            found[what] = Known(value, f"{SOURCE}, a table of {tool} in line {number}")
    return found


def _tables(lines: list[str], first: int) -> Iterator[tuple[str, int, list[str]]]:
    """(the tool, the number of its head, the table's lines without what stands before each of them)."""
    at = 0
    while at < len(lines):
        begun = next(((tool, hit) for tool in _TOOLS if (hit := _head(tool, lines[at])) is not None), None)
        if begun is None:
            at += 1
            continue
        tool, start = begun
        lead = lines[at][:start]
        rows = [lines[at][start:]]
        after = at + 1
        while after < len(lines) and len(rows) < _LONGEST:
            row = lines[after].removeprefix(lead)
            is_next = any(_head(other, lines[after]) is not None for other in _TOOLS if other is not tool)
            if is_next or not tool.row.match(row):
                break
            rows.append(row)
            after += 1
        yield tool.name, first + at + 1, rows
        at = after


def _head(tool: _Tool, line: str) -> int | None:
    """Where the head of a table begins in a line, after a quotation mark or a log's own time; None: it is no head."""
    found = tool.head.search(line) if len(line) < 1000 else None
    if found is None:
        return None
    lead = line[: found.start()]
    return found.start() if re.fullmatch(r"(?:> ?)*|\[?[\d:.,TZ/ +-]{8,40}\]?[\w\[\]: ]{0,20}", lead) else None


def _read(tool: str, text: str) -> Mapping[str, Any]:
    if tool == "nvidia-smi":
        return cards.of_page(text)
    if tool == "ps":
        return _processes(text)
    if tool == "squeue":
        return _job(text)
    if tool == "kubectl get pods":
        return _pods(text)
    if tool == "kubectl describe" and "\nContainers:" not in text:
        return {}
    return table.observe(table.Probe(tool, text, rc=0))


def _processes(text: str) -> Mapping[str, Any]:
    """A python that stands still: in state D or T. That one is there says nothing of the run whose log it is."""
    head, *rows = text.split("\n")
    names = head.split()
    column = next((names.index(name) for name in ("STAT", "S") if name in names), None)
    if column is None:
        return {}
    cells = [row.split(None, len(names) - 1) for row in rows]
    states = {
        row[column][0]
        for row in cells
        if len(row) == len(names) and re.match(r"(?:\S*/)?(?:python|torchrun|deepspeed|accelerate)", row[-1])
    }
    still = [state for state in "DT" if state in states and "R" not in states]
    return {"run.state": still[0]} if still else {}


def _job(text: str) -> Mapping[str, Any]:
    """The state of the one job that is listed; of several, where all are in the same."""
    told = [table.observe(table.Probe("squeue", row, rc=0)) for row in text.split("\n")[1:] if row.strip()]
    return told[0] if told and all(one == told[0] for one in told) else {}


def _pods(text: str) -> Mapping[str, Any]:
    """What the STATUS of a pod says; of several pods that of the worst."""
    words = [row.split() for row in text.split("\n")[1:]]
    at = text.split("\n")[0].split().index("STATUS")
    status = [row[at] for row in words if len(row) > at]
    if waits := next((word for word in status if _WAITS.fullmatch(word.removeprefix("Init:"))), ""):
        return {"k.wait": waits.removeprefix("Init:")}
    if "OOMKilled" in status:
        return {"k.last": {"reason": "OOMKilled"}}
    if "Evicted" in status:
        return {"k.reason": "Evicted", "k.phase": "Failed"}
    return {"k.phase": "Pending"} if status and set(status) == {"Pending"} else {}
