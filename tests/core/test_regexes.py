"""What every match of a regex holds, read from its text: no line that fits may be passed over for it."""

import re

import pytest

from sojourn.core.gotcha import letters
from sojourn.core.regexes import gate, needle
from sojourn.store.gotchas import gotchas

CASES = [
    (r"\bexit(?:ed)?(?:[ _-]*(?:with|code))*\W{0,6}134\b", "exit", "134", "exit_code: 134"),
    (r"exitcode\s*: -9\b", "exitcode", ": -9", "exitcode  : -9 (pid: 7)"),
    (r"No space+ left", "nospace", "no space", "No spaceee left"),
    (r"no spaces? left", "nospace", "no space", "No space left"),
    (r"Errno 28\] No space", "errnonospace", "errno 28] no space", "[Errno 28] No space"),
    (r"killed|aborted", "", "", "aborted"),
    (r"显存不足(?:了)?", letters("显存不足".encode()).decode("latin-1"), "显存不足", "显存不足了"),
    (r"x{2}loss [a-z]+ is nan", "isnan", " is nan", "xxloss here is nan"),
]


@pytest.mark.parametrize(("regex", "letters_of_all", "text_of_all", "line"), CASES)
def test_what_all_matches_hold_is_read_from_the_regex(
    regex: str, letters_of_all: str, text_of_all: str, line: str
) -> None:
    assert re.search(regex, line, re.I)
    assert gate(regex) == letters_of_all
    assert needle(regex) == text_of_all
    assert needle(regex) in line.lower()
    assert gate(regex).encode("latin-1") in letters(line.encode())


def test_hardly_a_pattern_of_the_catalog_is_without_a_text_that_every_match_holds() -> None:
    patterns = [pattern.regex for gotcha in gotchas() for pattern in gotcha.patterns]
    assert sum(len(needle(regex)) < 4 for regex in patterns) < len(patterns) / 20
