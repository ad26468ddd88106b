"""The values inside tensors, whatever their file: NaN and infinity, one value everywhere, long runs of zeros.

Works on raw bytes in pieces, so that a tensor of any size takes a few MiB. Wraps: numpy
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sojourn.formats.damage import Unloadable
from sojourn.formats.torch.values import Made

PIECE_BYTES = 1 << 20  # of a scan: fits the cache next to the core (measured: 18 GB/s, the same from 64 KiB to 4 MiB)
ZERO_RUN_BYTES = 4096  # a hole in a file is a page or more
_BLOCK_BYTES = 512  # a run of ZERO_RUN_BYTES contains at least 7 whole blocks
_MIN_CONSTANT = 64  # elements; a counter or a small bias may well have one value
LISTED = 32  # tensors listed in the facts of a file
_NAMED = 5  # tensors named in one sentence

# Bit patterns of formats without a numpy type: (unsigned view, mask, lowest masked value that is not finite).
# Source: IEEE 754 (float16), bfloat16 = upper half of float32; OCP 8-bit floating point specification 1.0 (e4m3, e5m2,
# e8m0), table 1; "fnuz": the sign bit alone is NaN, https://onnx.ai/onnx/technical/float8.html (checked 2026-11).
_BITS = {
    "float16": ("<u2", 0x7FFF, 0x7C00),
    "bfloat16": ("<u2", 0x7FFF, 0x7F80),
    "float8_e5m2": ("u1", 0x7F, 0x7C),
    "float8_e4m3fn": ("u1", 0x7F, 0x7F),
    "float8_e8m0fnu": ("u1", 0xFF, 0xFF),
    "float8_e5m2fnuz": ("u1", None, 0x80),
    "float8_e4m3fnuz": ("u1", None, 0x80),
}
_FLOATS = {"float32": "<f4", "float64": "<f8", "complex64": "<f4", "complex128": "<f8", "complex32": "<f2"}
_MASK = re.compile(r"mask|_buffers\.", re.IGNORECASE)  # names of tensors in which minus infinity means "not this one"
_QUIET = {"bool", "uint8"}  # masks and images: naturally full of zeros


class Scan:
    """One tensor, fed piece by piece in order. dtype: PyTorch's name ("bfloat16"), or a numpy dtype."""

    def __init__(self, dtype: str | np.dtype[Any]) -> None:
        self.nan = 0
        self.infinite = 0
        self.negative = 0  # of the infinite ones: minus infinity
        self.is_mask = False  # only minus infinity and zeros
        self.first_bad = -1  # element
        self.elements = 0
        self.is_constant = True
        self.is_odd_bool = False  # a boolean other than 0 and 1
        self.zero_run_bytes = 0
        self.zero_run_at = 0  # byte within the tensor
        self._dtype = dtype
        self._seen = 0
        self._first: bytes | None = None
        self._run = 0  # blocks of zeros at the end so far
        self._look_for_runs = (
            dtype not in _QUIET if isinstance(dtype, str) else dtype.kind in "fciu" and dtype.itemsize > 1
        )
        self._width = max(dtype.itemsize, 1) if isinstance(dtype, np.dtype) else _width(dtype)
        self._look_for_runs = self._look_for_runs and self.unit_bytes % _BLOCK_BYTES == 0

    @property
    def unit_bytes(self) -> int:
        """The unit of `feed`: whole elements, and whole blocks unless an element is huge."""
        unit = math.lcm(_BLOCK_BYTES, self._width)
        return unit if unit <= PIECE_BYTES else self._width

    @property
    def step_bytes(self) -> int:
        """The multiple of `unit_bytes` to feed at a time: about PIECE_BYTES."""
        return max(PIECE_BYTES // self.unit_bytes, 1) * self.unit_bytes

    def feed(self, piece: memoryview | bytes) -> None:
        """The next part of the tensor: a multiple of `unit_bytes`, or its end."""
        if not len(piece):
            return
        self._finite(piece)
        if self._dtype == "bool" or self._dtype == np.bool_:
            self.is_odd_bool = self.is_odd_bool or bool(np.frombuffer(piece, dtype="u1").max() > 1)
        if self.is_constant:
            self._constant(piece)
        if self._look_for_runs:
            self._runs(piece)
        self._seen += len(piece)
        self.elements = self._seen // self._width

    def _finite(self, piece: memoryview | bytes) -> None:
        for values, is_bad, is_nan in _views(piece, self._dtype):
            bad = is_bad(values)
            if bad is None or not bad.any():
                self.is_mask = self.is_mask and not values.any()
                continue
            count = int(np.count_nonzero(bad))
            nan = int(np.count_nonzero(is_nan(values)))
            self._mask(values, bad)
            self.nan, self.infinite = self.nan + nan, self.infinite + count - nan
            if self.first_bad < 0:
                per_element = max(1, values.size * self._width // len(piece))  # a complex number is two values
                self.first_bad = self._seen // self._width + int(np.argmax(bad.ravel())) // per_element

    def _mask(self, values: Any, bad: Any) -> None:
        """At the first infinity: everything before it must have been zeros."""
        self.negative += int(np.count_nonzero(bad & _is_negative(values, self._dtype)))
        is_first = not self.infinite and not self.nan
        was_zero = not self._seen or (self.is_constant and not (self._first or b"").strip(b"\x00"))
        self.is_mask = (was_zero if is_first else self.is_mask) and not values[~bad].any()

    def _constant(self, piece: memoryview | bytes) -> None:
        if self._first is None:
            self._first = bytes(piece[: self._width])
        if self._width not in (1, 2, 4, 8):
            self.is_constant = bytes(piece) == self._first * (len(piece) // self._width)
            return
        plain = np.frombuffer(piece, dtype=f"u{self._width}")
        first = np.frombuffer(self._first, dtype=f"u{self._width}")[0]
        self.is_constant = bool(plain[-1] == first and (plain == first).all())

    def _runs(self, piece: memoryview | bytes) -> None:
        blocks = len(piece) // _BLOCK_BYTES
        if not blocks:
            return  # the end of the tensor
        words = np.frombuffer(piece, dtype="u8", count=blocks * (_BLOCK_BYTES // 8)).reshape(blocks, -1)
        base = self._seen // _BLOCK_BYTES
        hits = np.flatnonzero(words[:, 0] == 0)  # one word per block is checked; the others only where it is zero
        hits = hits[~words[hits].any(axis=1)] if hits.size else hits
        if not hits.size:
            self._run = 0
            return
        starts = np.concatenate(([0], np.flatnonzero(np.diff(hits) != 1) + 1))
        lengths = np.diff(np.concatenate((starts, [hits.size])))
        begins = hits[starts]
        for begin, length in zip(begins.tolist(), lengths.tolist(), strict=True):
            carried = self._run if begin == 0 else 0
            if (length + carried) * _BLOCK_BYTES > self.zero_run_bytes:
                self.zero_run_bytes = (length + carried) * _BLOCK_BYTES
                self.zero_run_at = (base + begin - carried) * _BLOCK_BYTES
        last_begin, last_length = int(begins[-1]), int(lengths[-1])
        if last_begin + last_length < blocks:
            self._run = 0
        else:
            self._run = last_length + (self._run if last_begin == 0 else 0)


@dataclass
class Content:
    """The content of all tensors of one file. `add` each; then `settle` says what is wrong, and `remarks` what is
    odd.
    """

    bad: list[str] = field(default_factory=list)
    constant: list[str] = field(default_factory=list)
    holes: list[str] = field(default_factory=list)
    odd_bools: list[str] = field(default_factory=list)
    infinite: list[str] = field(default_factory=list)
    masks: list[str] = field(default_factory=list)
    scanned: int = 0

    def add(self, name: str, scan: Scan, *, is_number: bool = False) -> None:
        """Take over the findings of the finished scan of the tensor `name`.

        `is_number`: it is one number among others and may well be infinite: the best value of a metric starts so.
        """
        self.scanned += 1
        name = name if len(name) <= 80 else name[:77] + "..."
        is_minus = not scan.nan and 0 < scan.negative == scan.infinite
        if is_number and scan.infinite and not scan.nan:
            self.infinite.append(name)
        elif is_minus and (scan.is_mask or _MASK.search(name)):
            self.masks.append(name)
        elif scan.nan or scan.infinite:
            parts = [f"{scan.nan} NaN"] * bool(scan.nan) + [f"{scan.infinite} infinite"] * bool(scan.infinite)
            text = f"{name}: {' and '.join(parts)} of {scan.elements} values, the first at {scan.first_bad}"
            self.bad.append(text if len(self.bad) < _NAMED else name)
        if scan.is_odd_bool:
            self.odd_bools.append(name)
        if scan.is_constant and scan.elements >= _MIN_CONSTANT:
            self.constant.append(name)
        elif scan.zero_run_bytes >= ZERO_RUN_BYTES - _BLOCK_BYTES:
            self.holes.append(f"{name} ({scan.zero_run_bytes} bytes from byte {scan.zero_run_at})")

    def settle(self) -> None:
        """Raises: Unloadable("non-finite") if a tensor contains NaN or infinity."""
        if self.bad:
            raise Unloadable("non-finite", _list(self.bad, "; "))

    def describe(self, tensors: Iterable[tuple[str, str, tuple[int, ...]]]) -> dict[str, Any]:
        """Facts about (key, dtype, shape) of each tensor: all counted, the first LISTED named."""
        listed, count, elements = [], 0, 0
        for key, dtype, shape in tensors:
            count, elements = count + 1, elements + math.prod(shape)
            if count <= LISTED:
                listed.append({"key": key[:200], "dtype": dtype[:200], "shape": list(shape)})
        return {"tensors": count, "elements": elements, "first": listed}

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences, at most five."""
        out = []
        if self.infinite:
            out.append(f"infinite numbers in it: {_list(self.infinite)}")
        if self.masks:
            out.append(f"minus infinity in a mask or buffer: {_list(self.masks)}")
        if self.odd_bools:
            out.append(f"booleans that are neither 0 nor 1 in {_list(self.odd_bools)}")
        if self.constant:
            out.append(
                f"the same value everywhere in {len(self.constant)} of {self.scanned} tensors: {_list(self.constant)}"
            )
        if self.holes:
            out.append(f"a long run of zeros in {len(self.holes)} of {self.scanned} tensors: {_list(self.holes)}")
        return tuple(out)


class Feed:
    """Feeds its Scan, in the sizes it needs, with a tensor that arrives in pieces of any size."""

    def __init__(self, scan: Scan) -> None:
        self.scan = scan
        self._unit, self._step = scan.unit_bytes, scan.step_bytes
        self._rest = b""

    def take(self, piece: memoryview | bytes) -> None:
        """The next piece."""
        view = memoryview(piece).cast("B")
        if self._rest:
            need = self._unit - len(self._rest)
            self._rest, view = self._rest + bytes(view[:need]), view[need:]
            if len(self._rest) < self._unit:
                return
            self.scan.feed(self._rest)
        whole = len(view) - len(view) % self._unit
        for at in range(0, whole, self._step):
            self.scan.feed(view[at : min(at + self._step, whole)])
        self._rest = bytes(view[whole:])

    def end(self) -> Scan:
        """The Scan, finished."""
        self.scan.feed(self._rest)
        self._rest = b""
        return self.scan


def scan(dtype: str | np.dtype[Any], pieces: Iterable[memoryview | bytes]) -> Scan:
    """The finished scan of a tensor in `pieces` (any sizes; cut and joined as a Scan needs them)."""
    feed = Feed(Scan(dtype))
    for piece in pieces:
        feed.take(piece)
    return feed.end()


def not_finite(value: Any) -> list[str]:
    """Paths of the numbers that are not finite, in plain containers and unbuilt objects, at most 100."""
    bad: list[str] = []
    seen: set[int] = set()
    stack: list[tuple[str, Any]] = [("", value)]
    while stack and len(bad) < 100:
        path, value = stack.pop()
        if isinstance(value, float) and not math.isfinite(value):
            bad.append(path[1:81] or "its value")
        elif isinstance(value, (dict, list, tuple, set, frozenset, Made)) and id(value) not in seen:
            seen.add(id(value))
            if isinstance(value, Made):
                value = (*value.args, value.state)  # what a pickle would have built
            items = value.items() if isinstance(value, dict) else enumerate(value)
            stack.extend((f"{path}.{str(key)[:40]}", child) for key, child in items)
    return bad


def numpy_dtype(descr: Any) -> np.dtype[Any]:
    """numpy's dtype for a header's description. Raises: Unloadable("corrupt") if numpy has none."""
    try:
        dtype = np.lib.format.descr_to_dtype(descr)
    except (TypeError, ValueError, KeyError, SyntaxError) as error:
        raise Unloadable("corrupt", f"numpy does not know this type: {error}") from None
    if dtype.hasobject:
        raise Unloadable("unsafe", "it holds Python objects, stored as a pickle")
    return dtype


def _list(items: list[str], between: str = ", ") -> str:
    more = f" and {len(items) - _NAMED} more" if len(items) > _NAMED else ""
    return between.join(items[:_NAMED]) + more


def _width(dtype: str) -> int:
    if dtype in _BITS:
        return np.dtype(_BITS[dtype][0]).itemsize
    special = {"bool": 1, "complex32": 4, "complex64": 8, "complex128": 16}
    tail = dtype.rstrip("0123456789")
    digits = dtype[len(tail) :]
    # int8 ... uint64, float32, float64; quantized and packed types are scanned as bytes.
    return special.get(dtype) or (int(digits) // 8 if tail in ("int", "uint", "float") and digits else 1)


def _views(piece: memoryview | bytes, dtype: str | np.dtype[Any]) -> Iterable[tuple[Any, Any, Any]]:
    """(values, which are not finite, which are NaN) for every floating-point part of the piece."""
    if isinstance(dtype, str):
        if dtype in _FLOATS:
            yield np.frombuffer(piece, dtype=_FLOATS[dtype]), _not_finite, np.isnan
        elif dtype in _BITS:
            view, mask, ceiling = _BITS[dtype]
            values = np.frombuffer(piece, dtype=view)
            yield values, lambda v: _over(v, mask, ceiling), lambda v: _is_nan_bits(v, dtype)
    else:
        yield from ((part, _not_finite, np.isnan) for part in _parts(np.frombuffer(piece, dtype=dtype)))


def _not_finite(values: Any) -> Any:
    ok = np.isfinite(values)
    return None if ok.all() else ~ok


def _is_negative(values: Any, dtype: str | np.dtype[Any]) -> Any:
    """Which have their sign bit set."""
    if isinstance(dtype, str) and dtype in _BITS:
        return values >> (8 * values.dtype.itemsize - 1) == 1
    return np.signbit(values) if values.dtype.kind == "f" else np.zeros(values.shape, dtype=bool)


def _over(values: Any, mask: int | None, ceiling: int) -> Any:
    if mask is None:
        return values == ceiling
    masked = values & values.dtype.type(mask)
    return None if masked.size and masked.max() < ceiling else masked >= ceiling


def _is_nan_bits(values: Any, dtype: str) -> Any:
    view, mask, ceiling = _BITS[dtype]
    if mask is None:
        return values == ceiling
    # e4m3fn and e8m0 have no infinity; elsewhere the ceiling itself is infinity and everything above it NaN.
    masked = values & values.dtype.type(mask)
    return masked >= ceiling if dtype in ("float8_e4m3fn", "float8_e8m0fnu") else masked > ceiling


def _parts(values: Any) -> Iterable[Any]:
    """The floating-point and complex arrays in an array, including fields of records."""
    if values.dtype.names:
        for name in values.dtype.names:
            yield from _parts(values[name])
    elif values.dtype.kind in "fc":
        yield values
