"""Read any pickle, of any protocol, without building any of its classes: no import, no call, no attribute access.

The stack machine of `torch_unpickle` with every opcode in Python. A global becomes a Name; what a call or a
construction would make becomes a Made, with everything that would be set on it; plain containers stay. What a
load would call is noted in order in `calls`, for `pickle_calls` to judge: this file decides nothing.
Source: Lib/pickle.py and Lib/pickletools.py of Python 3.14, 2026-11.
"""

from __future__ import annotations

import _compat_pickle
import pickle
from typing import Any, Callable, NamedTuple

from sojourn.formats.torch import unpickle as torch_unpickle
from sojourn.formats.torch.unpickle import Machine
from sojourn.formats.torch.values import Made, Name, Storage


class Call(NamedTuple):
    """One thing that a load would do. how: "call" (REDUCE, INST, OBJ), "new" (a class's __new__ alone), "state" and
    "items" (set on `what`), "extension" (a code of copyreg), "persistent" (an id that is not a storage), "name" (a
    dotted global: args is its module, and the path in it).
    """

    how: str
    what: Any
    args: tuple[Any, ...]


class Walked(torch_unpickle.Pickled):
    """The contents of a pickle; with `calls`, and `end`: where it stops."""

    def __init__(self, machine: Walker, tree: Any) -> None:
        super().__init__(tree, machine.globals)
        self.calls, self.beside, self.end = tuple(machine.calls), machine.beside, machine.at


def walk(data: bytes, storage: Callable[[str, str, int], Storage] | None = None, begin: int = 0) -> Walked:
    """Take apart the pickle at byte `begin` of `data`. `storage`: as in `torch_unpickle.loads`; None: it has none.

    Raises: ValueError (cut off, or not a pickle).
    """
    machine = Walker(data, storage or _no_storage)
    machine.at = begin
    try:
        tree = machine.run()
        if machine.marks:
            raise ValueError("it ends inside a container")
        return Walked(machine, tree)
    except torch_unpickle.MALFORMED as e:
        raise ValueError("not a pickle ({}: {})".format(type(e).__name__, e)) from None


def _no_storage(key: str, location: str, size_bytes: int) -> Storage:
    raise ValueError("a persistent id where there are no storages")


class Walker(Machine):
    """The stack machine; `calls` and `beside` grow as it runs, and survive a failure."""

    def __init__(self, data: bytes, storage: Callable[[str, str, int], Storage]) -> None:
        super().__init__(data, storage)
        self.calls: list[Call] = []
        self.beside: list[Any] = []
        self.steps = STEPS

    def do_global(self) -> None:
        module, name = self.line(), self.line()
        self.name(module, name)

    def name(self, module: str, name: str) -> None:
        """Push the global under its Python 3 name."""
        module, name = _compat_pickle.NAME_MAPPING.get((module, name), (module, name))
        module = _compat_pickle.IMPORT_MAPPING.get(module, module)
        full = "{}.{}".format(module, name)
        self.globals.add(full)
        self.push(Name(full))
        if "." in name:
            self.calls.append(Call("name", Name(full), (module, name)))

    def do_stack_global(self) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        if type(name) is not str or type(module) is not str:
            raise ValueError("it names a global by something that is no text")
        self.name(module, name)

    def do_reduce(self) -> None:
        args, what = self.stack.pop(), self.stack.pop()
        self.call(what, args)

    def call(self, what: Any, args: Any) -> None:
        if type(args) is not tuple:
            raise ValueError("it calls something with what is no list of arguments")
        self.calls.append(Call("call", what, args))
        full = what.full if isinstance(what, Name) else ""
        if full in torch_unpickle.SAFE:
            self.push(torch_unpickle.result_of_call(full, args))
        else:
            self.push(Made(full, args if full else (what, *args)))

    def do_new(self) -> None:
        args, what = self.stack.pop(), self.stack.pop()
        self.new(what, args, {})

    def do_new_ex(self) -> None:
        more, args, what = self.stack.pop(), self.stack.pop(), self.stack.pop()
        self.new(what, args, more)

    def new(self, what: Any, args: Any, more: Any) -> None:
        if type(args) is not tuple or type(more) is not dict:
            raise ValueError("it makes something of what is no list of arguments")
        self.calls.append(Call("new", what, (*args, *more.values())))
        self.push(Made(what.full if isinstance(what, Name) else "", (*args, *more.values())))

    def do_obj(self) -> None:
        items = self.pop_mark()
        self.call(items[0], tuple(items[1:]))

    def do_inst(self) -> None:
        module, name = self.line(), self.line()
        args = tuple(self.pop_mark())
        self.name(module, name)
        self.call(self.stack.pop(), args)

    def do_build(self) -> None:
        state, target = self.stack.pop(), self.stack[-1]
        self.set_on(target, state)

    def set_on(self, target: Any, value: Any, how: str = "state") -> None:
        """State set on an object that is not built is kept beside it: its tensors belong to the file."""
        self.calls.append(Call(how, target, (value,)))
        if not isinstance(target, Made):
            self.beside.append(value)
        elif target.state is None:
            target.state = [value]
        else:
            target.state.append(value)

    def do_items(self, items: list[Any]) -> None:
        if isinstance(self.stack[-1], dict):
            super().do_items(items)
        else:
            self.set_on(self.stack[-1], dict(zip(items[::2], items[1::2])), "items")

    def do_append(self, items: list[Any]) -> None:
        if type(self.stack[-1]) is list:
            self.stack[-1].extend(items)
        else:
            self.set_on(self.stack[-1], items, "items")

    def do_add(self) -> None:
        items = self.pop_mark()
        if type(self.stack[-1]) is set:
            self.stack[-1].update(items)
        else:
            self.set_on(self.stack[-1], items, "items")

    def do_persid(self) -> None:
        saved = self.stack[-1]
        if isinstance(saved, tuple) and len(saved) == 4 and saved[0] == "module" and isinstance(saved[1], Name):
            self.stack[-1] = saved[1]  # before 1.6: a class, and its source, which PyTorch only compares
            return
        if not isinstance(saved, tuple) or saved[:1] != ("storage",):
            self.calls.append(Call("persistent", self.stack[-1], ()))
            return
        super().do_persid()

    def do_persid_line(self) -> None:
        self.calls.append(Call("persistent", self.line(), ()))
        self.push(None)

    def do_extension(self, width: int) -> None:
        code = int.from_bytes(self.take(width), "little")
        self.calls.append(Call("extension", code, ()))
        self.push(Made("", (code,)))

    def do_pop(self) -> None:
        if self.stack:
            self.stack.pop()
        else:
            self.pop_mark()

    def do_dict(self) -> None:
        items = self.pop_mark()
        self.push(dict(zip(items[::2], items[1::2])))

    def text(self, width: int) -> str:
        return self.take(int.from_bytes(self.take(width), "little")).decode("utf-8", "surrogatepass")

    def raw(self, width: int) -> bytes:
        return self.take(int.from_bytes(self.take(width), "little"))

    def whole(self, width: int) -> int:
        return int.from_bytes(self.raw(width), "little", signed=True)

    def escaped(self) -> bytes:
        """A line, unchanged."""
        end = self.data.index(b"\n", self.at)
        raw, self.at = self.data[self.at : end], end + 1
        return raw

    def quoted(self) -> str:
        """A text of protocol 0, as Python 2's `repr` wrote it."""
        raw = self.escaped().strip()
        if len(raw) < 2 or raw[:1] != raw[-1:] or raw[:1] not in (b"'", b'"'):
            raise ValueError("a text without its quotes")
        return raw[1:-1].decode("unicode_escape")

    def number(self) -> Any:
        text = self.line()
        return {"00": False, "01": True}.get(text) if text in ("00", "01") else int(text)


