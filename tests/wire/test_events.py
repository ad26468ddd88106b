"""Events: torn tails, torn middles and words of other versions cost nothing but themselves."""

import json
from typing import List

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.wire import events

AT = "2026-11-21T10:00:00.000Z"


def lines(count: int) -> List[bytes]:
    return [events.line(seq, AT, "beat", 1, {"payload_s": float(seq)}) for seq in range(1, count + 1)]


def test_a_line_has_its_head_and_its_fields() -> None:
    line = events.line(7, AT, "ended", 2, {"state": "failed", "rc": 3})
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    head = {"v": 1, "seq": 7, "at": AT, "kind": "ended", "attempt": 2}
    assert json.loads(line) == {**head, "state": "failed", "rc": 3}


@given(st.text())
def test_no_text_breaks_a_line_in_two(text: str) -> None:
    line = events.line(1, AT, "refused", 1, {"why": text})
    assert line.count(b"\n") == 1
    (event,), used = events.parse(line)
    assert event["why"] == text and used == len(line)


def test_a_name_that_is_not_utf8_comes_back_as_it_was() -> None:
    (event,), _ = events.parse(events.line(1, AT, "checkpoint", 1, {"path": "a\udcff.pt"}))
    assert event["path"] == "a\udcff.pt"


def test_a_kind_must_be_one_that_readers_know() -> None:
    with pytest.raises(ValueError, match="unknown event kind"):
        events.line(1, AT, "finished", 1, {})


def test_what_json_cannot_say_is_not_written() -> None:
    with pytest.raises(ValueError):
        events.line(1, AT, "beat", 1, {"cpu_s": float("nan")})


@given(st.integers(0, 400))
def test_only_whole_lines_are_used_wherever_the_file_is_cut(cut: int) -> None:
    data = b"".join(lines(4))
    parsed, used = events.parse(data[:cut])
    assert [event["seq"] for event in parsed] == list(range(1, len(parsed) + 1))
    rest, _ = events.parse(data[used:])
    assert [event["seq"] for event in parsed + rest] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "torn", [b'{"v":1,"se', b"", b"null", b"7", b"[]", b'{"seq":1}', b'{"kind":3}', b"\xff", b"\0" * 9]
)
def test_a_torn_or_foreign_line_in_the_middle_is_passed_over(torn: bytes) -> None:
    first, second = lines(2)
    parsed, used = events.parse(first + torn + b"\n" + second)
    assert [event["seq"] for event in parsed] == [1, 2] and used == len(first + torn + b"\n" + second)


def test_a_kind_of_a_newer_version_comes_through_for_the_reader_to_skip() -> None:
    (event,), _ = events.parse(b'{"v":2,"seq":1,"kind":"levitating","attempt":1}\n')
    assert event["kind"] == "levitating"


def test_every_kind_says_what_it_has_and_the_durable_ones_are_kinds() -> None:
    assert all(isinstance(fields, str) and fields for fields in events.KINDS.values())
    assert set(events.KINDS) > events.DURABLE
    assert "beat" not in events.DURABLE  # an fsync every five seconds would wake every disk
