"""Where runs are kept while being made, tried, closed and set aside: a project's TOML file, or the usual folders.

    [states]                                   # below the root; {run} is the run, {attempt} its number
    active = "active/{run}"
    partial = "export/.partial/{run}"
    sealed = "export/{run}"
    quarantine = "quarantine/{run}--{attempt}"

    [files]
    leave = ["latest.*", "**/*.log", "cache/**"]        # stay where they are: never sealed
    required = ["run.json", "best.*"]                   # each must exist

    [keys]                                              # what a file must hold, by the keys that its loader sees
    "best.*" = ["model", "optimizer"]

`*` matches anything but a slash, `**/` any folders.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sojourn.wire import manifest, names
from sojourn.wire.errors import Misuse

STATES = ("active", "partial", "sealed", "quarantine")


class BadLayout(Misuse):
    """{path}: {detail}"""

    code = "bad-layout"


@dataclass(frozen=True)
class Layout:
    """Patterns of folders below a root, and of files in a run's folder."""

    active: str = "active/{run}"
    partial: str = "export/.partial/{run}"
    sealed: str = "export/{run}"
    quarantine: str = "quarantine/{run}--{attempt}"
    leave: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def folder(self, state: str, run: str, attempt: int = 0) -> str:
        """The run's folder in this state, relative to the root."""
        pattern: str = getattr(self, state)
        return pattern.replace("{run}", run).replace("{attempt}", str(attempt))


def read_layout(path: str) -> Layout:
    """The layout in the file at `path`. Raises: BadLayout, OSError."""
    import tomllib

    with open(path, "rb") as f:
        try:
            value = tomllib.load(f)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise BadLayout(path=path, detail=f"not TOML: {error}") from error
    known = {"states": STATES, "files": ("leave", "required"), "keys": None}
    for table, keys in known.items():
        _only(path, table, value.get(table, {}), keys)
    _only(path, "", value, tuple(known))
    states: dict[str, Any] = {name: _state(path, name, text) for name, text in value.get("states", {}).items()}
    files: dict[str, Any] = {name: _texts(path, name, texts) for name, texts in value.get("files", {}).items()}
    wanted = {glob: _texts(path, glob, texts) for glob, texts in value.get("keys", {}).items()}
    found = replace(Layout(**states), keys=wanted, **files)
    folders = [found.folder(state, "r", 1) for state in STATES]
    for one in folders:
        for other in folders:
            if one is not other and (other + "/").startswith(one + "/"):
                raise BadLayout(path=path, detail=f"{one!r} and {other!r} would be inside each other")
    return found


def hits(glob: str, name: str) -> bool:
    """Whether the file `name` (relative, with slashes) matches the glob."""
    return _pattern(glob).fullmatch(name) is not None


@functools.cache
def _pattern(glob: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*/?|\*|\?)", glob)
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(words.get(part, re.escape(part)) for part in parts), re.DOTALL)


def _only(path: str, table: str, value: Any, keys: tuple[str, ...] | None) -> None:
    if not isinstance(value, dict):
        raise BadLayout(path=path, detail=f"{table} is not a table")
    for key in value if keys is not None else ():
        if keys is not None and key not in keys:
            near = names.nearest(key, keys)
            where = f"[{table}] " if table else ""
            raise BadLayout(path=path, detail=f"{where}does not know {key!r}" + (f" (nearest: {near})" if near else ""))


def _state(path: str, name: str, text: Any) -> str:
    if not isinstance(text, str) or "{run}" not in text or not manifest.is_safe(text):
        raise BadLayout(path=path, detail=f"{name} must be a folder below the root with {{run}} in it")
    if name == "quarantine" and "{attempt}" not in text:
        raise BadLayout(path=path, detail="quarantine must have {attempt} in it: a run may be set aside more than once")
    return text


def _texts(path: str, name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(text, str) and text for text in value):
        raise BadLayout(path=path, detail=f"{name} is not a list of strings")
    return tuple(value)
