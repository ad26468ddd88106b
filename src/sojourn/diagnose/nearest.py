"""Known logs that a log looks like, where no pattern fits: labelled excerpts, compared by what their lines say. Pure.

A log is the terms of its last lines that say something, without numbers and folders, weighed by how rare each is
among the known logs; two are as alike as the cosine of their weights. Source: Salton, Buckley 1988, "Term-weighting
approaches in automatic text retrieval". Measured by leaving out whole repositories: tests/diagnose/test_nearest.py.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sojourn.diagnose.lines import bare, plain
from sojourn.diagnose.search import SPEAKS
from sojourn.diagnose.words import terms

LINES = 25  # of the end of a log that are compared
NEIGHBOURS = 20  # known logs that have a say, each by its likeness to the power of
POWER = 1.5
ALIKE = 0.1  # likeness from which a known log has one
MOST = 3  # entries that are named
SHARE = 0.05  # of the say, from which an entry is named
SURE = 0.1  # score of the best entry from which anything is said
COMMON = 0.3  # of all known logs: a term in more of them says nothing
SHOWN = 2  # lines per entry
SCALE = 1000  # weights in the index are whole numbers

_VARIES = re.compile(r"0x[0-9a-fA-F]+|\d+")
_FOLDERS = re.compile(r"(?:/[\w.@+-]+)+/([\w.@+-]+)")
_FRAME = re.compile(r'^\s*File "')


@dataclass(frozen=True)
class Alike:
    """An entry whose known logs this one looks like. `logs`: how many of them; `score`: 0 to 1, its share of what the
    nearest logs say, times the likeness of the nearest; `lines`: of this log, those that match best.
    """

    id: str
    logs: int
    score: float
    lines: tuple[str, ...]


def compile_known(known: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The index of (gotcha, log) as a plain document: `logs`, the gotcha of each; `terms`, term -> flat pairs of log
    and weight; `rare`, term -> weight of one occurrence.
    """
    labels, counted = [], []
    for gotcha, log in known:
        labels.append(gotcha)
        counted.append(Counter(_terms(telling(log))))
    frequency = Counter(term for counts in counted for term in counts)
    rare = {
        term: math.log(len(counted) / times)
        for term, times in sorted(frequency.items())
        if 1 < times <= max(2, COMMON * len(counted))  # a word of one log can join it with none
    }
    rows: dict[str, list[int]] = {term: [] for term in rare}
    for number, counts in enumerate(counted):
        for term, weight in _weights(counts, rare).items():
            rows[term] += [number, round(SCALE * weight)]
    return {"logs": labels, "terms": rows, "rare": {term: round(weight, 3) for term, weight in rare.items()}}


def nearest(index: Mapping[str, Any], log: str, without: Container[int] = ()) -> tuple[Alike, ...]:
    """The entries whose known logs `log` is most alike, best first; () where none is near. `without`: numbers of logs
    that have no say.
    """
    lines = telling(log)
    weights = _weights(Counter(_terms(lines)), index["rare"])
    scores: dict[int, float] = defaultdict(float)
    for term, weight in weights.items():
        row = index["terms"][term]
        for number, known in zip(row[::2], row[1::2], strict=True):
            scores[number] += weight * known / SCALE
    near = sorted(((score, number) for number, score in scores.items() if score >= ALIKE), reverse=True)
    near = [one for one in near if one[1] not in without][:NEIGHBOURS]
    if not near:
        return ()
    say: dict[str, float] = defaultdict(float)
    for score, number in near:
        say[index["logs"][number]] += score**POWER
    total = sum(say.values())
    named = sorted(((part / total, name) for name, part in say.items() if part >= SHARE * total), reverse=True)[:MOST]
    found = tuple(_alike(index, name, part, near, lines) for part, name in named)
    return found if found[0].score >= SURE else ()


def _alike(
    index: Mapping[str, Any], name: str, part: float, near: Sequence[tuple[float, int]], lines: Sequence[str]
) -> Alike:
    mine = {number: score for score, number in near if index["logs"][number] == name}
    told: list[tuple[float, str]] = []
    for line in dict.fromkeys(lines):
        weight = 0.0
        for term in set(_terms([line])) & index["terms"].keys():
            row = index["terms"][term]
            weight += index["rare"][term] * sum(number in mine for number in row[::2]) / len(mine)
        told.append((weight, line))
    best = sorted((one for one in told if one[0] > 0), reverse=True)[:SHOWN]
    shown = {line for _, line in best}
    return Alike(name, len(mine), round(part * max(mine.values()), 2), tuple(line for line in lines if line in shown))


def telling(log: str) -> list[str]:
    """The last lines that say something, without colours and ranks."""
    own = (bare(line)[1] for line in plain(log.encode("utf-8", "replace")).split("\n"))
    return [line for line in own if SPEAKS.search(line) and not _FRAME.match(line)][-LINES:]


def _terms(lines: Iterable[str]) -> list[str]:
    return [term for line in lines for term in terms(_VARIES.sub("#", _FOLDERS.sub(r"\1", line)))]


def _weights(counts: Mapping[str, int], rare: Mapping[str, float]) -> dict[str, float]:
    """The weights of one log's terms, of length 1."""
    weights = {term: (1 + math.log(times)) * rare[term] for term, times in counts.items() if term in rare}
    length = math.sqrt(sum(weight * weight for weight in weights.values()))
    return {term: weight / length for term, weight in weights.items()} if length else {}
