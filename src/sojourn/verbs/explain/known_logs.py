"""Labelled excerpts of real logs, as the index that `diagnose.nearest` reads: built when the wheel is built, from the
specimens of the tests; in a clone on first use.
"""

from __future__ import annotations

import json
import os
from functools import cache
from typing import Any

from sojourn.diagnose.nearest import compile_known
from sojourn.store.compiled import DATA, PACKAGE, compiled

CARRIED = os.path.join(DATA, "known-logs.json")  # in a wheel
FOLDER = os.path.join(os.path.dirname(os.path.dirname(PACKAGE)), "tests", "diagnose", "specimens", "logs")  # in a clone
SOURCES = (FOLDER, *(os.path.join(PACKAGE, "diagnose", f"{name}.py") for name in ("nearest", "words", "lines")))
NO_CAUSE = ("healthy", "undetermined")


@cache
def known_logs() -> dict[str, Any]:
    """The index; one without logs where there are none."""
    if os.path.isfile(CARRIED):
        with open(CARRIED, encoding="utf-8") as file:
            carried: dict[str, Any] = json.load(file)
            return carried
    if not os.path.isdir(FOLDER):
        return compile_known(())
    found: dict[str, Any] = compiled("known-logs", SOURCES, lambda: compile_folder(FOLDER))
    return found


def compile_folder(folder: str) -> dict[str, Any]:
    """The index of all logs in `folder` that have a cause. Raises: OSError."""
    import tomllib

    known = []
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as file:
            row = tomllib.load(file)
        if row["expect"][0] not in NO_CAUSE:
            known.append((row["expect"][0], row["log"]))
    return compile_known(known)
