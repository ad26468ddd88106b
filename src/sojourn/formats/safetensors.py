"""Walks the header of a safetensors file: its JSON, its dtypes, and the arithmetic of its offsets. No tensor data.

Layout: header length (8 bytes, little-endian), header (JSON object, may end in spaces), tensor data up to the end.
Source: https://github.com/huggingface/safetensors (README, safetensors/src/tensor.rs; 2026-11; library 0.8.0).
"""

from __future__ import annotations

import json
import os
import struct
from typing import Any, BinaryIO, NamedTuple

from sojourn.formats.damage import Unloadable

# Bits per element. Source: the library's own dtype table (0.8.0).
BITS = {
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "BOOL": 8,
    "U8": 8,
    "I8": 8,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "C64": 64,
    "F64": 64,
    "I64": 64,
    "U64": 64,
}
# The library reads headers up to 100,000,000 bytes. A parsed header takes about ten times its size, so we stop earlier:
# 32 MiB holds some 300,000 tensors.
HEADER_LIMIT_BYTES = 32 << 20
_MAX_DIGITS = 19  # of an integer below 2**63; nothing is larger


class Tensor(NamedTuple):
    """One tensor. `begin`, `end`: bytes from the start of the file, end excluded."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


class Header(NamedTuple):
    """The contents of the header. tensors: in the order of their data."""

    metadata: dict[str, str]
    tensors: tuple[Tensor, ...]
    data_begin: int


def walk(path: str) -> Header:
    """The checked header of the file at `path`. Raises: Unloadable, OSError."""
    with open(path, "rb") as f:
        return walk_open(f, os.fstat(f.fileno()).st_size)


def walk_open(f: BinaryIO, size_bytes: int) -> Header:
    """The header of an open file positioned at its start, with `size_bytes` in all.

    Checks the length, strict JSON without duplicate names, known dtypes, shape x dtype = bytes of every tensor, and
    that the tensors cover the data exactly, without overlap, hole or remainder. Allocates no more than the file holds.
    Raises: Unloadable (empty, truncated, corrupt, unsupported), OSError.
    """
    if size_bytes == 0:
        raise Unloadable("empty", "the file has no bytes")
    if size_bytes < 8:
        raise Unloadable("truncated", f"{size_bytes} bytes: the header's length alone takes 8")
    (length,) = struct.unpack("<Q", f.read(8))
    if length > size_bytes - 8:
        first = f.read(1)
        # A real header starts with a brace, and is no larger than the library itself would read.
        if first in (b"{", b"") and length <= 100_000_000:
            raise Unloadable("truncated", f"the header has {length} bytes, the whole file {size_bytes}")
        raise Unloadable("corrupt", f"the first 8 bytes are no header length ({length})")
    if length > HEADER_LIMIT_BYTES:
        raise Unloadable("unsupported", f"a header of {length} bytes is over our limit of {HEADER_LIMIT_BYTES}")
    raw = f.read(length)
    if len(raw) < length:
        raise Unloadable("truncated", "the file ended inside the header")
    return Header(*_entries(_parse(raw), 8 + length, size_bytes), data_begin=8 + length)


def _parse(raw: bytes) -> dict[str, Any]:
    try:
        # Only spaces may follow; the library's own parser accepts any JSON white space, but writes spaces.
        value = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_refuse,
            parse_float=_refuse,
            parse_int=_integer,
        )
    except (ValueError, RecursionError) as error:
        raise Unloadable("corrupt", f"the header is not the JSON it must be: {error}") from None
    if not isinstance(value, dict):
        raise Unloadable("corrupt", "the header is not a JSON object")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands in it twice")
    return found


def _refuse(text: str) -> None:
    raise ValueError(f"{text[:20]} where only whole numbers may stand")


def _integer(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)


def _entries(header: dict[str, Any], data_begin: int, size_bytes: int) -> tuple[dict[str, str], tuple[Tensor, ...]]:
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise Unloadable("corrupt", "__metadata__ is not a map of strings")
    tensors = sorted(
        (_tensor(name, entry, data_begin) for name, entry in header.items()), key=lambda t: (t.begin, t.end)
    )
    at = data_begin
    for tensor in tensors:
        if tensor.begin != at:
            what = "overlaps the one before it" if tensor.begin < at else "leaves a hole before it"
            raise Unloadable("corrupt", f"tensor {_short(tensor.name)} {what}")
        at = tensor.end
    if at > size_bytes:
        raise Unloadable("truncated", f"the header speaks of {at} bytes, the file has {size_bytes}")
    if at < size_bytes:
        raise Unloadable("corrupt", f"{size_bytes - at} bytes follow the last tensor")
    return metadata, tuple(tensors)


def _tensor(name: str, entry: Any, data_begin: int) -> Tensor:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise Unloadable("corrupt", f"the entry of tensor {_short(name)} is not dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not (_is_sizes(shape) and _is_sizes(offsets) and len(offsets) == 2 and offsets[0] <= offsets[1]):
        raise Unloadable("corrupt", f"the shape or the offsets of tensor {_short(name)} are not sizes")
    if not isinstance(dtype, str) or dtype not in BITS:
        raise Unloadable(
            "corrupt", f"tensor {_short(name)} has a dtype that safetensors does not know: {str(dtype)[:20]!r}"
        )
    bits = BITS[dtype]
    for length in shape:
        bits *= length
    if bits % 8 or bits // 8 != offsets[1] - offsets[0]:
        raise Unloadable(
            "corrupt",
            f"tensor {_short(name)}: shape and dtype make {bits} bits, its offsets {offsets[1] - offsets[0]} bytes",
        )
    return Tensor(name, dtype, tuple(shape), data_begin + offsets[0], data_begin + offsets[1])


def _is_sizes(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= 64 and all(type(n) is int and n >= 0 for n in value)


def _short(name: str) -> str:
    return name if len(name) <= 80 else name[:77] + "..."
