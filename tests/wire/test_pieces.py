"""Contents in frames: what goes in comes out, wherever the stream is cut, and nothing else is believed."""

import os
from pathlib import Path
from typing import Any, List

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.wire import framing, pieces, syncing

PARTS = st.lists(st.tuples(st.integers(0, 99), st.integers(0, 2**40), st.none() | st.binary(max_size=300)), max_size=30)


def heard(stream: bytes, steps: List[int]) -> Any:
    incoming, reading, parts = framing.Incoming(1 << 20), pieces.Reading(), []
    at = 0
    for step in [*steps, len(stream)]:
        for kind, value in incoming.feed(stream[at : at + step]):
            parts += reading.take(kind, value)
        at += step
    return reading, parts


@given(PARTS, st.lists(st.integers(1, 40), max_size=20))
def test_parts_come_out_as_they_went_in(parts: List[Any], steps: List[int]) -> None:
    reading, found = heard(b"".join(pieces.packed(parts)), steps)
    assert reading.is_over and found == parts


@given(PARTS, st.data())
def test_a_cut_stream_gives_a_beginning_and_no_end(parts: List[Any], data: Any) -> None:
    stream = b"".join(pieces.packed(parts))
    reading, found = heard(stream[: data.draw(st.integers(0, len(stream) - 1))], [])
    assert not reading.is_over and found == parts[: len(found)]


@pytest.mark.parametrize(
    "at", [[[0, 0, 5]], [[0, 0, -2]], [[-1, 0, 4]], [[0, 0]], [[0, 0, True]], ["x"], [[0, 0, 4.0]], [[0, -1, 4]]]
)
def test_a_frame_that_does_not_add_up_is_refused(at: Any) -> None:
    reading = pieces.Reading()
    reading.take(b"J", {"at": at})
    with pytest.raises(framing.Torn):
        reading.take(b"B", b"four")


def test_a_frame_over_the_limit_is_refused_before_it_is_kept() -> None:
    with pytest.raises(framing.Torn):
        framing.Incoming(100).feed(framing.pack(bytes(101))[:20])


@pytest.mark.parametrize("count", [2, syncing.FEW + 4])
def test_what_is_synced_must_be_there(tmp_path: Path, count: int) -> None:
    paths = [str(tmp_path / str(n)) for n in range(count)]
    for path in paths:
        Path(path).write_bytes(b"x")
    syncing.sync(paths, [str(tmp_path)])
    os.unlink(paths[-1])
    with pytest.raises(FileNotFoundError):
        syncing.sync(paths, [])
