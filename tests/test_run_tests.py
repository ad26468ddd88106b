"""The gate's own judgement: what is run again, what no rerun excuses, and what belongs to which size."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import campaign, changed

ROOT = Path(__file__).resolve().parent.parent
ONCE = """
from pathlib import Path
def test_that_fails_at_first():
    mark = Path(__file__).with_name("was-here")
    if not mark.exists():
        mark.touch()
        raise OSError("the disk was busy\\nand more")
"""
LEAVES = """
import subprocess, sys
from pathlib import Path
def test_that_leaves_a_process():
    mark = Path(__file__).with_name("left-one")
    if not mark.exists():
        mark.touch()
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
"""
BREAKS = ONCE.replace("OSError", "Violation").replace(
    "import Path", "import Path\nfrom tests.violation import Violation"
)
SIZED = """
import pytest
@pytest.mark.trials(test=3, campaign=70, soak=900)
def test_counts(trial_count):
    print("counted", trial_count)
@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("case", "abc")
def test_cases(case):
    pass
@pytest.mark.campaign
def test_long():
    pass
def test_short():
    pass
"""


def judged(folder: Path, *words: str, **files: str) -> tuple[int, str, list[dict[str, str]]]:
    """(exit status, output, build/unstable.jsonl) of the runner on a tree with these files of tests."""
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n  campaign: x\n  trials: x\n")
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "PYTEST_PLUGINS": "tests.conftest"}
    env["SOJOURN_TEST_LEAVE_S"] = "0.5"
    argv = [sys.executable, "-m", "scripts.run_tests", "-p", "no:cacheprovider", *words, "."]
    done = subprocess.run(argv, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    record = folder / "build/unstable.jsonl"
    noted = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
    return done.returncode, done.stdout, noted


def test_what_passes_alone_is_unstable_and_no_failure(tmp_path: Path) -> None:
    rc, said, noted = judged(tmp_path, good="def test_good(): pass", leaves=LEAVES, once=ONCE)
    assert rc == 0, said
    once, leaves = said.splitlines()[-2:]
    assert once == "UNSTABLE test_once.py::test_that_fails_at_first (first failure: OSError: the disk was busy)"
    assert leaves.startswith("UNSTABLE test_leaves.py::test_that_leaves_a_process (first failure: left running: pid")
    assert [row["test"].partition("::")[0] for row in noted] == ["test_once.py", "test_leaves.py"]


def test_what_fails_again_or_is_a_violation_is_a_failure(tmp_path: Path) -> None:
    leaves = LEAVES.replace("mark.exists()", "False")
    rc, said, noted = judged(tmp_path, bad="def test_bad(): assert 1 == 2", breaks=BREAKS, leaves=leaves)
    assert rc == 1 and "FAILED test_bad.py::test_bad - assert 1 == 2" in said
    assert "FAILED test_leaves.py::test_that_leaves_a_process - left running" in said
    assert "FAILED test_breaks.py::test_that_fails_at_first" in said and not noted, "a violation is never excused"


@pytest.mark.campaign
def test_eleven_unstable_tests_are_a_failure(tmp_path: Path) -> None:
    rc, said, noted = judged(tmp_path, **{f"n{n}": ONCE.replace("was-here", f"was-{n}") for n in range(11)})
    assert rc == 1 and "11 tests are unstable" in said and len(noted) == 11


def test_a_file_that_cannot_be_read_is_a_failure(tmp_path: Path) -> None:
    rc, said, _ = judged(tmp_path, bad="import nothing_of_that_name")
    assert rc == 2 and "nothing_of_that_name" in said


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize(
    ("size", "trials", "played"),
    [
        ("campaign", 70, {"test_counts", "test_cases[a]", "test_cases[b]", "test_cases[c]", "test_long"}),
        ("test", 3, {"test_counts", "test_cases[a]", "test_short"}),
        ("soak", 900, {"test_counts", "test_cases[a]", "test_cases[b]", "test_cases[c]", "test_long"}),
    ],
)
def test_a_size_has_its_tests_and_its_trials(tmp_path: Path, size: str, trials: int, played: set[str]) -> None:
    rc, said, _ = judged(tmp_path, f"--size={size}", "-v", "-s", f"--record={tmp_path / 'rows'}", sized=SIZED)
    rows = [json.loads(line) for line in (tmp_path / "rows").read_text().splitlines()]
    assert rc == 0 and f"counted {trials}" in said
    assert {row["test"].partition("::")[2] for row in rows} == played
    assert [row["properties"].get("trials") for row in rows if "counts" in row["test"]] == [trials]


def test_the_table_of_a_campaign_has_a_row_for_each_promise() -> None:
    rows = [
        {"test": "tests/test_run_tests.py::a", "outcome": "passed", "seconds": 2.0, "properties": {"trials": 50}},
        {"test": "tests/test_run_tests.py::b", "outcome": "failed", "seconds": 1.0, "properties": {"violation": True}},
        {"test": "tests/test_run_tests.py::c", "outcome": "passed", "seconds": 1.0, "properties": {}, "unstable": True},
    ]
    *_, line = campaign.lines(campaign.newest(rows), "0123")
    assert line == (
        "| [The gate's own judgement: what is run again, what no rerun excuses, and what belongs to which size]"
        "(../tests/test_run_tests.py) | 52 | 1 | 0 | 1 | 4 | 0123 |"
    )


def test_the_tests_of_a_file_are_those_that_import_it_or_are_named_after_it() -> None:
    found = changed.tests_of(["src/sojourn/core/law.py"])
    assert "tests/core/test_law.py" in found and "tests/law/test_campaign.py" in found
    assert "tests/wire/test_globs.py" not in found
