"""Write the pickle inside a PyTorch file: protocol 2, only opcodes and globals that pass
`torch.load(weights_only=True)`.

Source: torch/_weights_only_unpickler.py and torch._utils of PyTorch 2.13, 2026-11.
"""

from __future__ import annotations

import builtins
import pickle
import struct
from collections import Counter, OrderedDict, defaultdict
from typing import Any

from sojourn.formats.torch.values import DTYPES, Made, Name, Storage, Tensor
from sojourn.wire.errors import Misuse


class Unsaveable(Misuse):
    """{where} cannot be saved in a checkpoint: {detail}"""

    code = "unsaveable"


def dumps(tree: Any) -> tuple[bytes, list[Storage]]:
    """(pickle, storages) of a tree as `torch_zip` lists it; storage number n is the entry data/n. A container or
    storage that occurs twice is written once, and shared again after reading.

    Raises: Unsaveable, with the path of the value in the tree.
    """
    writer = _Writer()
    writer.out += pickle.PROTO + b"\x02"
    writer.save(tree, "")
    writer.out += pickle.STOP
    return bytes(writer.out), writer.storages


class _Writer:
    def __init__(self) -> None:
        self.out = bytearray()
        self.memo: dict[Any, int] = {}  # id of a container, or the text of a string or global -> index
        self.storages: list[Storage] = []
        self.keys: dict[int, int] = {}

    def save(self, value: Any, where: str) -> None:
        kind = type(value)
        if value is None:
            self.out += pickle.NONE
        elif kind is bool:
            self.out += pickle.NEWTRUE if value else pickle.NEWFALSE
        elif kind is int:
            self.whole(value, where)
        elif kind is float:
            self.out += pickle.BINFLOAT + struct.pack(">d", value)
        elif kind is str:
            self.text(value)
        elif kind is Name:
            self.name(value.full)
        elif id(value) in self.memo:
            self.get(self.memo[id(value)])
        elif kind is Tensor:
            self.tensor(value, where)
            self.put(id(value))
        elif kind is tuple:
            self.tuple(value, where)
            self.put(id(value))
        elif kind is list:
            self.out += pickle.EMPTY_LIST
            self.put(id(value))
            self.list(value, where)
        elif kind in (dict, OrderedDict, Counter, defaultdict):
            self.mapping(value, where)
        elif kind in (bytes, bytearray, set, complex, Made):
            self.call(value, where)
            self.put(id(value))
        else:
            text = f"a {kind.__module__}.{kind.__qualname__} is none of the values that torch.load reads safely"
            raise Unsaveable(where=where or "the state", detail=text)

    def whole(self, value: int, where: str) -> None:
        if 0 <= value < 256:
            self.out += pickle.BININT1 + struct.pack("<B", value)
        elif -(1 << 31) <= value < 1 << 31:
            self.out += pickle.BININT + struct.pack("<i", value)
        else:
            raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
            if len(raw) > 255:
                raise Unsaveable(where=where, detail=f"a whole number of {len(raw)} bytes is too long")
            self.out += pickle.LONG1 + struct.pack("<B", len(raw)) + raw

    def text(self, value: str) -> None:
        if value in self.memo:
            self.get(self.memo[value])
            return
        raw = value.encode("utf-8", "surrogatepass")
        self.out += pickle.BINUNICODE + struct.pack("<I", len(raw)) + raw
        self.put(value)

    def name(self, full: str) -> None:
        if (full,) in self.memo:
            self.get(self.memo[(full,)])
            return
        module, _, name = full.rpartition(".")
        old = {"builtins": "__builtin__"}.get(module, module)  # its name in protocol 2
        self.out += pickle.GLOBAL + (f"{old}\n{name}\n").encode("ascii")
        self.put((full,))

    def tuple(self, value: builtins.tuple[Any, ...], where: str) -> None:
        if not value:
            self.out += pickle.EMPTY_TUPLE
            return
        self.out += pickle.MARK
        for index, item in enumerate(value):
            self.save(item, _below(where, index))
        self.out += pickle.TUPLE

    def list(self, value: builtins.list[Any], where: str) -> None:
        if value:
            self.out += pickle.MARK
            for index, item in enumerate(value):
                self.save(item, _below(where, index))
            self.out += pickle.APPENDS

    def mapping(self, value: dict[Any, Any], where: str) -> None:
        if isinstance(value, (OrderedDict, Counter)):
            self.name("collections." + type(value).__name__)
            self.out += pickle.EMPTY_TUPLE + pickle.REDUCE
        else:
            self.out += pickle.EMPTY_DICT
        self.put(id(value))
        if value:
            self.out += pickle.MARK
            for key, item in value.items():
                if type(key) not in (str, int, float, bool, tuple, type(None)):
                    raise Unsaveable(where=_below(where, key), detail=f"its key is a {type(key).__qualname__}")
                self.save(key, where)
                self.save(item, _below(where, key))
            self.out += pickle.SETITEMS
        metadata = getattr(value, "_metadata", None)  # module versions, which load_state_dict reads
        if type(value) is OrderedDict and isinstance(metadata, dict):
            self.out += pickle.EMPTY_DICT + pickle.MARK
            self.text("_metadata")
            self.save(metadata, _below(where, "_metadata"))
            self.out += pickle.SETITEMS + pickle.BUILD

    def call(self, value: Any, where: str) -> None:
        kind = type(value)
        args: tuple[Any, ...]
        if kind is bytes:
            name, args = "_codecs.encode", (value.decode("latin-1"), "latin1")
        elif kind is bytearray:
            name, args = "builtins.bytearray", (bytes(value),)
        elif kind is set:
            name, args = "builtins.set", (sorted(value, key=repr),)
        elif kind is complex:
            name, args = "builtins.complex", (value.real, value.imag)
        else:
            name, args = value.name, value.args
        self.name(name)
        self.tuple(args, where)
        self.out += pickle.REDUCE

    def tensor(self, value: Tensor, where: str) -> None:
        problem = value.problem()
        if problem:
            raise Unsaveable(where=where, detail=problem)
        width, kind = DTYPES[value.dtype]
        key = self.keys.get(id(value.storage))
        if key is None:
            key = self.keys[id(value.storage)] = len(self.storages)
            self.storages.append(value.storage)
        self.name("torch._utils." + ("_rebuild_tensor_v2" if kind else "_rebuild_tensor_v3"))
        self.out += pickle.MARK + pickle.MARK
        self.text("storage")
        self.name("torch." + kind if kind else "torch.storage.UntypedStorage")
        self.text(str(key))
        self.text("cpu")
        self.whole(value.storage.bytes // width if kind else value.storage.bytes, where)
        self.out += pickle.TUPLE + pickle.BINPERSID
        self.whole(value.offset, where)
        self.tuple(value.shape, where)
        self.tuple(value.stride, where)
        self.out += pickle.NEWTRUE if value.requires_grad else pickle.NEWFALSE
        self.name("collections.OrderedDict")
        self.out += pickle.EMPTY_TUPLE + pickle.REDUCE
        if not kind:
            self.name("torch." + value.dtype)
        self.out += pickle.TUPLE + pickle.REDUCE

    def put(self, key: Any) -> None:
        index = self.memo[key] = len(self.memo)
        self.out += (
            pickle.BINPUT + struct.pack("<B", index) if index < 256 else pickle.LONG_BINPUT + struct.pack("<I", index)
        )

    def get(self, index: int) -> None:
        self.out += (
            pickle.BINGET + struct.pack("<B", index) if index < 256 else pickle.LONG_BINGET + struct.pack("<I", index)
        )


def _below(where: str, key: Any) -> str:
    return f"{where}.{key}" if where else str(key)
