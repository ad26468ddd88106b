"""NaN, infinity, one value everywhere and long runs of zeros are found in every dtype, wherever they lie."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.backends.proof import content
from sojourn.formats.damage import Unloadable

# dtype -> (unsigned view, pattern of NaN, of infinity or None, of one)
PATTERNS = {
    "float64": ("<u8", 0x7FF8000000000000, 0x7FF0000000000000, 0x3FF0000000000000),
    "float32": ("<u4", 0xFFC00000, 0xFF800000, 0x3F800000),
    "float16": ("<u2", 0x7E00, 0xFC00, 0x3C00),
    "bfloat16": ("<u2", 0x7FC0, 0x7F80, 0x3F80),
    "float8_e5m2": ("u1", 0x7E, 0xFC, 0x3C),
    "float8_e4m3fn": ("u1", 0xFF, None, 0x38),
    "float8_e5m2fnuz": ("u1", 0x80, None, 0x40),
    "float8_e4m3fnuz": ("u1", 0x80, None, 0x40),
    "float8_e8m0fnu": ("u1", 0xFF, None, 0x7F),
}


def scanned(dtype: Any, values: Any, size: int = 1 << 20) -> content.Scan:
    raw = values.tobytes()
    return content.scan(dtype, [raw[at : at + size] for at in range(0, len(raw), size)])


def plain(view: str, one: int, count: int = 700_000) -> Any:
    """Every pattern near `one`: finite in every dtype, not constant."""
    return (np.arange(count, dtype=view) % 3 + one).astype(view)


@pytest.mark.parametrize("dtype", PATTERNS)
@pytest.mark.parametrize("at", [0, 1, 350_001, 699_999])
def test_one_bad_value_is_found_wherever_it_lies(dtype: str, at: int) -> None:
    view, nan, infinite, one = PATTERNS[dtype]
    values = plain(view, one)
    assert (scanned(dtype, values).nan, scanned(dtype, values).infinite) == (0, 0)
    values[at] = nan
    found = scanned(dtype, values)
    assert (found.nan, found.infinite, found.first_bad, found.elements) == (1, 0, at, 700_000)
    if infinite is not None:
        values[at] = infinite
        assert (scanned(dtype, values).nan, scanned(dtype, values).infinite) == (0, 1)


def test_complex_big_endian_long_double_and_record_values_are_looked_at() -> None:
    for dtype in ("<c8", ">f4", ">c16", np.longdouble, [("n", "<i4"), ("x", "<f4", (3,)), ("in", [("y", ">f8")])]):
        values = np.zeros(5000, dtype=dtype)
        assert scanned(values.dtype, values).nan == 0
        target = values["in"]["y"] if values.dtype.names else values
        target[4321] = np.nan
        found = scanned(values.dtype, values)
        assert (found.nan, found.first_bad) == (1, 4321)


def test_whole_numbers_are_never_not_finite() -> None:
    for dtype in ("int8", "uint16", "int64", "bool", "qint8"):
        assert scanned(dtype, np.full(1000, 255, dtype="u1")).nan == 0


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=20), st.integers(0, 9999), st.sampled_from(list(PATTERNS)))
def test_it_does_not_matter_how_the_bytes_arrive(sizes: list[int], at: int, dtype: str) -> None:
    view, nan, _, one = PATTERNS[dtype]
    values = plain(view, one, 10_000)
    values[at] = nan
    raw, pieces, begin = values.tobytes(), [], 0
    while begin < len(raw):
        pieces.append(raw[begin : begin + sizes[len(pieces) % len(sizes)]])
        begin += len(pieces[-1])
    found = content.scan(dtype, pieces)
    assert (found.nan, found.first_bad, found.elements, found.is_constant) == (1, at, 10_000, False)


@given(st.integers(0, 300_000), st.integers(4096, 200_000))
def test_a_run_of_zeros_is_found_and_placed(at: int, length: int) -> None:
    raw = bytearray(b"\x01" * 520_000)
    raw[at : at + length] = bytes(length)
    found = content.scan("float32", [bytes(raw)])
    assert length - 1024 < found.zero_run_bytes <= length
    assert at <= found.zero_run_at < at + 512


@given(st.integers(0, 20_000))
def test_short_runs_of_zeros_are_nothing(at: int) -> None:
    raw = bytearray(b"\x01" * 40_000)
    raw[at : at + 3000] = bytes(3000)
    found = content.Content()
    found.add("a", content.scan("float32", [bytes(raw)]))
    assert found.remarks == ()


def test_constant_and_hollow_tensors_are_remarked_and_not_refused() -> None:
    found = content.Content()
    found.add("ones", scanned("float32", np.ones(1000, dtype="<f4")))
    found.add("counter", scanned("int64", np.zeros(1, dtype="<i8")))
    hollow = np.arange(1, 9001, dtype="<f8")
    hollow[2000:4000] = 0
    found.add("hollow", scanned("float64", hollow))
    found.settle()
    assert len(found.remarks) == 2
    assert "1 of 3 tensors: ones" in found.remarks[0]
    assert "hollow" in found.remarks[1]


def test_what_is_not_finite_is_named_counted_and_bounded() -> None:
    found = content.Content()
    for n in range(40):
        values = np.arange(100, dtype="<f4")
        values[[7, 9]] = (np.nan, np.inf)
        found.add(f"layer{n}", scanned("float32", values))
    with pytest.raises(Unloadable) as caught:
        found.settle()
    assert "layer0: 1 NaN and 1 infinite of 100 values, the first at 7" in caught.value.why
    assert caught.value.why.endswith("and 35 more")
    assert len(caught.value.why) < 600


def test_a_record_larger_than_a_piece_is_scanned_whole() -> None:
    values = np.zeros(2, dtype=[("x", "<f4", (400_001,))])
    values["x"][1][400_000] = np.nan
    assert scanned(values.dtype, values).nan == 1


def test_facts_count_all_and_list_some() -> None:
    facts = content.Content().describe((f"t{n}", "float32", (2, 3)) for n in range(100))
    assert (facts["tensors"], facts["elements"], len(facts["first"])) == (100, 600, content.LISTED)
