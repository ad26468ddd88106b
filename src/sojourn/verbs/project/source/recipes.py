"""How a project's author starts its training: the command in a shell script or in a Makefile's rule for it."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from sojourn.wire.quote import join

_MOST_BYTES = 1 << 18
_SHELL = re.compile(r"(?:scripts/)?(?:run_)?(?:train|training|run)\.sh")
_RULE = re.compile(r"^(train|training|run|fit)\s*:(?!=)")
_SET = re.compile(r"^\s*(?:export\s+)?(\w+)\s*(?:\?|:|)=\s*(.*?)\s*$")
_USED = re.compile(r"\$(?:\{(\w+)(?::-([^}]*))?\}|\((\w+)\)|(\w+))")
_SIMPLE = re.compile(r"[^$`|;&<>(){}*?]+")


@dataclass(frozen=True)
class Recipe:
    """`command`: what runs the Python file `script`, with its variables filled in; "" if they are not known.

    `start`: how the author starts it. `where`: file:line.
    """

    script: str
    command: str
    start: str
    where: str


def recipe(root: str, shell_scripts: Sequence[str], scripts: Collection[str]) -> Recipe | None:
    """The one recipe that runs one of the project's `scripts`; None if there is none, or several. Raises: nothing."""
    found = [one for path in shell_scripts if _SHELL.fullmatch(path) for one in _in_shell(root, path, scripts)]
    found += _in_makefile(root, scripts)
    return found[0] if len({one.script for one in found}) == 1 else None


def _in_shell(root: str, path: str, scripts: Collection[str]) -> list[Recipe]:
    lines = _lines(root, path)
    found = list(_commands(lines, scripts))
    others = [text for _, text in lines if not re.match(r"\s*(#|set |cd |export |\w+=|echo |mkdir |$)", text)]
    start = join(["bash", path])
    if len(found) != 1:
        return []
    number, script, command = found[0]
    return [Recipe(script, command, command if command and len(others) == 1 else start, f"{path}:{number}")]


def _in_makefile(root: str, scripts: Collection[str]) -> list[Recipe]:
    lines = _lines(root, "Makefile")
    found: list[Recipe] = []
    for place, (_, text) in enumerate(lines):
        rule = _RULE.match(text)
        if not rule:
            continue
        body = []
        for number, below in lines[place + 1 :]:
            if not below.startswith("\t"):
                break
            body.append((number, below.strip().lstrip("@-")))
        hits = list(_commands([one for one in lines if _SET.match(one[1])] + body, scripts))
        if len(hits) == 1:
            number, script, command = hits[0]
            has_needs = bool(text.partition(":")[2].strip())
            start = command if command and len(body) == 1 and not has_needs else join(["make", rule.group(1)])
            found.append(Recipe(script, command, start, f"Makefile:{number}"))
    return found


def _commands(lines: Sequence[tuple[int, str]], scripts: Collection[str]) -> Iterator[tuple[int, str, str]]:
    """(line, script, command) of each line that runs one of the scripts."""
    values: dict[str, str] = {}
    for number, text in lines:
        given = _SET.match(text)
        if given and not text.startswith("\t"):
            values[given.group(1)] = _filled(given.group(2).strip("\"'"), values)
        try:
            words = shlex.split(text, comments=True)
        except ValueError:
            continue
        named = [word.removeprefix("./") for word in words if word.removeprefix("./") in scripts]
        if named and any(re.search(r"python|torchrun|accelerate|deepspeed|\$\(?\{?PY", word) for word in words):
            filled = _filled(text.strip(), values)
            yield number, named[0], filled if _SIMPLE.fullmatch(filled) else ""


def _filled(text: str, values: dict[str, str]) -> str:
    for _ in range(4):
        text = _USED.sub(
            lambda hit: values.get(hit[1] or hit[3] or hit[4], hit[2] if hit[2] is not None else hit[0]), text
        )
    return re.sub(r"\s+", " ", text.replace('"$@"', "").replace("$@", "")).strip()


def _lines(root: str, path: str) -> list[tuple[int, str]]:
    """(number, line), with continued lines as one."""
    try:
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as f:
            raw = f.read(_MOST_BYTES).splitlines()
    except OSError:
        return []
    out: list[tuple[int, str]] = []
    held = ""
    for number, line in enumerate(raw, 1):
        if line.endswith("\\"):
            held += line[:-1] + " "
            continue
        out.append((number, held + line))
        held = ""
    return out
