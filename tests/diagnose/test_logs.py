"""Real log excerpts, one file each with its source: the right entry comes first, and a harmless log is no failure."""

import tomllib
from pathlib import Path

import pytest

from sojourn.diagnose import evidence, scan
from sojourn.diagnose.reason import Verdict, reason
from sojourn.store.gotchas import gotchas

FILES = sorted((Path(__file__).parent / "specimens/logs").glob("*.toml"))


def judged(log: str) -> Verdict:
    return reason(gotchas(), evidence.from_log(scan.scan_log(log.encode(), gotchas())))


def answer(verdict: Verdict) -> str:
    if verdict.verdict is not None:
        return verdict.verdict.id
    return "healthy" if verdict.is_healthy else "undetermined"


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_the_right_entry_comes_first(file: Path) -> None:
    case = tomllib.loads(file.read_text(encoding="utf-8"))
    assert case["source"].startswith("https://")
    verdict = judged(case["log"])
    assert answer(verdict) in case["expect"], [(f.id, f.status) for f in verdict.findings]


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_colours_carriage_returns_and_ranks_change_nothing(file: Path) -> None:
    case = tomllib.loads(file.read_text(encoding="utf-8"))
    log = "".join(f"\x1b[31m{line}\x1b[0m\r\n" for line in case["log"].splitlines())
    assert answer(judged(log)) in case["expect"]


def test_there_are_sixty_cases_of_different_sources() -> None:
    sources = {tomllib.loads(file.read_text(encoding="utf-8"))["source"] for file in FILES}
    assert len(sources) >= 60


def test_a_bare_log_reaches_the_words_of_a_notebook_and_a_box_does_not() -> None:
    log = "Epoch 3/10 loss 0.3\nYour runtime has been disconnected due to inactivity.\n"
    assert answer(judged(log)) == "session-ended"
    facts = {"box.boot_id_changed": True, "run.exit_record": False}
    found = reason(gotchas(), evidence.from_document({"scope": ["generic-ssh"], "facts": facts}, gotchas()))
    assert "session-ended" not in {finding.id for finding in found.findings}