def _no_buffer(machine: Walker) -> None:
    raise ValueError("it wants a buffer from outside of it")


STEPS: dict[bytes, Callable[[Any], None]] = {
    **torch_unpickle.STEPS,
    pickle.STACK_GLOBAL: Walker.do_stack_global,
    pickle.REDUCE: Walker.do_reduce,
    pickle.NEWOBJ: Walker.do_new,
    pickle.NEWOBJ_EX: Walker.do_new_ex,
    pickle.OBJ: Walker.do_obj,
    pickle.INST: Walker.do_inst,
    pickle.BUILD: Walker.do_build,
    pickle.BINPERSID: Walker.do_persid,
    pickle.PERSID: Walker.do_persid_line,
    pickle.EXT1: lambda m: m.do_extension(1),
    pickle.EXT2: lambda m: m.do_extension(2),
    pickle.EXT4: lambda m: m.do_extension(4),
    pickle.ADDITEMS: Walker.do_add,
    pickle.FRAME: lambda m: m.take(8) and None,
    pickle.POP: Walker.do_pop,
    pickle.POP_MARK: lambda m: m.pop_mark() and None,
    pickle.DUP: lambda m: m.push(m.stack[-1]),
    pickle.DICT: Walker.do_dict,
    pickle.LIST: lambda m: m.push(m.pop_mark()),
    pickle.FROZENSET: lambda m: m.push(frozenset(m.pop_mark())),
    pickle.FLOAT: lambda m: m.push(float(m.line())),
    pickle.INT: lambda m: m.push(m.number()),
    pickle.LONG: lambda m: m.push(int(m.line().rstrip("L"))),
    pickle.LONG4: lambda m: m.push(m.whole(4)),
    pickle.STRING: lambda m: m.push(m.quoted()),
    pickle.BINSTRING: lambda m: m.push(m.raw(4).decode("latin-1")),
    pickle.UNICODE: lambda m: m.push(m.escaped().decode("raw-unicode-escape")),
    pickle.SHORT_BINUNICODE: lambda m: m.push(m.text(1)),
    pickle.BINUNICODE8: lambda m: m.push(m.text(8)),
    pickle.SHORT_BINBYTES: lambda m: m.push(m.raw(1)),
    pickle.BINBYTES: lambda m: m.push(m.raw(4)),
    pickle.BINBYTES8: lambda m: m.push(m.raw(8)),
    pickle.BYTEARRAY8: lambda m: m.push(bytearray(m.raw(8))),
    pickle.NEXT_BUFFER: _no_buffer,
    pickle.READONLY_BUFFER: _no_buffer,
    pickle.MEMOIZE: lambda m: m.put(len(m.memo)),
    pickle.GET: lambda m: m.push(m.memo[int(m.line())]),
    pickle.PUT: lambda m: m.put(int(m.line())),
}

__all__ = ["Call", "Walked", "Walker", "walk"]
