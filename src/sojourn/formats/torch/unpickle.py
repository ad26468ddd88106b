"""Read the pickle inside a PyTorch file without running any of it: no import, no call, only plain values come out.

A stack machine of the opcodes in `torch.load(weights_only=True)`. A global becomes a Name, a call of one becomes its
plain value if it has one (OrderedDict, set, a tensor view) and a Made otherwise; so even a hostile file can be listed.
Source: torch/_weights_only_unpickler.py of PyTorch 2.13, 2026-11.
"""

from __future__ import annotations

import pickle
import struct
from collections import Counter, OrderedDict
from typing import Any, Callable

from sojourn.formats.torch.values import DTYPES, Made, Name, Storage, Tensor

# Globals that weights_only allows; any other makes a file unsafe to load with PyTorch.
_PLAIN = """
    collections.OrderedDict collections.Counter builtins.bytearray builtins.set builtins.complex _codecs.encode
    torch.Size torch.Tensor torch.device torch.nn.parameter.Parameter torch.serialization._get_layout
    torch.storage.UntypedStorage torch.storage.TypedStorage torch._tensor._rebuild_from_type_v2
    torch.per_tensor_affine torch.per_tensor_symmetric torch.per_channel_affine torch.per_channel_symmetric
    torch.per_channel_affine_float_qparams
"""
_REBUILD = """
    tensor tensor_v2 tensor_v3 parameter parameter_with_state qtensor sparse_tensor nested_tensor wrapper_subclass
    meta_tensor_no_storage device_tensor_from_numpy device_tensor_from_cpu_tensor
"""
SAFE = frozenset(
    _PLAIN.split()
    + ["torch._utils._rebuild_" + what for what in _REBUILD.split()]
    + ["torch." + dtype for dtype in DTYPES]
    + ["torch." + storage for _, storage in DTYPES.values() if storage]
)
# What the machine raises, besides ValueError, on bytes that are not such a pickle.
MALFORMED = (IndexError, KeyError, TypeError, AttributeError, OverflowError, struct.error, RecursionError)
OLD_NAMES = {"__builtin__": "builtins", "copy_reg": "copyreg"}
_STORAGE_DTYPES = {storage: dtype for dtype, (_, storage) in DTYPES.items() if storage}
_STORAGE_DTYPES["UntypedStorage"] = "uint8"


class Pickled:
    """The contents of a pickle: `tree`, and `globals`, every global it names."""

    def __init__(self, tree: Any, names: set[str]) -> None:
        self.tree = tree
        self.globals = names
        self.beside: list[Any] = []  # set on plain values, which have no place for it
        self.classes: list[str] = []  # classes it names that were not built
        self.remarks: tuple[str, ...] = ()

    @property
    def unsafe(self) -> list[str]:
        """Globals that weights_only refuses, sorted."""
        return sorted(self.globals - SAFE)


def loads(data: bytes, storage: Callable[[str, str, int], Storage]) -> Pickled:
    """Decode `data`. `storage(key, location, bytes)` returns a tensor's storage.

    Raises: ValueError (not such a pickle, or an opcode outside the list).
    """
    machine = Machine(data, storage)
    try:
        return Pickled(machine.run(), machine.globals)
    except MALFORMED as e:
        raise ValueError(f"not a pickle of a PyTorch file ({type(e).__name__}: {e})") from None


