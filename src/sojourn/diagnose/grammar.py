"""Conditions over observations, three-valued: yes, no, unknown. What was not observed is unknown, never false.

One condition is a conjunction of predicates joined by " && "; a predicate is `observation op value`:
  == !=           a literal, `recorded` (kept at launch), `requested`, `expected`, or another observation
  > >= < <=       numbers, versions (12.10 > 12.4), or "[number *] observation"
  in              one of a comma list            contains   an element of a list, a key of a map, a part of a text
  =~ !~           a /regex/ or /regex/i          absent present   looked for and not there (null, empty), or there
A log is spoken of by its events (log.ended_by, log.warned, log.recovered, log.first_of, log.rank, log.said), never as a
whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any

OPS = ("==", "!=", ">=", "<=", "=~", "!~", ">", "<", "in", "contains", "absent", "present")
KEPT = ("recorded", "requested", "expected")
# Texts as a whole, in which what a run got over stands beside what ended it: its log, what a job printed.
RAW = re.compile(r"run\.log_text|\w+\.out")


class Truth(Enum):
    """What a condition is."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class BadCondition(ValueError):
    """A condition that is not of the grammar."""


@dataclass(frozen=True)
class Predicate:
    """One comparison. `value`: as written; for =~ and !~ the regex without its slashes."""

    what: str
    op: str
    value: str = ""
    flags: int = 0

    @property
    def other(self) -> str:
        """The observation on the right-hand side, "" where a literal stands there."""
        found = re.fullmatch(r"(?:[\d.]+ \* )?([a-z]+\.[a-z0-9_]+)", self.value) if self.op in _ORDER else None
        return found.group(1) if found else ""


@dataclass(frozen=True)
class Known:
    """One observed value, where it was read and when. `value` None: looked for and not there."""

    value: Any
    source: str = ""
    at: str = ""


@dataclass(frozen=True)
class Facts:
    """What is known: observations, and what was kept at launch (`recorded`) or asked for, by observation name."""

    known: Mapping[str, Known]
    kept: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def without(self, names: Iterable[str]) -> Facts:
        """The same with these observations withheld."""
        gone = set(names)
        return Facts({name: known for name, known in self.known.items() if name not in gone}, self.kept)


@lru_cache(maxsize=8192)
def parse(condition: str) -> tuple[Predicate, ...]:
    """The predicates of one condition. Raises: BadCondition."""
    return tuple(_predicate(part.strip()) for part in condition.split(" && "))


def evaluate(condition: str, facts: Facts) -> tuple[Truth, tuple[str, ...], tuple[str, ...]]:
    """(truth, observations that decided it, observations that lack).

    NO names the predicates that are false; YES and UNKNOWN name those that are true.
    """
    yes: list[str] = []
    no: list[str] = []
    lacking: list[str] = []
    for predicate in parse(condition):
        truth = test(predicate, facts)
        if truth is Truth.UNKNOWN:
            lacking += [name for name in (predicate.what, predicate.other) if name and name not in facts.known]
        else:
            (yes if truth is Truth.YES else no).append(predicate.what)
    if no:
        return Truth.NO, tuple(no), tuple(lacking)
    if lacking or len(yes) < len(parse(condition)):
        return Truth.UNKNOWN, tuple(yes), tuple(lacking)
    return Truth.YES, tuple(yes), ()


def test(predicate: Predicate, facts: Facts) -> Truth:
    """One comparison against what is known."""
    known = facts.known.get(predicate.what)
    if known is None:
        return Truth.UNKNOWN
    value, op = known.value, predicate.op
    if op in ("absent", "present"):
        is_there = value is not None and value != [] and value != {} and value != ""
        return _truth(is_there == (op == "present"))
    if op in ("=~", "!~"):
        hit = value is not None and _regex(predicate.value, predicate.flags).search(as_text(value)) is not None
        return _truth(hit == (op == "=~"))
    if op == "in":
        return _truth(value is not None and any(_equal(value, word.strip()) for word in predicate.value.split(",")))
    if op == "contains":
        return _truth(_contains(value, predicate.value))
    right: Any = predicate.value
    if right in KEPT:
        kept = facts.kept.get(right, {})
        if predicate.what not in kept:
            return Truth.UNKNOWN
        right = kept[predicate.what]
    elif predicate.other:
        there = facts.known.get(predicate.other)
        if there is None or there.value is None:
            return Truth.UNKNOWN
        factor, star, _ = predicate.value.partition(" * ")
        right = there.value
        if star:
            number = _number(right)
            if number is None:
                return Truth.UNKNOWN
            right = float(factor) * number
    if op in ("==", "!="):
        return _truth(_equal(value, right) == (op == "=="))
    return _compare(value, op, right)


