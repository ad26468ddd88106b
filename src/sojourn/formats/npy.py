"""Walks the header of one npy array: magic, version, dtype, shape, and the resulting size. Without numpy.

Layout: magic `\\x93NUMPY`, version (2 bytes), header length (2 bytes in version 1, 4 in 2 and 3, little-endian), header
(a Python dict literal, padded, ending in a newline), data.
Source: NEP 1 and https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html (checked 2026-11; numpy 2.4).
"""

from __future__ import annotations

import ast
import os
import re
import struct
from typing import Any, BinaryIO, NamedTuple

from sojourn.formats.damage import Unloadable

MAGIC = b"\x93NUMPY"
# numpy itself refuses a longer header if pickles are not allowed (numpy.lib.format._MAX_HEADER_SIZE).
HEADER_LIMIT_BYTES = 10_000
_MAX_DEPTH = 16  # of records inside records

_TYPE = re.compile(r"([<>|=]?)([biufcmMSaUV?])(\d{0,10})(\[\d{0,9}[A-Za-zμ]{1,7}(?:/\d{1,9})?\])?")
# kind -> element widths in bytes; kinds not listed (S a U V) may have any.
_WIDTHS = {
    "b": (1,),
    "?": (1,),
    "i": (1, 2, 4, 8),
    "u": (1, 2, 4, 8),
    "f": (2, 4, 8, 12, 16),
    "c": (8, 16, 24, 32),
    "m": (8,),
    "M": (8,),
}


class Array(NamedTuple):
    """The contents of one header. `descr`: numpy's own description; `data_begin`: bytes from the start of the magic."""

    descr: Any
    shape: tuple[int, ...]
    is_fortran: bool
    itemsize_bytes: int
    data_begin: int
    data_bytes: int


def walk(path: str) -> Array:
    """The checked header of the npy file at `path`. Raises: Unloadable, OSError."""
    with open(path, "rb") as f:
        return walk_open(f, os.fstat(f.fileno()).st_size)


def walk_open(f: BinaryIO, size_bytes: int) -> Array:
    """The header of a stream (a file, or one member of an npz) positioned at its magic, with `size_bytes` in all.

    Leaves the stream at the data. Checks that header and data are exactly `size_bytes`; no size from the header is
    trusted before that. Raises: Unloadable (empty, truncated, corrupt, unsafe, unsupported), OSError.
    """
    if size_bytes == 0:
        raise Unloadable("empty", "the array has no bytes")
    head = f.read(8)
    if not head.startswith(MAGIC[: len(head)]):
        raise Unloadable("corrupt", "it does not begin as an npy array does")
    if len(head) < 8:
        raise Unloadable("truncated", f"{size_bytes} bytes: it ends inside its magic")
    major, minor = head[6], head[7]
    if major not in (1, 2, 3) or minor != 0:
        raise Unloadable("corrupt", f"npy version {major}.{minor} does not exist")
    width = 2 if major == 1 else 4
    raw_length = f.read(width)
    if len(raw_length) < width:
        raise Unloadable("truncated", "it ends inside its header's length")
    (length,) = struct.unpack("<H" if major == 1 else "<I", raw_length)
    begin = 8 + width + length
    if length > HEADER_LIMIT_BYTES:
        raise Unloadable("unsupported", f"a header of {length} bytes; numpy reads up to {HEADER_LIMIT_BYTES}")
    raw = f.read(length)
    if len(raw) < length:
        raise Unloadable("truncated", "it ends inside its header")
    descr, is_fortran, shape = _fields(raw.decode("utf-8" if major == 3 else "latin-1", "replace"), major)
    itemsize = _itemsize(descr, 0)
    data_bytes = itemsize
    for count in shape:
        data_bytes *= count
    if begin + data_bytes > size_bytes:
        raise Unloadable("truncated", f"the header speaks of {begin + data_bytes} bytes, there are {size_bytes}")
    if begin + data_bytes < size_bytes:
        raise Unloadable("corrupt", f"{size_bytes - begin - data_bytes} bytes follow the array")
    return Array(descr, shape, is_fortran, itemsize, begin, data_bytes)


def _fields(text: str, major: int) -> tuple[Any, bool, tuple[int, ...]]:
    if not text.endswith("\n"):
        raise Unloadable("corrupt", "the header does not end in a newline")
    if major < 3:
        text = re.sub(r"(?<=\d)L(?=[,)])", "", text)  # written by numpy under Python 2
    try:
        # Only literals are evaluated, of at most HEADER_LIMIT_BYTES.
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise Unloadable("corrupt", "the header is not the description that numpy writes") from None
    if not isinstance(value, dict) or set(value) != {"descr", "fortran_order", "shape"}:
        raise Unloadable("corrupt", "the header does not hold descr, fortran_order and shape")
    descr, is_fortran, shape = value["descr"], value["fortran_order"], value["shape"]
    if type(is_fortran) is not bool or not _is_shape(shape):
        raise Unloadable("corrupt", "fortran_order or shape are not what numpy writes")
    return descr, is_fortran, shape


def _is_shape(value: Any) -> bool:
    # 64 dimensions: numpy 2; a length is below 2**63.
    return isinstance(value, tuple) and len(value) <= 64 and all(type(n) is int and 0 <= n < 1 << 63 for n in value)


def _itemsize(descr: Any, depth: int) -> int:
    """Bytes of one element of a type description: a string, or a list of fields (name, type[, shape])."""
    if isinstance(descr, str):
        return _width(descr)
    if isinstance(descr, tuple) and len(descr) == 2 and _is_shape(descr[1]):
        return _product(descr[1]) * _itemsize(descr[0], depth + 1)  # a subarray type
    if not isinstance(descr, list) or depth > _MAX_DEPTH:
        raise Unloadable("corrupt", "the header's type is not one that numpy writes")
    total = 0
    for field in descr:
        if not isinstance(field, tuple) or len(field) not in (2, 3) or not _is_name(field[0]):
            raise Unloadable("corrupt", "a field of the header's type is not one that numpy writes")
        if len(field) == 3 and not _is_shape(field[2]):
            raise Unloadable("corrupt", "the shape of a field is not one that numpy writes")
        total += _product(field[2] if len(field) == 3 else ()) * _itemsize(field[1], depth + 1)
    return total


def _width(text: str) -> int:
    if text.lstrip("<>|=")[:1] == "O":
        raise Unloadable("unsafe", "it holds Python objects, stored as a pickle; reading them would run what they say")
    hit = _TYPE.fullmatch(text)
    if not hit:
        raise Unloadable("corrupt", f"numpy has no type {text[:20]!r}")
    _, kind, digits, unit = hit.groups()
    width = int(digits or (1 if kind == "?" else 0))
    if (unit and kind not in "mM") or width not in _WIDTHS.get(kind, (width,)):
        raise Unloadable("corrupt", f"numpy has no type {text[:20]!r}")
    return width * (4 if kind == "U" else 1)


def _is_name(value: Any) -> bool:
    # A field's name, or (title, name).
    names = value if isinstance(value, tuple) and len(value) == 2 else (value,)
    return all(isinstance(name, str) for name in names)


def _product(shape: tuple[int, ...]) -> int:
    total = 1
    for count in shape:
        total *= count
    return total