class Machine:
    """The stack machine; `steps` has one function per opcode it knows."""

    def __init__(self, data: bytes, storage: Callable[[str, str, int], Storage]) -> None:
        self.data, self.at, self.storage = data, 0, storage
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.globals: set[str] = set()
        self.steps = STEPS

    def take(self, count: int) -> bytes:
        self.at += count
        if self.at > len(self.data):
            raise ValueError("the pickle is cut off")
        return self.data[self.at - count : self.at]

    def line(self) -> str:
        end = self.data.index(b"\n", self.at)
        text = self.data[self.at : end].decode("utf-8")
        self.at = end + 1
        return text

    def pop_mark(self) -> list[Any]:
        items, self.stack = self.stack, self.marks.pop()
        return items

    def run(self) -> Any:
        while True:
            op = self.take(1)
            if op == pickle.STOP:
                return self.stack.pop()
            step = self.steps.get(op)
            if step is None:
                raise ValueError(f"opcode {op!r} is none that PyTorch reads")
            step(self)

    def do_proto(self) -> None:
        self.take(1)

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def do_global(self) -> None:
        module, name = self.line(), self.line()
        full = f"{OLD_NAMES.get(module, module)}.{name}"
        self.globals.add(full)
        self.push(Name(full))

    def do_reduce(self) -> None:
        args = self.stack.pop()
        what = self.stack[-1]
        if not isinstance(what, Name) or not isinstance(args, tuple):
            raise ValueError("it calls something that is no name")
        self.stack[-1] = result_of_call(what.full, args)

    def do_build(self) -> None:
        state, target = self.stack.pop(), self.stack[-1]
        if isinstance(target, Made):
            target.state = state
        elif isinstance(target, OrderedDict) and isinstance(state, dict) and isinstance(state.get("_metadata"), dict):
            target._metadata = state["_metadata"]  # type: ignore[attr-defined]  # where a module's state_dict keeps its versions

    def do_persid(self) -> None:
        word, kind, key, location, count = self.stack.pop()[:5]
        if (
            word != "storage"
            or not isinstance(kind, Name)
            or not isinstance(key, str)
            or type(count) is not int
            or count < 0
        ):
            raise ValueError("a persistent id that is no storage")
        dtype = _STORAGE_DTYPES.get(kind.full.rpartition(".")[2])
        if dtype is None:
            raise ValueError(f"storage of unknown kind {kind.full}")
        self.push((dtype, self.storage(key, str(location), count * DTYPES[dtype][0])))

    def do_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if isinstance(target, Made):
            target.state = items  # a mapping of an unknown class
        elif not isinstance(target, dict):
            raise ValueError("it sets items of something that is no mapping")
        else:
            for key, value in zip(items[::2], items[1::2]):
                target[key] = value

    def do_append(self, items: list[Any]) -> None:
        if type(self.stack[-1]) is not list:
            raise ValueError("it appends to something that is no list")
        self.stack[-1].extend(items)

    def do_mark(self) -> None:
        self.marks.append(self.stack)
        self.stack = []

    def do_tuple(self, count: int) -> None:
        items = tuple(self.stack[len(self.stack) - count :])
        if len(items) != count:
            raise ValueError("its stack is too short")
        del self.stack[len(self.stack) - count :]
        self.push(items)

    def put(self, index: int) -> None:
        self.memo[index] = self.stack[-1]


def result_of_call(name: str, args: tuple[Any, ...]) -> Any:
    """What calling the global would return, if that is plain; a Made otherwise."""
    short = name.rpartition(".")[2]
    if name == "collections.OrderedDict" and not args:
        return OrderedDict()
    if name == "collections.Counter" and all(isinstance(a, dict) for a in args):
        return Counter(*args)
    if name == "builtins.set" and len(args) <= 1:
        return set(*args)
    if name == "builtins.complex":
        return complex(*args)
    if name == "torch.Size":
        return tuple(*args)
    if name == "_codecs.encode" and args and isinstance(args[0], str) and args[1:] in (("latin1",), ("latin-1",)):
        return args[0].encode("latin-1")
    if name == "builtins.bytearray" and all(isinstance(a, bytes) for a in args):
        return bytearray(*args)
    if not name.startswith("torch._utils._rebuild_"):
        return Made(name, args)
    if short in ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_qtensor"):
        (dtype, storage), offset, shape, stride = args[:4]
        if short == "_rebuild_tensor_v3":
            dtype = args[6].full.rpartition(".")[2]
        has_scales = short == "_rebuild_qtensor" and isinstance(args[4], tuple)
        requires_grad, quantizer = (False, args[4]) if has_scales else (len(args) > 4 and args[4] is True, ())
        return Tensor(dtype, _sizes(shape), _sizes(stride), int(offset), storage, requires_grad, quantizer)
    has_more = short == "_rebuild_parameter_with_state" and len(args) > 3 and bool(args[3])  # attributes and tensors
    if (
        short in ("_rebuild_parameter", "_rebuild_parameter_with_state")
        and isinstance(args[0], Tensor)
        and not has_more
    ):
        kept = args[0]
        return Tensor(kept.dtype, kept.shape, kept.stride, kept.offset, kept.storage, args[1] is True)
    return Made(name, args)


