"""Finds gotchas by what a person types or pastes, in English, Chinese, or both. Pure.

`compile_index` weighs every term of every field once (BM25 over weighted fields); the program loads the result.
`Search.find` adds up the weights of the question's terms, and lets the patterns of the catalog speak where a line of
the question is what a program said. Source of the ranking: Robertson, Zaragoza 2009, "The Probabilistic Relevance
Framework", section 3.6 (fields); figures set on half of tests/diagnose/questions, measured on the other half.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sojourn.core.gotcha import Gotcha, Pattern, letters
from sojourn.diagnose import lines
from sojourn.diagnose.lines import MAX_LINE
from sojourn.diagnose.words import Same, known, spoken, terms, told, unique

FIELDS = ("title", "symptom", "synonyms", "patterns", "id", "cause", "fix", "platform")
_WEIGHTS = dict(zip(FIELDS, (3.0, 3.0, 3.0, 2.0, 2.0, 1.2, 0.6, 3.0), strict=True))
_SATURATION, _LENGTH = 6.0, 0.4  # BM25's k1 and b
_CONCEPT = 0.65  # a word of the same meaning counts less than the word itself
_PAIR = 0.2  # two words in a row, on top of each of them
_COVER = 0.4  # of the words' weight: lost by an entry that meets one of them only
_PLACE_NAME = 0.3  # of what the name of a platform weighs as a word: that it is meant counts on its own
_HERE, _HERE_AT_ALL = 1.4, 6.0  # what happens on the platform that is meant
_OTHER_PLATFORM, _NO_PLATFORM = 0.45, 0.75  # what happens on one platform, where the question names another, or none
_SAID = {"cause": 1.0, "program": 0.75, "consequence": 0.6, "advice": 0.6}  # a pattern that matches, by role
_PATTERN = 40.0
_BESIDE = 0.5  # of the words of a log in which a pattern matches
TOLD = 8  # words that are told as the reason of a hit
_LONG = 8  # lines from which a text is a log: then only the lines that say something are read as words
_SCANNED = 256 << 10  # letters from which the catalog's own scan, which has to be prepared, is the faster way
_ALIKE = 20  # lines that differ in no letter, in which one pattern is looked for
SPEAKS = re.compile(
    r"(?i)error|exception|fail|kill|denied|cannot|can't|unable|not found|timed? ?out|refused|abort|fatal|warn|evict|oom"
    r"|no such|missing|unknown|invalid|exceed|[\u3400-\u9fff]"
)
_REGEX = re.compile(r"\\[bdswBDSWAZ]|\(\?[a-z:]*|[\\^$()|*+?{}\[\]]|\.(?=[*+?])")


@dataclass(frozen=True)
class Found:
    """A gotcha that answers. `why`: what of the question met which field of it, most telling first."""

    id: str
    was: str
    title: str
    score: float
    why: tuple[str, ...]
    related: tuple[str, ...]


def compile_index(
    gotchas: Sequence[Gotcha], same: Mapping[str, Sequence[str]], places: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """The index as a plain document.

    `same`: words of one meaning; `places`: what people call the scopes of gotchas. In the index: `entries`, rows of id,
    seed number, title, scope, related ids; `terms`, term -> flat pairs of entry and weight * 100 * 8 + field.
    """
    groups = Same(same)
    counted = [_counts(gotcha, groups, places) for gotcha in gotchas]
    lengths = [sum(sum(by.values()) for by in fields.values()) for fields in counted]
    mean = sum(lengths) / max(1, len(lengths))
    frequency: dict[str, int] = {}
    for fields in counted:
        for term in fields:
            frequency[term] = frequency.get(term, 0) + 1
    rows: dict[str, list[int]] = {}
    for number, fields in enumerate(counted):
        norm = _SATURATION * (1 - _LENGTH + _LENGTH * lengths[number] / mean)
        for term, by in fields.items():
            total = sum(by.values())
            idf = math.log(1 + (len(gotchas) - frequency[term] + 0.5) / (frequency[term] + 0.5))
            kind = _CONCEPT if term[0] == "=" else _PAIR if " " in term else 1.0
            weight = idf * total * (_SATURATION + 1) / (total + norm) * kind
            best = max((field for field in FIELDS if field in by), key=lambda field: _WEIGHTS[field])
            if weight >= 0.05:
                rows.setdefault(term, []).extend((number, round(weight * 100) * 8 + FIELDS.index(best)))
    index = {
        "same": {name: list(words) for name, words in same.items()},
        "places": {name: list(words) for name, words in places.items()},
        "entries": [[g.id, g.was, g.title, list(_places(g, places)), []] for g in gotchas],
        "terms": dict(sorted(rows.items())),
    }
    _relate(index, gotchas)
    return index


class Search:
    """The compiled index, ready to be asked. `gotchas`: the catalog, for its patterns."""

    def __init__(self, index: Mapping[str, Any], gotchas: Sequence[Gotcha]) -> None:
        self._entries: Sequence[Sequence[Any]] = index["entries"]
        self._terms: Mapping[str, Sequence[int]] = index["terms"]
        self._same, self._named = Same(index["same"]), Same(index["places"])
        self._places: Mapping[str, Sequence[str]] = index["places"]
        self._gotchas = {gotcha.id: gotcha for gotcha in gotchas}
        self._scanned = tuple(gotchas)  # one and the same each time: the scan keeps what it prepared for it

    def find(self, text: str, *, limit: int = 8, scope: Iterable[str] = ()) -> list[Found]:
        """The entries that answer best, best first. `scope`: platforms known to be meant, beside those it names."""
        plain = lines.plain(text.encode("utf-8", "replace"))
        said = self._said(plain)
        telling = _telling(plain, said)
        # Of a log that says what happened, the words beside that mean little.
        share = _BESIDE if said and telling is not plain else 1.0
        words = {**dict(reversed(spoken(telling))), **{f"={name}": name for name in self._same.found(telling)}}
        meant = {*self._named.found(plain), *scope}
        names = {term for place in meant for word in self._places.get(place, ()) for term in terms(word)}
        scores = [0.0] * len(self._entries)
        why: list[list[tuple[float, str, int]]] = [[] for _ in self._entries]
        for term, word in words.items():
            flat = self._terms.get(term, ())
            for place in range(0, len(flat), 2):
                weight = (flat[place + 1] >> 3) / 100 * share * (_PLACE_NAME if term in names else 1.0)
                scores[flat[place]] += weight
                why[flat[place]].append((weight, word, flat[place + 1] & 7))
        elsewhere = _OTHER_PLATFORM if meant else _NO_PLATFORM
        asked = sum(1 for term in words if term in self._terms) or 1
        for number, entry in enumerate(self._entries):
            scores[number] *= 1 - _COVER + _COVER * len(why[number]) / asked
            scores[number] += said.get(entry[0], (0.0, ""))[0]
            if entry[3]:
                is_here = entry[0] in said or (scores[number] > 0 and not meant.isdisjoint(entry[3]))
                scores[number] = scores[number] * _HERE + _HERE_AT_ALL if is_here else scores[number] * elsewhere
        order = sorted((n for n, score in enumerate(scores) if score > 0), key=lambda n: (-scores[n], n))
        least = scores[order[0]] * 0.2 if order else 0.0
        return [
            Found(
                entry[0],
                entry[1],
                entry[2],
                round(scores[n], 2),
                _why(why[n], said.get(entry[0]), telling),
                tuple(entry[4]),
            )
            for n in order[:limit]
            for entry in [self._entries[n]]
            if scores[n] >= least
        ]

    def _said(self, plain: str) -> dict[str, tuple[float, str]]:
        """Gotchas whose pattern a line matches: score and the line. The catalog's own scan reads what is long."""
        if len(plain) >= _SCANNED:
            from sojourn.diagnose.scan import scan_log  # a question is short, and should not pay for loading it

            hits = [(hit.gotcha, hit.pattern, hit.line) for hit in scan_log(plain.encode(), self._scanned).hits]
        else:
            hits = _short(plain, self._scanned)
        out: dict[str, tuple[float, str]] = {}
        for gotcha, pattern, line in hits:
            known = self._gotchas[gotcha]
            # The longer the text that a pattern asks for, the less it can be there by chance.
            sure = min(1.0, 0.4 + len(pattern.gate) / 25) * (1.0 if pattern.proves else 0.6)
            score = _PATTERN * _SAID[known.role] * sure
            if score > out.get(gotcha, (0.0, ""))[0]:
                out[gotcha] = (score, line.strip())
        # What says the same and less stands below.
        for gotcha in list(out):
            for wider in self._gotchas[gotcha].refines:
                if wider in out:
                    out[wider] = (out[wider][0] * 0.6, out[wider][1])
        return out


