"""What reaches a terminal is clean, and no wider than it should be."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.cli.show.log import Lines
from sojourn.cli.show.text import clean, command, count, cut, fold, line, pad, table, width

ANYTHING = st.text(st.characters(codec=None), max_size=60)  # lone surrogates too, as file names may hold them


@given(ANYTHING)
def test_cleaned_text_holds_nothing_that_a_terminal_obeys(text: str) -> None:
    for c in clean(text):
        assert unicodedata.category(c) not in ("Cc", "Cs", "Zl", "Zp"), repr(c)
        assert not "\u202a" <= c <= "\u202e" and not "\u2066" <= c <= "\u2069"


@given(st.text(st.characters(categories=("L", "M", "N", "P", "S", "Zs")), max_size=40))
def test_printable_text_of_any_language_is_left_as_it_is(text: str) -> None:
    assert clean(text) == text


def test_control_characters_are_shown_not_obeyed() -> None:
    assert clean("a\x1b[2Jb\nc\td\x9be\u202ef\udcff") == r"a\x1b[2Jb\nc\td\x9be\u202ef\xff"


@given(ANYTHING.map(clean), st.integers(1, 40))
def test_a_cut_text_is_never_wider_than_asked(text: str, columns: int) -> None:
    assert width(cut(text, columns)) <= columns


def test_a_name_that_is_too_long_loses_its_middle() -> None:
    assert cut("digits-very-long-name-seed-17", 16) == "digits-...eed-17"


def test_wide_letters_take_two_columns_and_marks_none() -> None:
    assert (width("数字"), width("e\u0301"), width("abc")) == (4, 1, 3)
    assert pad("数", 4) + "|" == "数  |"


@given(ANYTHING.map(clean), st.integers(2, 80))
def test_folding_keeps_every_letter_and_the_width(text: str, columns: int) -> None:
    folded = fold(text, columns)
    assert all(width(part) <= columns for part in folded)
    assert "".join(folded).replace(" ", "") == text.replace(" ", "")


def test_folding_ends_also_where_there_is_no_room() -> None:
    assert fold("ab 数", 0) == ["a", "b", "数"]


@given(st.lists(st.tuples(*[ANYTHING.map(clean)] * 4), max_size=5), st.integers(20, 100))
def test_a_table_never_overflows_and_keeps_its_columns_aligned(rows: list[tuple[str, ...]], columns: int) -> None:
    drawn = table(("NAME", "STATE", "STEP", "COST"), rows, columns, right=(2,), leave_out=(2,))
    assert len(drawn) == len(rows) + 1
    assert all(width(text) <= columns for text in drawn)


def test_a_column_that_says_nothing_is_left_out() -> None:
    assert table(("A", "B", "C"), [("x", "", "z")], 80) == ["A  C", "x  z"]


def test_a_short_screen_first_shortens_the_name_then_leaves_columns_out() -> None:
    rows = [("a-very-long-name-of-a-run-that-nobody-can-read", "succeeded", "12 m", "free")]
    assert table(("RUN", "STATE", "FOR", "COST"), rows, 44, leave_out=(2,))[1] == (
        "...at-nobody-can-read  succeeded  12 m  free"
    )
    assert table(("RUN", "STATE", "FOR", "COST"), rows, 33, leave_out=(2,))[0].split() == ["RUN", "STATE", "COST"]


def test_a_line_is_folded_below_its_own_text_and_a_command_never() -> None:
    assert line("fix", "one two three", 16) == ["fix      one two", "         three"]
    assert command("next", "sojourn " + "x" * 90) == "next     sojourn " + "x" * 90


@pytest.mark.parametrize(("number", "said"), [(0, "0 files"), (1, "1 file"), (1234, "1,234 files")])
def test_counts_are_said_in_words(number: int, said: str) -> None:
    assert count(number, "file") == said


def test_a_log_on_a_terminal_drops_colours_and_obeys_nothing() -> None:
    assert Lines().feed(b"\x1b[31mred\x1b[0m \x1b]0;title\x07\n") == [r"red \x1b]0;title\x07"]


def test_of_a_progress_bar_only_its_last_form_is_shown() -> None:
    lines = Lines()
    assert lines.feed(b"10%\r20%\r30%\r") == ["30%"]
    assert lines.feed(b"40%\r100%\ndone") == ["100%"]
    assert lines.end() == ["done"]


def test_a_progress_bar_is_seen_while_it_moves_whichever_end_its_returns_stand() -> None:
    lines = Lines()
    assert [lines.feed(b"\r10%"), lines.feed(b"\r20%"), lines.feed(b"\r30%\n")] == [[], ["10%"], ["30%"]]
    assert [lines.feed(b"all\r"), lines.feed(b"\nnext\r\n")] == [["all"], ["next"]]


def test_in_a_pipe_a_bar_is_its_last_form_and_all_else_stays_as_it_came() -> None:
    lines = Lines(is_plain=True)
    assert lines.feed(b"\x1b[31mred\t\xff\n10%\r20%\r") == ["\x1b[31mred\t\udcff", "20%"]
    assert lines.feed(b"100%\ndone\r\n") == ["100%", "done"]


def test_who_does_not_follow_sees_a_bar_that_has_not_ended_once() -> None:
    lines = Lines(is_live=False)
    assert lines.feed(b"a\n10%\r20%\r") == ["a"] and lines.feed(b"30%\r4") == []
    assert lines.feed(b"0%\r\nb\r" + b"x\r" * 100_000) == ["40%"] and lines.end() == ["x"]


@given(st.lists(st.text("ab\u00e4\u6570\n", max_size=8)))
def test_a_log_reads_the_same_however_its_bytes_arrive(texts: list[str]) -> None:
    whole = "".join(texts).encode()
    pieces, once = Lines(), Lines()
    apart = [line for i in range(len(whole)) for line in pieces.feed(whole[i : i + 1])]
    assert [*apart, *pieces.end()] == [*once.feed(whole), *once.end()]