def _sizes(value: Any) -> tuple[int, ...]:
    sizes = tuple(value)
    if not all(type(size) is int for size in sizes):
        raise ValueError("a tensor whose shape is no list of whole numbers")
    return sizes


def _number(form: str) -> Callable[[Machine], Any]:
    width = struct.calcsize(form)
    return lambda m: struct.unpack(form, m.take(width))[0]


_u1, _u2, _i4, _u4, _f8 = _number("<B"), _number("<H"), _number("<i"), _number("<I"), _number(">d")

STEPS: dict[bytes, Callable[[Machine], None]] = {
    pickle.PROTO: Machine.do_proto,
    pickle.GLOBAL: Machine.do_global,
    pickle.REDUCE: Machine.do_reduce,
    pickle.NEWOBJ: Machine.do_reduce,
    pickle.BUILD: Machine.do_build,
    pickle.BINPERSID: Machine.do_persid,
    pickle.MARK: Machine.do_mark,
    pickle.APPEND: lambda m: m.do_append([m.stack.pop()]),
    pickle.APPENDS: lambda m: m.do_append(m.pop_mark()),
    pickle.SETITEM: lambda m: m.do_items([m.stack.pop(-2), m.stack.pop()]),
    pickle.SETITEMS: lambda m: m.do_items(m.pop_mark()),
    pickle.TUPLE: lambda m: m.push(tuple(m.pop_mark())),
    pickle.TUPLE1: lambda m: m.do_tuple(1),
    pickle.TUPLE2: lambda m: m.do_tuple(2),
    pickle.TUPLE3: lambda m: m.do_tuple(3),
    pickle.NONE: lambda m: m.push(None),
    pickle.NEWFALSE: lambda m: m.push(False),
    pickle.NEWTRUE: lambda m: m.push(True),
    pickle.EMPTY_TUPLE: lambda m: m.push(()),
    pickle.EMPTY_LIST: lambda m: m.push([]),
    pickle.EMPTY_DICT: lambda m: m.push({}),
    pickle.EMPTY_SET: lambda m: m.push(set()),
    pickle.BININT: lambda m: m.push(_i4(m)),
    pickle.BININT1: lambda m: m.push(_u1(m)),
    pickle.BININT2: lambda m: m.push(_u2(m)),
    pickle.BINFLOAT: lambda m: m.push(_f8(m)),
    pickle.LONG1: lambda m: m.push(int.from_bytes(m.take(_u1(m)), "little", signed=True)),
    pickle.BINUNICODE: lambda m: m.push(m.take(_u4(m)).decode("utf-8", "surrogatepass")),
    pickle.SHORT_BINSTRING: lambda m: m.push(m.take(_u1(m)).decode("latin-1")),
    pickle.BINGET: lambda m: m.push(m.memo[_u1(m)]),
    pickle.LONG_BINGET: lambda m: m.push(m.memo[_u4(m)]),
    pickle.BINPUT: lambda m: m.put(_u1(m)),
    pickle.LONG_BINPUT: lambda m: m.put(_u4(m)),
}
