"""Names and units: what people write is read as they mean it, or refused."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.wire import names, quote, units


@pytest.mark.parametrize("name", ["a", "a-b", "pixel-lr0.3", "x" * 63, "0", "a_b"])
def test_a_name_is_a_name(name: str) -> None:
    assert names.is_name(name)


@pytest.mark.parametrize("name", ["", "A", "a b", "-a", "a-", ".a", "a..b", "x" * 64, "a/b", "a\n", "\u00e9", "a%"])
def test_what_could_lead_elsewhere_is_no_name(name: str) -> None:
    assert not names.is_name(name)


@given(st.text())
def test_every_text_has_a_nearest_name_and_that_is_its_own(text: str) -> None:
    name = names.as_name(text)
    assert names.is_name(name) and names.as_name(name) == name


def test_the_nearest_valid_word_is_found_or_none() -> None:
    assert names.nearest("outptus", ["outputs", "setup", "run"]) == "outputs"
    assert names.nearest("zzz", ["outputs", "setup"]) == "" and names.nearest("x", []) == ""


def test_a_digest_names_content_and_not_its_order() -> None:
    assert names.digest({"a": 1, "b": [2]}) == names.digest({"b": [2], "a": 1})
    assert names.digest({"a": 1}) != names.digest({"a": "1"}) and re.fullmatch("[0-9a-f]{64}", names.digest(None))
    with pytest.raises(ValueError):
        names.digest(float("nan"))


@pytest.mark.parametrize(
    "text, value",
    [(90, 90), ("90", 90), ("90s", 90), ("20m", 1200), ("12h", 43200), ("1h30m", 5400), ("2d", 172800), ("1.5h", 5400)],
)
def test_durations_are_read(text: Any, value: float) -> None:
    assert units.seconds(text) == value


@pytest.mark.parametrize("text", ["", "-1", "1 parsec", "h", "1h-30m", "nan", "inf", None, "1,5h", "90 s x"])
def test_what_is_no_duration_is_refused(text: Any) -> None:
    with pytest.raises(ValueError):
        units.seconds(text)


@pytest.mark.parametrize(
    "text, value", [(512, 512), ("64k", 65536), ("1.5GiB", 3 << 29), ("2g", 2 << 30), ("3 MB", 3 << 20)]
)
def test_sizes_are_read(text: Any, value: int) -> None:
    assert units.size_bytes(text) == value


@pytest.mark.parametrize("text", ["", "-1", "1x", "GiB", "1.2.3k"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        units.size_bytes(text)


@pytest.mark.parametrize(
    "value, words",
    [
        (0, "0.0 s"),
        (0.44, "0.4 s"),
        (12.4, "12 s"),
        (192, "3 m 12 s"),
        (18120, "5 h 02 m"),
        (273600, "3 d 4 h"),
        (-3, "0.0 s"),
    ],
)
def test_durations_are_said_in_two_words(value: float, words: str) -> None:
    assert units.say_seconds(value) == words


@pytest.mark.parametrize("value, words", [(0, "0 B"), (312, "312 B"), (4096, "4.0 KiB"), (2_480_343_613, "2.31 GiB")])
def test_sizes_are_said(value: int, words: str) -> None:
    assert units.say_bytes(value) == words


def test_money_is_said_with_its_currency() -> None:
    assert units.say_money(1_190_000, "USD") == "1.19 USD"


@given(st.integers(0, 4_000_000_000_000))
def test_a_stamp_comes_back_to_the_millisecond(ms: int) -> None:
    stamp = units.stamp(ms / 1000)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", stamp)
    assert abs(units.unstamp(stamp) - ms / 1000) < 0.0011


@pytest.mark.parametrize("at_s", [253402300800.0, 1e18, float("inf"), float("-inf"), float("nan"), -1e15])
def test_a_time_beyond_the_years_of_four_digits_is_a_stamp_too(at_s: float) -> None:
    stamp = units.stamp(at_s)
    assert len(stamp) == 24 and units.stamp(units.unstamp(stamp)) == stamp


def test_what_is_no_stamp_is_refused() -> None:
    for text in ("", "yesterday", "2026-13-01T00:00:00.000Z", "2026-11-21"):
        with pytest.raises(ValueError):
            units.unstamp(text)


@given(st.lists(st.text(alphabet=st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)))))
def test_a_quoted_line_is_split_into_the_same_words(words: "list[str]") -> None:
    import shlex

    assert shlex.split(quote.join(words)) == words
