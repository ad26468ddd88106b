"""Lines that programs write and go on are no end and hide no error; the last words of a program tell why it ended."""

import tomllib
from pathlib import Path

import pytest

from sojourn.diagnose import evidence, scan
from sojourn.diagnose.reason import reason
from sojourn.store.gotchas import gotchas

SPECIMENS = Path(__file__).with_name("specimens")
LINES = SPECIMENS.joinpath("harmless-lines.txt").read_text(encoding="utf-8").splitlines()
STEPS = "".join(f"step {step}/1000 loss {2.5 - step / 1000:.3f}\n" for step in range(1, 30))
ALL = pytest.mark.trials(test=60, campaign=100_000, soak=100_000)
ENDED = "Traceback (most recent call last):\n  File 'train.py', line 41, in <module>\nKeyError: 'input_idz'\n"


def verdict_of(log: str) -> str:
    found = reason(gotchas(), evidence.from_log(scan.scan_log(log.encode(), gotchas()))).verdict
    return found.id if found is not None else "healthy"


def some(count: int) -> list[str]:
    """At most so many of the harmless lines, spread over all."""
    return LINES[:: -(-len(LINES) // min(count, len(LINES)))]


@ALL
def test_no_harmless_line_is_a_verdict_whatever_comes_after_it(trial_count: int) -> None:
    logs = {"alone": "{}\nloading data\nready\n", "in the middle": STEPS + "{}\n" + STEPS, "at the end": STEPS + "{}\n"}
    wrong = [
        (line, where, v)
        for line in some(trial_count)
        for where, log in logs.items()
        if (v := verdict_of(log.replace("{}", line))) != "healthy"
    ]
    assert not wrong


@ALL
def test_no_harmless_line_hides_the_error_of_the_program(trial_count: int) -> None:
    logs = {"just before": "{}\n" + ENDED, "long before": "{}\n" + STEPS + ENDED}
    wrong = [
        (line, where, v)
        for line in some(trial_count)
        for where, log in logs.items()
        if (v := verdict_of(log.replace("{}", line))) != "program-error"
    ]
    assert not wrong


def test_the_last_words_of_a_program_tell_the_cause() -> None:
    cases = tomllib.loads(SPECIMENS.joinpath("known-words.toml").read_text(encoding="utf-8"))["said"]
    wrong = [(case["text"], v) for case in cases if (v := verdict_of(STEPS + case["text"])) != case["is"]]
    assert not wrong