def lines_of(condition: str, name: str, text: str) -> list[str]:
    """The lines of an observed text in which what the condition looks for begins."""
    wanted = [one for one in parse(condition) if one.what == name and one.op == "=~"]
    found = [hit for one in wanted if (hit := _regex(one.value, one.flags).search(text))]
    return [text[text.rfind("\n", 0, hit.start()) + 1 :].split("\n", 1)[0].strip() for hit in found]


def as_text(value: Any) -> str:
    """A value as the text that a regex sees: lists and maps as `key value` words."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return "\n".join(f"{key} {as_text(inner)}" for key, inner in value.items())
    if isinstance(value, (list, tuple, set, frozenset)):
        return "\n".join(as_text(inner) for inner in value)
    return "" if value is None else str(value)


_ORDER = {
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "==": None,
    "!=": None,
}


def _predicate(text: str) -> Predicate:
    found = re.fullmatch(
        r"([a-z]+\.[a-z0-9_]+) (==|!=|>=|<=|=~|!~|>|<|in|contains|absent|present)(?: (.+))?", text, re.S
    )
    if not found:
        raise BadCondition(f"not a predicate: {text!r}")
    what, op, value = found.group(1), found.group(2), found.group(3) or ""
    if RAW.fullmatch(what):
        raise BadCondition(f"{what} is raw text; use an event of it (log.ended_by, log.recovered, log.said): {text!r}")
    if (op in ("absent", "present")) == bool(value):
        raise BadCondition(f"{op} takes {'no' if value else 'a'} value: {text!r}")
    flags = 0
    if op in ("=~", "!~"):
        regex = re.fullmatch(r"/(.*)/([im]*)", value, re.S)
        if not regex:
            raise BadCondition(f"not a /regex/: {text!r}")
        value = regex.group(1)
        flags = (re.I if "i" in regex.group(2) else 0) | re.M
        try:
            _regex(value, flags)
        except re.error as error:
            raise BadCondition(f"{error}: {text!r}") from error
    return Predicate(what, op, value, flags)


@lru_cache(maxsize=4096)
def _regex(text: str, flags: int) -> re.Pattern[str]:
    return re.compile(text, flags)


def _truth(yes: bool) -> Truth:
    return Truth.YES if yes else Truth.NO


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float)):
        return float(value)
    try:
        return float(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _equal(value: Any, right: Any) -> bool:
    if isinstance(value, bool) or right in ("true", "false"):
        return str(value).lower() == str(right).lower()
    a, b = _number(value), _number(right)
    if a is not None and b is not None:
        return a == b
    if isinstance(value, str) and isinstance(right, str):
        return value.strip() == right.strip()
    return bool(value == right)


def _contains(value: Any, word: str) -> bool:
    if isinstance(value, str):
        return word in value
    if isinstance(value, (Mapping, list, tuple, set, frozenset)):
        return any(_equal(inner, word) for inner in value)
    return False


def _compare(value: Any, op: str, right: Any) -> Truth:
    order = _ORDER[op]
    assert order is not None
    a, b = _number(value), _number(right)
    if isinstance(value, str) and isinstance(right, str) and (value.count(".") or right.count(".")):
        versions = _version(value), _version(right)
        if all(versions):
            return _truth(order(*versions))
    if a is None or b is None:
        return Truth.NO if value is None else Truth.UNKNOWN
    return _truth(order(a, b))


def _version(text: str) -> tuple[int, ...]:
    found = re.match(r"v?(\d+(?:\.\d+)*)", text.strip())
    return tuple(int(part) for part in found.group(1).split(".")) if found else ()
