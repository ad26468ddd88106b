"""A tensor without PyTorch: a dtype by PyTorch's name, a shape, strides, and bytes stored somewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Iterator, Mapping

from sojourn.wire.errors import BadResult

# dtype -> (bytes per element, name of the typed storage class that PyTorch pickles it with; "" for an untyped one).
# Source: torch.storage._dtype_to_storage_type_map and _new_dtypes, PyTorch 2.13, 2026-11.
DTYPES: dict[str, tuple[int, str]] = {
    "float64": (8, "DoubleStorage"),
    "float32": (4, "FloatStorage"),
    "float16": (2, "HalfStorage"),
    "bfloat16": (2, "BFloat16Storage"),
    "int64": (8, "LongStorage"),
    "int32": (4, "IntStorage"),
    "int16": (2, "ShortStorage"),
    "int8": (1, "CharStorage"),
    "uint8": (1, "ByteStorage"),
    "bool": (1, "BoolStorage"),
    "complex64": (8, "ComplexFloatStorage"),
    "complex128": (16, "ComplexDoubleStorage"),
    "qint8": (1, "QInt8Storage"),
    "quint8": (1, "QUInt8Storage"),
    "qint32": (4, "QInt32Storage"),
    "quint4x2": (1, "QUInt4x2Storage"),
    "quint2x4": (1, "QUInt2x4Storage"),
    "uint16": (2, ""),
    "uint32": (4, ""),
    "uint64": (8, ""),
    "complex32": (4, ""),
    "float8_e4m3fn": (1, ""),
    "float8_e5m2": (1, ""),
    "float8_e4m3fnuz": (1, ""),
    "float8_e5m2fnuz": (1, ""),
    "float8_e8m0fnu": (1, ""),
    "float4_e2m1fn_x2": (1, ""),
    "bits8": (1, ""),
    "bits16": (2, ""),
    "bits1x8": (1, ""),
    "bits2x4": (1, ""),
    "bits4x2": (1, ""),
}


class Damaged(BadResult):
    """{path}: {detail}"""

    # `problem` is a word of the `verify` document in docs/json.md: missing empty truncated corrupt unsafe unparseable
    # unsupported.
    code = "damaged-file"

    def __init__(self, path: str, problem: str, detail: str) -> None:
        super().__init__(path=path, problem=problem, detail=detail)
        self.problem = problem


@dataclass(eq=False)
class Storage:
    """Bytes that one or more tensors view. Tensors that share a Storage share memory; identity matters.

    `view()` returns all of it as a flat memoryview of bytes: at no cost if it is in memory, by a copy if it comes from
    a GPU (so a writer requests one storage at a time). `key` is its name in its file; `location` its original device.
    `array`: None, or for a former numpy array {"dtype": numpy's dtype.str, "shape": [...], "scalar": bool}; a dtype
    that PyTorch lacks is kept as uint8 bytes, so it may differ from the tensor's. `is_mapped`: False if `view()` takes
    as much memory as it has bytes. `begin`: their offset in the file if stored unchanged, -1 if unknown; `crc32`:
    theirs, if not yet compared.
    """

    bytes: int
    view: Callable[[], memoryview]
    key: str = ""
    location: str = "cpu"
    array: Mapping[str, Any] | None = None
    is_mapped: bool = True
    begin: int = -1
    crc32: int | None = None


@dataclass(frozen=True, eq=False)
class Tensor:
    """A strided view of a Storage. dtype: PyTorch's name; stride and offset count elements, not bytes.

    quantizer: of a quantized one, the meaning of its integers: numbers, and tensors for each channel.
    """

    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    storage: Storage
    requires_grad: bool = False
    quantizer: tuple[Any, ...] = ()

    @property
    def elements(self) -> int:
        """How many elements it views."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def is_contiguous(self) -> bool:
        """Its elements are in order without gaps (dimensions of size 1 do not matter)."""
        want = 1
        for size, stride in zip(reversed(self.shape), reversed(self.stride)):
            if size != 1 and stride != want:
                return self.elements == 0
            want *= size
        return True

    @property
    def contiguous_bytes(self) -> memoryview:
        """The bytes it views, if `is_contiguous`. Raises: ValueError otherwise."""
        if not self.is_contiguous:
            raise ValueError(f"not contiguous: shape {self.shape!r}, stride {self.stride!r}")
        width = DTYPES[self.dtype][0]
        return self.storage.view()[self.offset * width : (self.offset + self.elements) * width]

    def problem(self) -> str:
        """Why this view is invalid: it leaves its storage, or its numbers make no sense. "" if valid."""
        if self.dtype not in DTYPES:
            return f"unknown dtype {self.dtype}"
        if len(self.shape) != len(self.stride) or min(self.shape + self.stride + (self.offset,)) < 0:
            return f"impossible shape {self.shape}, stride {self.stride}, offset {self.offset}"
        last = self.offset + sum((size - 1) * stride for size, stride in zip(self.shape, self.stride))
        if self.elements and (last + 1) * DTYPES[self.dtype][0] > self.storage.bytes:
            return f"shows element {last} of a storage of {self.storage.bytes} bytes"
        return ""


@dataclass(frozen=True)
class Name:
    """A global that a pickle names, never imported: "torch.float32", "argparse.Namespace"."""

    full: str


@dataclass(eq=False)
class Made:
    """What a pickle would make by calling a global: its name, arguments and the state set on it. It was not called."""

    name: str
    args: tuple[Any, ...]
    state: Any = None


def tensors(tree: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """(path in the tree joined by dots, Tensor) of all tensors in `tree`, in order; containers that occur twice are
    walked once.
    """
    seen = set()
    stack: list[tuple[str, Any]] = [(name, tree)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, Tensor):
            yield path, value
        children: list[tuple[Any, Any]] = []
        if isinstance(value, dict):
            children = list(value.items())
        elif isinstance(value, (list, tuple)):
            children = list(enumerate(value))
        elif isinstance(value, Tensor):
            children = list(enumerate(value.quantizer))
        elif isinstance(value, Made):
            children = list(enumerate(value.args)) + [("state", value.state)]
        if children and id(value) not in seen:
            seen.add(id(value))
            stack.extend((f"{path}.{key}" if path else str(key), child) for key, child in reversed(children))
