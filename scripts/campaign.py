"""`make campaign`: every trial there is, one table at the end, and docs/reliability.md written from it.

    python -m scripts.campaign [--size soak] [PYTEST ARGUMENTS]

Each promise is a file of tests; its row counts the trials of all of them. Called again on the same commit it resumes:
what passed is not played again. On a tree with uncommitted changes it begins anew.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from scripts import run_tests

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build/campaign"


@dataclass
class Promise:
    """A row of the table: what one file of tests came to."""

    title: str
    trials: int = 0
    violations: int = 0
    failures: int = 0
    unstable: int = 0
    seconds: float = 0.0


def main() -> int:
    """0 where everything held. Raises: SystemExit of argparse."""
    parser = argparse.ArgumentParser(prog="python -m scripts.campaign", description=__doc__)
    parser.add_argument("--size", choices=("campaign", "soak"), default="campaign")
    given, more = parser.parse_known_args()
    commit, is_dirty = git("rev-parse", "--short=12", "HEAD"), bool(git("status", "--porcelain"))
    ledger = FOLDER / f"{given.size}-{commit}{'-dirty' if is_dirty else ''}.jsonl"
    FOLDER.mkdir(parents=True, exist_ok=True)
    if is_dirty:
        ledger.unlink(missing_ok=True)
    if ledger.exists():
        print(f"campaign: resumes {ledger.relative_to(ROOT)}", flush=True)
    size = f"--size={given.size}"
    beside = ["-n", "3", "--dist", "loadfile", "--no-loadscope-reorder"]
    status = run_tests.pytest(ledger, size, f"--not-again={ledger}", *beside, *more)
    rows = newest(run_tests.read(ledger))
    bad = run_tests.failures(list(rows.values()))
    again = {test: why for test, (why, is_violation) in bad.items() if test and not is_violation}
    with tempfile.TemporaryDirectory() as folder:
        unstable = run_tests.passes_alone(again, Path(folder), [size]) if again else {}
    with ledger.open("a", encoding="utf-8") as file:
        for test in unstable:
            rows[test] = {**rows[test], "outcome": "passed", "unstable": True}
            file.write(json.dumps(rows[test]) + "\n")
    table = lines(rows, commit + (" with changes" if is_dirty else ""))
    print("", *table, sep="\n")
    if not more:
        write(table)
    failed = {test: why for test, (why, _) in bad.items() if test not in unstable}
    for test, why in failed.items():
        print(f"FAILED {test} - {why}")
    return 1 if failed or status not in (0, 1, 5) else 0


def git(*words: str) -> str:
    """What git answers about this checkout."""
    return subprocess.run(["git", *words], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def newest(rows: list[run_tests.Row]) -> dict[str, run_tests.Row]:
    """The last outcome of each test; a process left running counts where the test itself passed before."""
    found: dict[str, run_tests.Row] = {}
    for row in rows:
        found[row["test"]] = {**found.get(row["test"], {}), **row}
    return found


def lines(rows: dict[str, run_tests.Row], commit: str) -> list[str]:
    """The table in Markdown, a row for each file of tests, in order of their names."""
    found: dict[str, Promise] = {}
    for test, row in sorted(rows.items()):
        path = test.partition("::")[0]
        promise = found.setdefault(path, Promise(title(ROOT / path)))
        properties = row.get("properties", {})
        promise.trials += int(properties.get("trials", 1))
        promise.violations += bool(properties.get("violation"))
        promise.failures += row["outcome"] in ("failed", "left")
        promise.unstable += bool(row.get("unstable"))
        promise.seconds += float(row.get("seconds", 0.0))
    head = ["| promise | trials | violations | other failures | unstable | seconds | commit |"]
    head += ["| --- | ---: | ---: | ---: | ---: | ---: | --- |"]
    return head + [
        f"| [{one.title}](../{path}) | {one.trials:,} | {one.violations} | {one.failures - one.violations} | "
        f"{one.unstable} | {one.seconds:,.0f} | {commit} |"
        for path, one in found.items()
    ]


def title(path: Path) -> str:
    """The first sentence of the file's docstring; its name where it has none."""
    text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) if path.exists() else None
    return " ".join((text or path.stem).split()).partition(". ")[0].rstrip(".").replace("|", "/")


def write(table: list[str]) -> None:
    """Put the table at the head of docs/reliability.md, before the sections that the campaigns write themselves."""
    from benchmarks import page
    from tests import reliability

    about = page.where(f"{page.load_average()} at the end")
    page.put(reliability.PAGE, reliability.HEAD, "All campaigns", about, table)


if __name__ == "__main__":
    sys.exit(main())
