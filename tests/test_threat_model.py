"""The threat model claims nothing that no test shows: each row of its tables of claims names tests, and they exist."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/threat-model.md"
CLAIMS = "| claim | where it is checked | test |"


def rows(page: str) -> list[list[str]]:
    """The cells of every row of a table of claims."""
    found = []
    for table in page.split(CLAIMS)[1:]:
        lines = table.strip("\n").splitlines()[1:]  # below the line of dashes
        for line in lines:
            if not line.startswith("|"):
                break
            found.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return found


def faults(page: str, root: Path) -> list[str]:
    """Rows without a test, tests that do not exist, and rooms that do not."""
    found = []
    for cells in rows(page):
        claim, rooms, tests = cells
        named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", tests)
        if not named:
            found.append(f"no test: {claim}")
        found += [f"{path}::{name} does not exist" for path, name in named if name not in functions(root / path)]
        for room in re.findall(r"`([\w/]+)`", rooms):
            place = root / "src/sojourn" / room
            if not place.is_dir() and not place.with_suffix(".py").is_file():
                found.append(f"src/sojourn/{room} does not exist")
    return found


def functions(path: Path) -> set[str]:
    if not path.is_file():
        return set()
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}


def test_every_claim_names_tests_and_rooms_that_exist() -> None:
    page = PAGE.read_text()
    assert len(rows(page)) > 25
    assert faults(page, ROOT) == []


def test_a_claim_without_a_test_is_found(tmp_path: Path) -> None:
    page = f"{CLAIMS}\n|---|---|---|\n| holds | `core/law` | none |\n| too | `core/no` | `tests/a.py::test_b` |\n"
    assert faults(page, ROOT) == [
        "no test: holds",
        "tests/a.py::test_b does not exist",
        "src/sojourn/core/no does not exist",
    ]
