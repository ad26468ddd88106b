"""The safetensors walker accepts exactly what covers its file; for all the rest it raises Unloadable, nothing else."""

import io
import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.formats import safetensors
from sojourn.formats.damage import PROBLEMS, Unloadable


def walk(data):
    return safetensors.walk_open(io.BytesIO(data), len(data))


def built(header, data=b""):
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + data


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def problem_of(data):
    with pytest.raises(Unloadable) as caught:
        walk(data)
    return caught.value.problem


GOOD = {
    "__metadata__": {"format": "pt"},
    "b": entry("BF16", [2, 3], 8, 20),
    "a": entry("F64", [], 0, 8),
    "none": entry("F32", [0, 4], 20, 20),
    "small": entry("F4", [4], 20, 22),
}


def test_a_good_header_gives_its_tensors_in_the_order_of_their_data():
    found = walk(built(GOOD, bytes(22)))
    assert [t.name for t in found.tensors] == ["a", "b", "none", "small"]
    assert found.metadata == {"format": "pt"}
    assert found.tensors[0].begin == found.data_begin
    assert found.tensors[-1].end == found.data_begin + 22


def test_a_header_padded_with_spaces_and_one_without_tensors_are_good():
    assert walk(built(json.dumps(GOOD).encode() + b" " * 7, bytes(22))).tensors
    assert walk(built({})).tensors == ()


def test_every_dtype_of_the_format_is_known_by_its_bits():
    for dtype, bits in safetensors.BITS.items():
        assert walk(built({"t": entry(dtype, [8], 0, bits)}, bytes(bits))).tensors[0].dtype == dtype


def test_every_cut_is_refused():
    data = built(GOOD, bytes(22))
    for cut in range(len(data)):
        assert problem_of(data[:cut]) in ("empty", "truncated")


@pytest.mark.parametrize(
    "what, header, data",
    [
        ("a byte more", GOOD, bytes(23)),
        ("overlap", {"a": entry("U8", [4], 0, 4), "b": entry("U8", [4], 2, 6)}, bytes(6)),
        ("the same bytes twice", {"a": entry("U8", [4], 0, 4), "b": entry("U8", [4], 0, 4)}, bytes(4)),
        ("a hole", {"a": entry("U8", [4], 0, 4), "b": entry("U8", [4], 5, 9)}, bytes(9)),
        ("a hole in front", {"a": entry("U8", [4], 1, 5)}, bytes(5)),
        ("backwards", {"a": entry("U8", [4], 4, 0)}, bytes(4)),
        ("shape too large", {"a": entry("U8", [5], 0, 4)}, bytes(4)),
        ("half a byte", {"a": entry("F4", [3], 0, 1)}, bytes(1)),
        ("a negative length", {"a": entry("U8", [-4], 0, 4)}, bytes(4)),
        ("a length that is true", {"a": entry("U8", [True], 0, 1)}, bytes(1)),
        ("a fraction", {"a": entry("U8", [4.0], 0, 4)}, bytes(4)),
        ("an unknown dtype", {"a": entry("F31", [1], 0, 4)}, bytes(4)),
        ("a dtype that is a list", {"a": entry(["F32"], [1], 0, 4)}, bytes(4)),
        ("a key more", {"a": dict(entry("U8", [1], 0, 1), more=1)}, bytes(1)),
        ("metadata that is no text", {"__metadata__": {"a": 1}}, b""),
        ("no object", [], b""),
        ("a name twice", b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},' * 2, b"\x00"),
        ("two names alike", b'{"__metadata__":{"a":"1","a":"2"}}', b""),
        ("not finite", b'{"a":{"dtype":"U8","shape":[NaN],"data_offsets":[0,1]}}', b"\x00"),
        ("many digits", b'{"a":{"dtype":"U8","shape":[' + b"9" * 5000 + b'],"data_offsets":[0,1]}}', b"\x00"),
        ("nested deep", b"[" * 100000, b""),
        ("not UTF-8", b'{"\xff":1}', b""),
        ("zeros", bytes(100), b""),
    ],
)
def test_what_does_not_add_up_is_corrupt(what, header, data):
    assert problem_of(built(header, data)) == "corrupt"


def test_sizes_without_end_are_never_allocated():
    huge = entry("F64", [10**18, 10**18], 0, 8 * 10**18)
    assert problem_of(built({"a": huge}, bytes(8))) == "corrupt"
    assert problem_of(built({"a": entry("U8", [10**18], 0, 10**18)}, bytes(8))) == "truncated"
    assert problem_of(struct.pack("<Q", 1 << 62) + b"{}") == "corrupt"
    assert problem_of(struct.pack("<Q", 99_000_000) + b"{}") == "truncated"


@given(st.binary(max_size=200))
def test_any_bytes_raise_unloadable_and_nothing_else(data):
    for candidate in (data, built(data), built(b'{"a":' + data)):
        try:
            walk(candidate)
        except Unloadable as error:
            assert error.problem in PROBLEMS


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=8), st.text(max_size=3))
def test_any_json_in_the_place_of_an_entry_raises_unloadable_and_nothing_else(value, dtype):
    for header in ({"a": value}, {"__metadata__": value}, {"a": entry(dtype, value, 0, 1)}):
        try:
            walk(built(header, b"\x00"))
        except Unloadable as error:
            assert error.problem in PROBLEMS
