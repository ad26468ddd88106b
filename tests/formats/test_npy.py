"""The npy walker reads what numpy writes, and raises Unloadable, nothing else, for all that is not exactly that."""

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.formats import npy
from sojourn.formats.damage import PROBLEMS, Unloadable

np = pytest.importorskip("numpy")


def saved(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def walk(data):
    return npy.walk_open(io.BytesIO(data), len(data))


def with_header(text, data=b"", version=1):
    raw = text.encode("latin-1") + b"\n"
    return npy.MAGIC + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(raw)) + raw + data


ARRAYS = [
    np.arange(6, dtype="<f4").reshape(2, 3),
    np.asfortranarray(np.arange(6, dtype=">i8").reshape(2, 3)),
    np.array(3.5),
    np.zeros((0, 7), dtype="f2"),
    np.array([True, False]),
    np.array(["a", "bcd"]),
    np.array([b"a", b"bcd"]),
    np.zeros(3, dtype="c16"),
    np.zeros(2, dtype=np.longdouble),
    np.array(["2020-01-01"], dtype="M8[D]"),
    np.array([5], dtype="m8[25us]"),
    np.zeros(2, dtype=[("a", "<f4"), ("b", "<i8", (2, 3)), ("c", [("d", "S3")])]),
    np.zeros(2, dtype=np.dtype([("a", "i1"), ("b", "f8")], align=True)),
    np.zeros(3, dtype="V5"),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: str(a.dtype)[:30])
def test_what_numpy_writes_is_read(array):
    data = saved(array)
    found = walk(data)
    assert found.shape == array.shape
    assert found.itemsize_bytes == array.dtype.itemsize
    assert (found.data_begin, found.data_bytes) == (len(data) - array.nbytes, array.nbytes)


def test_versions_two_and_three_and_the_l_of_python_2_are_read():
    text = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }"
    assert walk(with_header(text, b"1234", version=2)).shape == (1,)
    assert walk(with_header(text, b"1234", version=3)).shape == (1,)
    assert walk(with_header(text.replace("(1,)", "(1L,)"), b"1234")).shape == (1,)


@pytest.mark.parametrize("array", ARRAYS[:3], ids=lambda a: str(a.dtype))
def test_every_cut_and_every_addition_is_refused(array):
    data = saved(array)
    for cut in range(len(data)):
        with pytest.raises(Unloadable) as caught:
            walk(data[:cut])
        assert caught.value.problem in ("empty", "truncated")
    with pytest.raises(Unloadable, match="1 bytes follow"):
        walk(data + b"\x00")


@pytest.mark.parametrize(
    "descr", ["'|O'", "'O'", "[('a', '<f4'), ('b', '|O')]", "[('a', [('b', '|O')])]", "('|O', (2,))"]
)
def test_python_objects_are_unsafe(descr):
    with pytest.raises(Unloadable) as caught:
        walk(with_header("{'descr': %s, 'fortran_order': False, 'shape': (1,), }" % descr, bytes(64)))
    assert caught.value.problem == "unsafe"


@pytest.mark.parametrize(
    "text",
    [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000000000,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4000000000, 4000000000, 4000000000), }",
        "{'descr': '|S1000000000', 'fortran_order': False, 'shape': (1000000000,), }",
    ],
)
def test_a_header_that_claims_a_universe_is_only_truncated(text):
    with pytest.raises(Unloadable) as caught:
        walk(with_header(text, b"1234"))
    assert caught.value.problem == "truncated"


@pytest.mark.parametrize(
    "text",
    [
        "{'descr': '<f5', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (True,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': [1], }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}",
        "{'descr': 'f4[us]', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': [('a',)], 'fortran_order': False, 'shape': (1,), }",
        "__import__('os').system('false')",
        "(" * 5000,
        "[" * 200 + "]" * 200,
        "{'descr': " + "[('a', " * 40 + "'<f4'" + ")]" * 40 + ", 'fortran_order': False, 'shape': (1,), }",
        "\x00" * 100,
    ],
)
def test_a_header_that_numpy_never_writes_is_corrupt(text):
    with pytest.raises(Unloadable) as caught:
        walk(with_header(text, b"1234"))
    assert caught.value.problem == "corrupt"


@given(st.binary(max_size=300))
def test_any_bytes_after_the_magic_raise_unloadable_and_nothing_else(tail):
    for data in (tail, npy.MAGIC + b"\x01\x00" + tail):
        try:
            walk(data)
        except Unloadable as error:
            assert error.problem in PROBLEMS


@given(st.integers(0, 127), st.integers(0, 255), st.sampled_from([0, 1, 11]))
def test_a_byte_changed_in_the_header_never_makes_it_read_past_its_end(at, value, which):
    data = bytearray(saved(ARRAYS[which]))
    data[at] = value
    try:
        found = walk(bytes(data))
    except Unloadable:
        return
    assert found.data_begin + found.data_bytes == len(data)
