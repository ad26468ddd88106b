"""Real log excerpts, one file each with its source: the right entry comes first, and a harmless log is no failure."""

import tomllib
from collections.abc import Callable
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


def misses(changed: Callable[[str], str], files: list[Path] = FILES) -> list[str]:
    """Every specimen whose log, so changed, gets another answer than it should."""
    found = []
    for file in files:
        case = tomllib.loads(file.read_text(encoding="utf-8"))
        verdict = judged(changed(case["log"]))
        if answer(verdict) not in case["expect"]:
            found.append(f"{file.name}: {answer(verdict)}, not {case['expect']}: {verdict.findings[:4]}")
    return found


def some(count: int) -> list[Path]:
    """So many of the specimens, from everywhere."""
    return FILES[:: -(-len(FILES) // min(count, len(FILES)))]


@pytest.mark.trials(test=450, campaign=100_000, soak=100_000)
def test_the_right_entry_comes_first(trial_count: int) -> None:
    assert not (missed := misses(lambda log: log, some(trial_count))), "\n".join(missed)


@pytest.mark.trials(test=80, campaign=100_000, soak=100_000)
def test_colours_carriage_returns_and_ranks_change_nothing(trial_count: int) -> None:
    missed = misses(lambda log: "".join(f"\x1b[31m{line}\x1b[0m\r\n" for line in log.splitlines()), some(trial_count))
    assert not missed, "\n".join(missed)


def test_every_case_names_its_source() -> None:
    assert [file.name for file in FILES if 'source = "https://' not in file.read_text(encoding="utf-8")] == []


def test_there_are_sixty_cases_of_different_sources() -> None:
    sources = {tomllib.loads(file.read_text(encoding="utf-8"))["source"] for file in FILES}
    assert len(sources) >= 60


def test_a_bare_log_reaches_the_words_of_a_notebook_and_a_box_does_not() -> None:
    log = "Epoch 3/10 loss 0.3\nYour runtime has been disconnected due to inactivity.\n"
    assert answer(judged(log)) == "session-ended"
    facts = {"box.boot_id_changed": True, "run.exit_record": False}
    found = reason(gotchas(), evidence.from_document({"scope": ["generic-ssh"], "facts": facts}, gotchas()))
    assert "session-ended" not in {finding.id for finding in found.findings}
