"""Run tests, and what failed once more: `python -m scripts.run_tests [--record=FILE] [PYTEST ARGUMENTS]`.

A test that fails, or leaves a process behind, is run again alone at the end, twice at most. If it passes then, it is
UNSTABLE: named in the last lines and in build/unstable.jsonl, no failure. A `Violation` fails the first time, and so
do more than `MOST_UNSTABLE` unstable tests. FILE: keep how each test ended the first time. SOJOURN_TEST_PYTHON: the
Python that runs the tests. Ends with 0 or 1, or with pytest's own status where nothing was run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

MOST_UNSTABLE = 10
RERUNS = 2
RECORD = Path("build/unstable.jsonl")
Row = dict[str, Any]


def main(arguments: list[str]) -> int:
    """Run pytest with these arguments, judge, and print what failed and what was unstable."""
    kept = [word.partition("=")[2] for word in arguments if word.startswith("--record=")]
    arguments = [word for word in arguments if not word.startswith("--record=")]
    with tempfile.TemporaryDirectory() as folder:
        record = Path(kept[0] if kept else f"{folder}/first")
        status = pytest(record, *arguments)
        first = read(record)
        if status not in (0, 1) or not first:
            return status or 1
        bad = failures(first)
        final = {test: why for test, (why, is_violation) in bad.items() if is_violation or test == ""}
        final |= {row["test"]: "left out: " + row["why"] for row in first if row["outcome"] == "left-out"}
        again = {test: why for test, (why, _) in bad.items() if test not in final}
        unstable: dict[str, str] = {}
        if len(again) <= 2 * MOST_UNSTABLE:
            unstable = passes_alone(again, Path(folder), arguments)
    final |= {test: why for test, why in again.items() if test not in unstable}
    for test, why in unstable.items():
        note(test, why)
        print(f"UNSTABLE {test} (first failure: {why})")
    for test, why in final.items():
        print(f"FAILED {test} - {why}")
    if len(unstable) > MOST_UNSTABLE:
        print(f"test: {len(unstable)} tests are unstable, and {MOST_UNSTABLE} are the most that may be")
    return 1 if final or len(unstable) > MOST_UNSTABLE else 0


def passes_alone(again: dict[str, str], folder: Path, arguments: list[str]) -> dict[str, str]:
    """Those of the tests that pass when run again one after the other; a Violation then is a failure."""
    waiting, unstable = dict(again), {}
    for attempt in range(RERUNS):
        if not waiting:
            break
        print(f"\ntest: once more, one after the other: {len(waiting)} that failed", flush=True)
        record = folder / f"again{attempt}"
        pytest(record, *options(arguments), *waiting)
        rows = read(record)
        bad = failures(rows)
        passed = {row["test"] for row in rows if row["outcome"] == "passed" and row["test"] not in bad}
        unstable.update({test: why for test, why in waiting.items() if test in passed})
        waiting = {
            test: why for test, why in waiting.items() if test not in passed and not bad.get(test, ("", False))[1]
        }
    return unstable


def pytest(record: Path, *arguments: str) -> int:
    """Pytest's exit status, with the record of the outcomes written."""
    return subprocess.run([interpreter(), "-m", "pytest", "-q", f"--outcomes={record}", *arguments]).returncode


def interpreter() -> str:
    """The Python that runs the tests; by default this one."""
    return os.environ.get("SOJOURN_TEST_PYTHON", sys.executable)


def options(arguments: list[str]) -> list[str]:
    """What a rerun takes over: the size alone, since it has its own tests and runs one at a time."""
    return [word for word in arguments if word.startswith("--size")]


def failures(rows: list[Row]) -> dict[str, tuple[str, bool]]:
    """(first line of why, whether it is a Violation) of each test that failed or left a process; "" is nobody's."""
    found: dict[str, tuple[str, bool]] = {}
    for row in rows:
        if row["outcome"] == "failed":
            found[row["test"]] = (row["why"], bool(row["properties"].get("violation")))
        elif row["outcome"] == "left":
            found.setdefault(row["test"], ("left running: " + row["why"], False))
    return found


def read(record: Path) -> list[Row]:
    """The rows of a record of outcomes, as tests/conftest.py writes them."""
    return [json.loads(line) for line in record.read_text("utf-8").splitlines()] if record.exists() else []


def note(test: str, why: str) -> None:
    """Add an unstable test to the list of this checkout."""
    RECORD.parent.mkdir(exist_ok=True)
    with RECORD.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"test": test, "why": why}) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