def _short(plain: str, gotchas: Iterable[Gotcha]) -> list[tuple[str, Pattern, str]]:
    """Patterns that match a line of a text; without the scan, which has to be prepared first.

    The letters of the whole text are asked for the gate of each pattern, and only the lines that hold it are read.
    """
    rows = plain.split("\n")
    kept = letters(plain.encode()).decode("latin-1")  # as gates are kept
    kinds = kept.split("\n")
    hits = []
    for gotcha in gotchas:
        for pattern in gotcha.patterns:
            if pattern.gate in kept:
                line = _matching(pattern, rows, kinds)
                if line is not None:
                    hits.append((gotcha.id, pattern, line))
    return hits


def _matching(pattern: Pattern, lines: Sequence[str], kinds: Sequence[str]) -> str | None:
    """The first line that the pattern matches. `kinds`: what `letters` leaves of each line."""
    regex, tried = _regex(pattern.regex), Counter[str]()
    for kind, line in zip(kinds, lines, strict=True):
        if pattern.gate in kind and tried[kind] < _ALIKE:
            tried[kind] += 1
            if regex.search(line[:MAX_LINE]):
                return line
    return None


@cache
def _regex(text: str) -> re.Pattern[str]:
    """Compiled once: the catalog has more patterns than `re` keeps."""
    return re.compile(text, re.I)


