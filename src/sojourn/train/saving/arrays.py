"""Live values and a checkpoint file's content: `Freezer` turns tensors and arrays into views of them, `thaw` back.

PyTorch and numpy are looked up in `sys.modules`: what the process has not imported cannot be in its state.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
from collections import Counter, OrderedDict
from typing import Any

from sojourn.formats.torch.pickle import Unsaveable
from sojourn.formats.torch.values import DTYPES, Made, Name, Storage, Tensor

# numpy's kind and width -> PyTorch's name. Other dtypes (dates, texts, long double, foreign byte order) are stored as
# raw bytes.
_FROM_NUMPY = {
    "b1": "bool", "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64", "u1": "uint8", "u2": "uint16",
    "u4": "uint32", "u8": "uint64", "f2": "float16", "f4": "float32", "f8": "float64", "c8": "complex64",
    "c16": "complex128",
}  # fmt: skip


class Freezer:
    """Turns one state into a tree of `formats.torch.zip`. Tensors that share memory share it again after reading.

    The state must not change until the tree is written: nothing is copied here.
    """

    def __init__(self) -> None:
        self._storages: dict[tuple[Any, ...], Storage] = {}
        self._scalars: dict[str, tuple[bytearray, Storage]] = {}  # numpy scalars by dtype, one storage for each
        self._done: dict[
            int, tuple[Any, Any]
        ] = {}  # id -> (the value, kept alive so that its id stays its own; its tree)

    def freeze(self, value: Any, where: str = "") -> Any:
        """The tree of `value`; `where` is its path, for messages. Raises: Unsaveable."""
        if value is None or type(value) in (bool, int, float, str, bytes, bytearray, complex):
            return value
        if id(value) in self._done:
            return self._done[id(value)][1]
        if isinstance(value, dict):
            return self._mapping(value, where)
        if type(value) is list:
            out: list[Any] = []
            self._done[id(value)] = (value, out)
            out.extend(self.freeze(item, f"{where}.{index}") for index, item in enumerate(value))
            return out
        tree = self._leaf(value, where)
        self._done[id(value)] = (value, tree)
        return tree

    def _mapping(self, value: dict[Any, Any], where: str) -> Any:
        kind = type(value) if type(value) in (OrderedDict, Counter) else dict
        out: Any = kind()
        self._done[id(value)] = (value, out)
        for key, item in value.items():
            out[key] = self.freeze(item, f"{where}.{key}" if where else str(key))
        metadata = getattr(value, "_metadata", None)
        if kind is OrderedDict and isinstance(metadata, dict):
            out._metadata = self.freeze(metadata, where)
        return out

    def _leaf(self, value: Any, where: str) -> Any:
        torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
        if type(value) is tuple:
            return tuple(self.freeze(item, f"{where}.{index}") for index, item in enumerate(value))
        if type(value) is set:
            return {self.freeze(item, where) for item in value}
        if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
            return self._array(value, where, numpy)
        if torch is not None:
            if isinstance(value, torch.Tensor):
                return self._tensor(value, where, torch)
            if isinstance(value, torch.Size):
                return tuple(value)
            if isinstance(value, torch.dtype):
                return Name(str(value))
            if isinstance(value, torch.device):
                return Made("torch.device", (str(value),))
        kind = type(value)
        raise Unsaveable(
            where=where, detail=f"a {kind.__module__}.{kind.__qualname__} is neither a plain value nor an array"
        )

    def _array(self, value: Any, where: str, numpy: Any) -> Tensor:
        array = numpy.asarray(value)
        if array.dtype.hasobject or array.dtype.kind not in "biufcSUmM":
            raise Unsaveable(where=where, detail=f"an array of dtype {array.dtype} cannot be read back safely")
        native = array.dtype.isnative and _FROM_NUMPY.get(f"{array.dtype.kind}{array.itemsize}")
        if isinstance(value, numpy.generic):
            return self._scalar(array, native or "")
        order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        shape = tuple(array.shape)
        said = {"dtype": array.dtype.str, "shape": list(shape), "order": order, "scalar": False}

        def view() -> memoryview:
            flat = numpy.ascontiguousarray(array.T if order == "F" else array).reshape(-1)
            return memoryview(flat.view(numpy.uint8) if flat.size else flat.tobytes()).cast("B")

        storage = Storage(array.nbytes, view, array=said)
        if not native:
            return Tensor("uint8", (array.nbytes,), (1,), 0, storage)
        sizes = shape if order == "C" else shape[::-1]
        strides = [1] * len(sizes)
        for index in range(len(sizes) - 2, -1, -1):
            strides[index] = strides[index + 1] * max(1, sizes[index + 1])
        return Tensor(native, shape, tuple(strides if order == "C" else strides[::-1]), 0, storage)

    def _scalar(self, array: Any, native: str) -> Tensor:
        """A numpy scalar: one place in the storage of its dtype's scalars, of which a state may have thousands."""
        said = {"dtype": array.dtype.str, "shape": [], "order": "C", "scalar": True}
        if said["dtype"] not in self._scalars:
            fresh = bytearray()
            self._scalars[said["dtype"]] = fresh, Storage(0, lambda: memoryview(fresh), array=said)
        gathered, storage = self._scalars[said["dtype"]]
        at = len(gathered)
        gathered += array.tobytes()
        storage.bytes = len(gathered)
        if native:
            return Tensor(native, (), (), at // array.itemsize, storage)
        return Tensor("uint8", (array.itemsize,), (1,), at, storage)

    def _tensor(self, value: Any, where: str, torch: Any) -> Tensor:
        if type(value) not in _tensor_types(torch):
            raise Unsaveable(
                where=where, detail=f"a {type(value).__qualname__} is not a plain tensor (sharded states come later)"
            )
        if value.layout != torch.strided or value.is_quantized or value.device.type == "meta":
            raise Unsaveable(where=where, detail="a tensor that is sparse, quantized or without memory")
        word = str(value.dtype).rpartition(".")[2]
        if word not in DTYPES:
            raise Unsaveable(where=where, detail=f"a tensor of dtype {value.dtype}")
        grad = bool(value.requires_grad) and bool(value.is_leaf)
        plain = value.detach().resolve_conj().resolve_neg()
        raw = plain.untyped_storage()
        key = (str(raw.device), raw.data_ptr(), raw.nbytes()) if raw.data_ptr() else (id(value),)
        storage = self._storages.get(key)
        if storage is None:
            storage = self._storages[key] = Storage(raw.nbytes(), _TorchView(raw), location=str(raw.device))
        return Tensor(word, tuple(plain.shape), tuple(plain.stride()), plain.storage_offset(), storage, grad)


def thaw(tree: Any, share: bool = False) -> Any:
    """Live values of a tree: numpy arrays, tensors, dtypes, devices, in new containers.

    With `share`, tensors and arrays view the file's private map instead of owning a copy: for callers that copy them
    anyway. Raises: ImportError if the tree has tensors and PyTorch is not installed.
    """
    return _Thawer(share).thaw(tree)


class _Thawer:
    def __init__(self, share: bool) -> None:
        self.share = share
        self.done: dict[int, tuple[Any, Any]] = {}

    def thaw(self, value: Any) -> Any:
        if value is None or type(value) in (bool, int, float, str, bytes, complex):
            return value
        if id(value) not in self.done:
            self.done[id(value)] = (value, self._made(value))
        return self.done[id(value)][1]

    def _made(self, value: Any) -> Any:
        if isinstance(value, dict):
            out: Any = type(value)()
            self.done[id(value)] = (value, out)
            for key, item in value.items():
                out[key] = self.thaw(item)
            metadata = getattr(value, "_metadata", None)
            if metadata is not None:
                out._metadata = self.thaw(metadata)
            return out
        if isinstance(value, list):
            made: list[Any] = []
            self.done[id(value)] = (value, made)
            made.extend(self.thaw(item) for item in value)
            return made
        if isinstance(value, (tuple, set)):
            return type(value)(self.thaw(item) for item in value)
        if isinstance(value, bytearray):
            return bytearray(value)
        if isinstance(value, Tensor):
            return self._array(value) if value.storage.array is not None else self._tensor(value)
        torch = importlib.import_module("torch")
        if isinstance(value, Name):
            return getattr(torch, value.full.rpartition(".")[2])
        return torch.device(*value.args)

    def _array(self, value: Tensor) -> Any:
        numpy = importlib.import_module("numpy")
        said = value.storage.array or {}
        shape, dtype = tuple(said["shape"]), numpy.dtype(said["dtype"])
        if said["scalar"]:
            start = value.offset * (1 if value.shape else dtype.itemsize)
            return numpy.frombuffer(value.storage.view(), dtype, 1, start)[0] if dtype.itemsize else dtype.type()
        if not value.storage.bytes:
            return numpy.empty(shape, dtype)
        array = numpy.frombuffer(value.storage.view(), dtype).reshape(shape, order=said["order"])
        return array if self.share else array.copy(order="K")

    def _tensor(self, value: Tensor) -> Any:
        torch = importlib.import_module("torch")
        dtype, storage = getattr(torch, value.dtype), value.storage
        if not storage.bytes:
            return torch.empty_strided(value.shape, value.stride, dtype=dtype).requires_grad_(value.requires_grad)
        if id(storage) not in self.done:
            raw = torch.frombuffer(storage.view(), dtype=torch.uint8)
            there = torch.device(storage.location)
            if there.type != "cpu" and not self.share:
                raw = raw.to(there if there.type != "cuda" or torch.cuda.device_count() > (there.index or 0) else "cpu")
            elif not self.share:
                raw = raw.clone()
            self.done[id(storage)] = (storage, raw.untyped_storage())
        raw_storage = self.done[id(storage)][1]
        tensor = torch.empty(0, dtype=dtype, device=raw_storage.device)
        tensor.set_(raw_storage, value.offset, value.shape, value.stride)
        return tensor.requires_grad_(True) if value.requires_grad else tensor


def _tensor_types(torch: Any) -> tuple[type, ...]:
    kinds = (torch.Tensor, torch.nn.Parameter, getattr(torch.nn, "Buffer", torch.Tensor))
    return tuple(kind for kind in kinds if isinstance(kind, type))


class _TorchView:
    """Bytes of a PyTorch storage: in place if in this machine's memory, else copied on request.

    `raw` is the storage, for callers with a better way to copy.
    """

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def __call__(self) -> memoryview:
        here = self.raw if self.raw.device.type == "cpu" else self.raw.cpu()
        if not here.nbytes():
            return memoryview(b"")
        window = (ctypes.c_ubyte * here.nbytes()).from_address(here.data_ptr())
        window._keep = here  # the storage lives as long as the view of it
        return memoryview(window).cast("B")
