"""Frames: whatever is chatted around them, what comes out is what went in, or nothing."""

import io
from typing import Any, List

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sojourn.wire import framing

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.binary(max_size=300) | VALUES.map(lambda v: {"v": v}), max_size=5))
@example([{"v": "\udcff"}])  # a file name that is not UTF-8
@example([framing.MAGIC * 3])
def test_what_is_packed_comes_out_in_order(parts: List[Any]) -> None:
    data = b"".join(framing.pack(p) if isinstance(p, bytes) else framing.pack_json(p) for p in parts)
    assert [value for _, value in framing.frames(data)] == parts
    stream = io.BytesIO(data)
    assert [framing.read_frame(stream, 1 << 20)[1] for _ in parts] == parts
    with pytest.raises(EOFError):
        framing.read_frame(stream, 1 << 20)


@given(st.binary(max_size=200).filter(lambda b: framing.MAGIC not in b and not b.endswith((b"\0", b"\0S", b"\0SJ"))))
def test_chatter_before_an_answer_does_not_matter(chatter: bytes) -> None:
    data = chatter + framing.pack_json({"ok": True}) + framing.pack(b"x")
    assert [value for _, value in framing.frames(data)] == [{"ok": True}, b"x"]
    assert framing.chatter(data) == chatter


@given(st.integers(0, 400))
def test_a_cut_stream_is_torn_or_gives_only_whole_frames(cut: int) -> None:
    first, second = framing.pack_json({"ok": True}), framing.pack(b"x" * 300)
    data = (first + second)[:cut]
    got = []
    try:
        for _, value in framing.frames(data):
            got.append(value)
        assert cut < len(framing.MAGIC) or cut - len(first) < len(framing.MAGIC) or cut >= len(first + second)
    except framing.Torn:
        pass
    assert got == [{"ok": True}, b"x" * 300][: len(got)]


@given(st.integers(0, 40), st.integers(0, 7))
@example(4, 3)  # J becomes B
def test_a_flipped_bit_never_gives_another_value(at: int, bit: int) -> None:
    good = framing.pack_json({"step": 17, "path": "a/b"})
    assert len(good) == 41
    bad = good[:at] + bytes([good[at] ^ (1 << bit)]) + good[at + 1 :]
    try:
        values = [value for _, value in framing.frames(bad)]
    except framing.Torn:
        return
    assert values == []  # its magic was hit: no frame at all


def test_a_frame_over_the_limit_is_not_read_into_memory() -> None:
    with pytest.raises(ValueError, match="over the limit"):
        framing.read_frame(io.BytesIO(framing.pack(b"x" * 100)), 99)


@pytest.mark.parametrize("data", [b"x", b"GET / HTTP/1.1\r\n\r\n", framing.MAGIC, framing.pack(b"abc")[:-1]])
def test_a_stream_that_is_no_frame_is_torn(data: bytes) -> None:
    with pytest.raises(framing.Torn):
        framing.read_frame(io.BytesIO(data), 100)


def test_a_frame_whose_json_is_none_is_torn() -> None:
    for payload in (b"{", b"\xff", b"[" * 100_000):
        with pytest.raises(framing.Torn):
            list(framing.frames(framing.pack(payload, b"J")))


def test_not_a_number_is_passed_on_as_python_knows_it() -> None:
    ((_, value),) = framing.frames(framing.pack_json({"x": float("inf")}))
    assert value == {"x": float("inf")}
