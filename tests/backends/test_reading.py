"""One reading serves whoever looks and the sha256: the same bytes in any order of asking, cached or past the cache."""

import hashlib
import os
import random
import threading
from pathlib import Path

import pytest

from sojourn.backends.proof import reading
from sojourn.formats.damage import Unloadable

SIZES = [0, 1, 4095, (4 << 20) - 1, 4 << 20, (10 << 20) + 12345, 12 << 20]


def written(path: Path, size: int, *, is_cold: bool = False) -> bytes:
    data = random.Random(size).randbytes(size)
    path.write_bytes(data)
    if is_cold:
        with path.open("rb") as f:
            os.fsync(f.fileno())
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return data


@pytest.mark.parametrize("is_cold", [True, False])
@pytest.mark.parametrize("size", SIZES)
def test_what_is_looked_at_and_what_is_hashed_are_the_file(size: int, is_cold: bool, tmp_path: Path) -> None:
    data = written(tmp_path / "a", size, is_cold=is_cold)
    ticks: list[int] = []
    with reading.Reading(str(tmp_path / "a"), ticks.append) as whole:
        assert b"".join(bytes(piece) for piece in whole.pieces(0, size)) == data
        assert whole.finish() == (size, hashlib.sha256(data).hexdigest())
    assert sum(ticks) == size


@pytest.mark.parametrize("seed", range(6))
def test_parts_may_be_asked_for_in_any_order(seed: int, tmp_path: Path) -> None:
    data = written(tmp_path / "a", 21 << 20, is_cold=seed % 2 == 0)
    chance = random.Random(seed)
    with reading.Reading(str(tmp_path / "a")) as whole:
        for _ in range(12):
            begin = chance.randrange(len(data))
            count = chance.randrange(min(len(data) - begin, 5 << 20))
            assert b"".join(bytes(piece) for piece in whole.pieces(begin, count)) == data[begin : begin + count]
        assert whole.finish() == (len(data), hashlib.sha256(data).hexdigest())


def test_nobody_has_to_look_and_who_looks_may_stop(tmp_path: Path) -> None:
    data = written(tmp_path / "a", 15 << 20)
    told = (len(data), hashlib.sha256(data).hexdigest())
    with reading.Reading(str(tmp_path / "a")) as whole:
        assert whole.finish() == told
    with reading.Reading(str(tmp_path / "a")) as whole:
        next(whole.pieces(3 << 20, 9 << 20))
        assert whole.finish() == told


def test_a_reading_that_is_left_leaves_no_thread_and_no_open_file(tmp_path: Path) -> None:
    written(tmp_path / "a", 30 << 20)
    before = (threading.active_count(), set(os.listdir("/proc/self/fd")))
    with reading.Reading(str(tmp_path / "a")) as whole:
        next(whole.pieces(0, 9 << 20))
    assert (threading.active_count(), set(os.listdir("/proc/self/fd"))) == before


@pytest.mark.parametrize("size", [1 << 20, 20 << 20])
def test_a_file_that_grows_shorter_meanwhile_is_truncated(size: int, tmp_path: Path) -> None:
    written(tmp_path / "a", size)
    with reading.Reading(str(tmp_path / "a")) as whole:
        os.truncate(tmp_path / "a", size // 2)
        with pytest.raises(Unloadable, match="ended while it was read"):
            for _ in whole.pieces(0, size):
                pass
        assert whole.finish()[0] <= size


def test_it_is_a_stream_too(tmp_path: Path) -> None:
    data = written(tmp_path / "a", (9 << 20) + 7)
    with reading.Reading(str(tmp_path / "a")) as whole:
        f = whole.open()
        assert f.peek(6)[:6] == data[:6]
        assert (f.read(100), f.read(3 << 20), f.read()) == (
            data[:100],
            data[100 : 100 + (3 << 20)],
            data[100 + (3 << 20) :],
        )


def test_a_system_without_reading_past_the_cache_reads_through_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = written(tmp_path / "a", 9 << 20, is_cold=True)
    monkeypatch.delattr(os, "O_DIRECT")
    with reading.Reading(str(tmp_path / "a")) as whole:
        assert whole.finish() == (len(data), hashlib.sha256(data).hexdigest())


def test_only_who_asks_for_its_file_shares_a_reading(tmp_path: Path) -> None:
    for name in ("a", "b"):
        written(tmp_path / name, 100)
    with reading.shared(str(tmp_path / "a")) as whole:
        with reading.of(str(tmp_path / "a")) as same, reading.of(str(tmp_path / "b")) as other:
            assert (same is whole, other is whole) == (True, False)
        assert whole.finish()[0] == 100  # it is still open
    with reading.of(str(tmp_path / "a")) as later:
        assert later is not whole