def _telling(plain: str, said: Mapping[str, tuple[float, str]]) -> str:
    """Of a long text the lines that say something: of errors, in Chinese, matched by a pattern, the first and last."""
    lines = [line for line in plain.splitlines() if line.strip()]
    if len(lines) < _LONG:
        return plain
    kept = [line for i, line in enumerate(lines) if i < 2 or i >= len(lines) - 3 or SPEAKS.search(line)]
    shown = kept if len(kept) <= 60 else [*kept[:20], *kept[-40:]]
    return "\n".join(line[:400] for line in unique([*(line for _, line in said.values()), *shown]))


def _why(met: Sequence[tuple[float, str, int]], said: tuple[float, str] | None, text: str) -> tuple[str, ...]:
    """What of the question met which field: the line that a pattern matched, then the words that weigh most."""
    by: dict[int, list[str]] = {}
    for _, word, field in sorted(met, reverse=True)[:TOLD]:
        by.setdefault(field, []).append(word)
    lines = [
        f"{FIELDS[field]}: {', '.join(told(sorted(words, key=lambda word: text.lower().find(word))))}"
        for field, words in by.items()
    ]
    return (*([f"a line says: {said[1][:120]}"] if said else []), *lines)


def _counts(gotcha: Gotcha, same: Same, places: Mapping[str, Sequence[str]]) -> dict[str, dict[str, float]]:
    """term -> field -> weighted count."""
    texts = {
        "title": gotcha.title,
        "symptom": f"{gotcha.symptom_en}\n{gotcha.symptom_zh}",
        "synonyms": "\n".join(gotcha.synonyms),
        "patterns": "\n".join(unique(_REGEX.sub(" ", pattern.regex) for pattern in gotcha.patterns)),
        "id": gotcha.id.replace("-", " "),
        "cause": gotcha.cause,
        "fix": f"{gotcha.fix}\n{gotcha.never}",
        "platform": "\n".join(word for place in _places(gotcha, places) for word in places[place]),
    }
    out: dict[str, dict[str, float]] = {}
    for field, text in texts.items():
        for term in known(text, same):
            if " " in term and field in ("cause", "fix"):
                continue
            by = out.setdefault(term, {})
            by[field] = by.get(field, 0.0) + _WEIGHTS[field]
    return out


def _places(gotcha: Gotcha, places: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Scopes that bind an entry to a platform; () for one that may happen anywhere."""
    return () if "universal" in gotcha.scope else tuple(scope for scope in gotcha.scope if scope in places)


def _relate(index: dict[str, Any], gotchas: Sequence[Gotcha]) -> None:
    """Fill in the related ids: named ones in both directions, then those that are nearest in words; 5 at most."""
    ids = {gotcha.id for gotcha in gotchas}
    named: dict[str, list[str]] = {gotcha.id: [] for gotcha in gotchas}
    for gotcha in gotchas:
        for other in (*gotcha.see, *gotcha.refines):
            if other in ids:
                named[gotcha.id].append(other)
                named[other].append(gotcha.id)
    search = Search(index, ())
    for entry, gotcha in zip(index["entries"], gotchas, strict=True):
        near = search.find(f"{gotcha.title} {gotcha.symptom_en} {gotcha.symptom_zh}", limit=5, scope=entry[3])
        close = [found.id for found in near if found.score >= 0.3 * near[0].score] if near else []
        related = [other for other in unique([*named[gotcha.id], *close]) if other != gotcha.id]
        entry[4] = related[:5]
