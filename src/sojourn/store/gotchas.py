"""The catalog of gotchas: one TOML file each in data/gotchas, compiled on first use, so that no command waits.

Schema: docs/adding-a-gotcha.md.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from functools import cache
from typing import Any

from sojourn.core.gotcha import ROLES, SEVERITIES, Check, Gotcha, Merged, Pattern
from sojourn.core.regexes import gate
from sojourn.store.compiled import DATA, PACKAGE, compiled
from sojourn.wire.errors import Misuse

KEYS = (
    "id was title theme scope severity role ends tier refines see synonyms cause fix never check undecidable confirm"
    " refute weak shows sources symptom patterns merged"
).split()
STREAMS = ("log", "kernel", "ssh", "smi", "k8s")
FOLDER = os.path.join(DATA, "gotchas")
SOURCES = (FOLDER, *(os.path.join(PACKAGE, path) for path in ("store/gotchas.py", "core/gotcha.py", "core/regexes.py")))


class BadGotcha(Misuse):
    """data/gotchas/{file}: {what}."""

    code = "bad-gotcha"


@cache
def gotchas() -> tuple[Gotcha, ...]:
    """Every shipped gotcha, sorted by id."""
    return tuple(_value(row) for row in compiled("gotchas", SOURCES, compile_rows))


def compile_rows() -> list[dict[str, Any]]:
    """What `gotchas` reads, from all TOML files, sorted by id. Raises: BadGotcha."""
    rows = []
    for name in sorted(os.listdir(FOLDER)):
        if name.endswith(".toml"):
            with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
                rows.append(_lean(parse_gotcha(name, file.read())))
    return rows


def parse_gotcha(name: str, text: str) -> Gotcha:
    """One TOML file as a value. Raises: BadGotcha, naming what is wrong."""
    import tomllib

    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadGotcha(file=name, what=str(error)) from error
    what = _wrong(name, data)
    if what:
        raise BadGotcha(file=name, what=what)
    symptom = data.pop("symptom")
    patterns = tuple(
        Pattern(gate=gate(p["text"]), regex=p["text"], **{key: p[key] for key in p if key != "text"})
        for p in data.pop("patterns", ())
    )
    merged = tuple(Merged(m["was"], m.get("scope", ""), m["why"]) for m in data.pop("merged", ()))
    check = tuple(Check(**row) for row in data.pop("check", ()))
    plain: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in data.items()}
    plain["check"] = check
    return Gotcha(**plain, symptom_en=symptom["en"], symptom_zh=symptom["zh"], patterns=patterns, merged=merged)


def _value(row: Mapping[str, Any]) -> Gotcha:
    """A row of the index as a value."""
    plain: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
    plain["patterns"] = tuple(Pattern(**pattern) for pattern in row.get("patterns", ()))
    plain["merged"] = tuple(Merged(**merged) for merged in row.get("merged", ()))
    plain["check"] = tuple(Check(**check) for check in row.get("check", ()))
    return Gotcha(**plain)


def _wrong(name: str, data: Mapping[str, Any]) -> str:
    """What breaks the schema, or ""."""
    import re

    odd = [key for key in data if key not in KEYS]
    if odd:
        return f"unknown key {odd[0]!r}"
    if list(data) != [key for key in KEYS if key in data]:
        return f"keys are not in the order {' '.join(KEYS)}"
    for key in ("id", "title", "theme", "severity", "role", "cause", "fix"):
        if not isinstance(data.get(key), str) or not data[key].strip():
            return f"{key} lacks"
    if f"{data['id']}.toml" != name or not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", data["id"]):
        return "the id is not the name of the file"
    if data["severity"] not in SEVERITIES or data["role"] not in ROLES:
        return f"severity is one of {SEVERITIES}, role one of {ROLES}"
    if not isinstance(data.get("ends", False), bool) or (data.get("ends") and data["role"] == "advice"):
        return "ends is true or false; advice ends no run"
    symptom = data.get("symptom", {})
    if set(symptom) != {"en", "zh"} or not re.search(r"[\u4e00-\u9fff]", symptom["zh"]) or not symptom["en"].strip():
        return "symptom needs en and zh"
    for row in data.get("check", ()):
        if set(row) != {"run", "shows"} or not all(isinstance(one, str) and one.strip() for one in row.values()):
            return "each row of check needs run and shows"
    for pattern in data.get("patterns", ()):
        try:
            re.compile(pattern["text"])
        except (re.error, KeyError) as error:
            return f"pattern {pattern.get('text')!r}: {error}"
        if not gate(pattern["text"]):
            return f"pattern {pattern['text']!r} has no literal letters that every match contains"
        if pattern.get("where", "log") not in STREAMS or set(pattern) - {"text", "where", "proves", "fatal", "final"}:
            return f"pattern {pattern['text']!r}: where is one of {STREAMS}"
    can_confirm = data.get("confirm") or any(p.get("proves", True) for p in data.get("patterns", ()))
    if bool(can_confirm) == bool(data.get("undecidable")):
        return "needs either conditions (or proving patterns) or `undecidable`, the reason why it has none"
    return ""


def _lean(gotcha: Gotcha) -> dict[str, Any]:
    """As a dict without the class's defaults."""
    row = asdict(gotcha)
    lean = {}
    for spec in fields(Gotcha):
        if spec.default is MISSING or row[spec.name] != spec.default:
            lean[spec.name] = row[spec.name]
    for spec in fields(Pattern):
        for pattern in lean.get("patterns", ()):
            if spec.default is not MISSING and pattern[spec.name] == spec.default:
                del pattern[spec.name]
    return lean
