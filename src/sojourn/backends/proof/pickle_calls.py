"""What loading a pickle would call, and whether that only makes data. Decided by names and forms; nothing is looked up.

Read as content: classes that get their state (`cls.__new__`, then `__setstate__` or attributes), members of an Enum,
and the functions by which Python, numpy, PyTorch and pandas assemble their own data. Everything else is unsafe: any
other function, any standard library module not listed here, a third-party class called with more than one plain word,
calling anything that was made or fetched, an attribute that would replace a method used in loading.

Source: Lib/pickle.py (load_reduce, load_newobj, load_build, load_appends), Lib/copyreg.py and Lib/enum.py of Python
3.11 to 3.14; numpy/random/_pickle.py of numpy 2.4; torch/_tensor.py of PyTorch 2.13, 2026-11.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sojourn.formats.torch.pickle_walk import Call
from sojourn.formats.torch.unpickle import SAFE
from sojourn.formats.torch.values import Made, Name

# Classes and functions of the standard library that only make data.
_STANDARD = frozenset(
    """
    builtins.object builtins.set builtins.frozenset builtins.list builtins.dict builtins.tuple builtins.bytes
    builtins.bytearray builtins.str builtins.int builtins.float builtins.complex builtins.bool builtins.slice
    builtins.range builtins.Ellipsis builtins.NotImplemented builtins.NoneType
    collections.OrderedDict collections.Counter collections.defaultdict collections.deque collections.ChainMap
    collections.UserDict collections.UserList collections.UserString
    datetime.datetime datetime.date datetime.time datetime.timedelta datetime.timezone
    zoneinfo.ZoneInfo zoneinfo.ZoneInfo._unpickle
    pathlib.Path pathlib.PosixPath pathlib.WindowsPath pathlib.PurePath pathlib.PurePosixPath pathlib.PureWindowsPath
    pathlib._local.Path pathlib._local.PosixPath pathlib._local.WindowsPath pathlib._local.PurePosixPath
    uuid.UUID uuid.SafeUUID decimal.Decimal fractions.Fraction argparse.Namespace types.SimpleNamespace
    array.array array._array_reconstructor random.Random re._compile re.RegexFlag itertools.count
    _codecs.encode copyreg._reconstructor copyreg.__newobj__ copyreg.__newobj_ex__ functools.partial logging.getLogger
    enum.Enum enum.IntEnum enum.StrEnum http.HTTPStatus
    """.split()
)
# Third-party functions that assemble data from their arguments.
_FUNCTIONS = frozenset(
    """
    numpy.core.multiarray._reconstruct numpy._core.multiarray._reconstruct numpy.core.multiarray.scalar
    numpy._core.multiarray.scalar numpy.core.numeric._frombuffer numpy._core.numeric._frombuffer
    numpy.dtype numpy.ndarray numpy.matrix numpy.ma.core._mareconstruct numpy.random._pickle.__randomstate_ctor
    numpy.random._pickle.__generator_ctor numpy.random._pickle.__bit_generator_ctor
    pandas._libs.internals._unpickle_block pandas.core.indexes.base._new_Index
    pandas.core.indexes.datetimes._new_DatetimeIndex pandas._libs.tslibs.timestamps._unpickle_timestamp
    torch.device torch.Size torch.Generator torch.storage._get_dtype_from_pickle_storage_type
    """.split()
) | (SAFE - {"torch._tensor._rebuild_from_type_v2"})
# Classes that act as soon as they are called, by whatever module they are reached.
_DOING = re.compile(
    "Popen|CDLL|PyDLL|WinDLL|OleDLL|LibraryLoader|FunctionType|LambdaType|CodeType|MethodType|ModuleType|Thread|Process"
    "|Timer|Pool|ThreadPool|.*Executor|Connection|Client|Listener|.*Server|Telnet|FTP.*|SMTP.*|IMAP4.*|POP3.*|HTTP.*"
    "|Interactive.*|Command.*|.*Unpickler|.*Importer|.*Loader|FileIO|.*Reader|.*Writer|.*Dataset|Api|.*Session|.*Shell"
)
_TYPES = ("None", "Ellipsis", "NotImplemented")
_WORD = re.compile(r"[\w+\- ]{0,64}")  # the value of a member of an Enum: not a path, an address or a command option
_CLASS = re.compile(r"_*[A-Z]\w*")
_MEMBER = re.compile(r"[A-Za-z]\w*")
_GLOBAL = frozenset(["", "builtins.getattr", "logging.getLogger"])  # calls whose result may not be the pickle's own
_PAIRS = frozenset("collections." + name for name in ("OrderedDict", "Counter", "ChainMap", "UserDict")) | {
    "builtins.dict"
}
# Looked up on the object itself during loading, so an attribute set earlier could replace it.
METHODS = frozenset(["__setstate__", "__class__", "append", "extend", "add", "__reduce__", "__reduce_ex__"])
_SHOWN = 5


def unsafe(calls: Iterable[Call], names: Iterable[str]) -> list[str]:
    """Calls on loading that are not known to make only data, in words, each once; [] if none."""
    found = {_shown(name): None for name in sorted(names) if not _may_be_named(name)}
    for call in calls:
        why = "" if _is_data(call) else _words(call)
        if why and not any(word.startswith(why) for word in found):
            found[why] = None
    return list(found)


def classes(names: Iterable[str]) -> list[str]:
    """The names in a pickle, sorted, except functions and PyTorch's own words for weights."""
    plain = {*SAFE, *_CALLED, *_FUNCTIONS} - {"numpy.dtype", "numpy.ndarray"}
    return sorted(name for name in names if name not in plain and not name.startswith("builtins."))


def remark(names: Sequence[str]) -> str:
    """The sentence about what was not built."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"content known, classes not built: {', '.join(name[:80] for name in names[:_SHOWN])}{more}"


def _may_be_named(full: str) -> bool:
    """Naming alone imports the module and gets the attribute, step by step if it has dots."""
    if full in _STANDARD or full in _FUNCTIONS or full in ("builtins.getattr", "builtins.type", *SAFE):
        return True
    module, _, last = full.rpartition(".")
    root = full.partition(".")[0]
    if root == "builtins":
        return module == "builtins" and bool(re.fullmatch(r"[A-Z]\w*(Error|Exception|Warning|Exit|Interrupt)", last))
    return root not in sys.stdlib_module_names


def _is_data(call: Call) -> bool:
    if call.how in ("extension", "persistent"):
        return False
    if call.how == "name":
        # A dotted name may reach anything a module imported: only a class within a class is its own.
        return call.what.full in _STANDARD or all(_CLASS.fullmatch(part) for part in call.args[1].split("."))
    if call.how in ("state", "items"):
        return _is_set(call)
    if not isinstance(call.what, Name) or not _may_be_named(call.what.full):
        return False
    full = call.what.full
    if call.how == "new":
        is_standard = full in _STANDARD or full in _FUNCTIONS
        is_doing = _DOING.fullmatch(full.rpartition(".")[2]) is not None
        return _are_given(full, call.args) if is_standard else full not in _CALLED and not is_doing
    if full in _CALLED:
        return _CALLED[full](call.args)
    if full in _STANDARD or full in _FUNCTIONS or full.rpartition(".")[2].startswith("__pyx_unpickle_"):
        return _are_given(full, call.args)
    return _is_member(full, call.args)


def _is_set(call: Call) -> bool:
    """State or items set on something that was made, without replacing anything loading calls."""
    if isinstance(call.what, Name) or (isinstance(call.what, Made) and call.what.name in _GLOBAL):
        return False  # an attribute of an object that others use too
    if call.how == "items":
        return True
    parts = call.args[0] if isinstance(call.args[0], tuple) else call.args
    for part in parts:
        if isinstance(part, dict):
            if any(key in METHODS and isinstance(value, (Name, Made)) for key, value in part.items()):
                return False
    return True


def _are_given(full: str, args: Sequence[Any]) -> bool:
    """Allowed as arguments of the function or class `full`, which may iterate over them, or ask for their length or
    text: on an object of a third-party class that would run its methods.
    """
    nested = [item for arg in args if isinstance(arg, (list, tuple)) for item in arg] if full in _PAIRS else []
    return not any(_is_foreign(arg) for arg in (*args, *nested)) and all(_is_given(arg) for arg in args)


def _is_foreign(value: Any) -> bool:
    return isinstance(value, Made) and not (value.name in _STANDARD or value.name in _FUNCTIONS)


def _is_given(arg: Any) -> bool:
    """Allowed as an argument of a function that assembles data: nothing callable except a class of data."""
    stack, seen = [arg], set[int]()
    while stack:
        value = stack.pop()
        if isinstance(value, Name):
            last = value.full.rpartition(".")[2]
            is_known = value.full in _STANDARD or value.full in _FUNCTIONS
            if value.full in _CALLED or not (is_known or value.full.startswith("torch.") or _CLASS.fullmatch(last)):
                return False
            if _DOING.fullmatch(last):
                return False
        elif isinstance(value, Made):
            if value.name in ("builtins.getattr", "functools.partial", ""):
                return False
        elif isinstance(value, (list, tuple, set, frozenset, dict)) and id(value) not in seen:
            seen.add(id(value))
            stack.extend(value)
            if isinstance(value, dict):
                stack.extend(value.values())
    return True


def _is_member(full: str, args: Sequence[Any]) -> bool:
    """A third-party class, called as Enum and the containers are: with nothing, or with one plain value."""
    last = full.rpartition(".")[2]
    if not _CLASS.fullmatch(last) or _DOING.fullmatch(last):
        return False
    if not args:
        return True
    value = args[0]
    if isinstance(value, str):
        return len(args) == 1 and _WORD.fullmatch(value) is not None
    return len(args) == 1 and isinstance(value, (int, float, bool, type(None)))


def _is_class(what: Any) -> bool:
    """A class of data, by name, and not a function posing as one."""
    if not isinstance(what, Name) or what.full in _CALLED or not _may_be_named(what.full):
        return False
    last = what.full.rpartition(".")[2]
    return not _DOING.fullmatch(last) and (what.full in _STANDARD or _CLASS.fullmatch(last) is not None)


def _of_class(args: Sequence[Any]) -> bool:
    """copyreg.__newobj__ and its like: the class, then what its __new__ gets."""
    return bool(args) and _is_class(args[0]) and all(_is_given(arg) for arg in args[1:])


def _rebuilt(args: Sequence[Any]) -> bool:
    """copyreg._reconstructor(class, base, state): calls the base's __new__ and, unless it is object, its __init__."""
    bases = ("builtins." + name for name in ("object", "dict", "list", "tuple", "set", "int", "float", "str", "bytes"))
    is_base = len(args) == 3 and isinstance(args[1], Name) and args[1].full in bases
    return is_base and _is_class(args[0]) and _is_given(args[2])


def _member(args: Sequence[Any]) -> bool:
    """getattr(class, name), as used for Enum in some Pythons: fetched as data; calling it is another call."""
    is_name = len(args) == 2 and type(args[1]) is str and _MEMBER.fullmatch(args[1]) is not None
    return is_name and _is_class(args[0]) and not args[0].full.startswith("builtins.")


def _type(args: Sequence[Any]) -> bool:
    return len(args) == 1 and (args[0] is None or (isinstance(args[0], Name) and args[0].full[9:] in _TYPES))


def _partial(args: Sequence[Any]) -> bool:
    """functools.partial calls nothing before it is called itself."""
    return bool(args) and isinstance(args[0], Name) and all(_is_given(arg) for arg in args[1:])


def _encoded(args: Sequence[Any]) -> bool:
    codecs = ("latin1", "latin-1", "utf-8", "utf8", "ascii")
    return bool(args) and isinstance(args[0], str) and all(arg in codecs for arg in args[1:])


def _from_type(args: Sequence[Any]) -> bool:
    """torch._tensor._rebuild_from_type_v2(function, class, arguments, state): calls the function."""
    if len(args) != 4 or not isinstance(args[2], tuple) or not isinstance(args[1], Name):
        return False
    is_state = _is_data(Call("state", Made("", ()), (args[3],)))
    return is_state and (_is_class(args[1])) and _is_data(Call("call", args[0], args[2]))


def _texts(args: Sequence[Any]) -> bool:
    return all(isinstance(arg, (str, int)) for arg in args)


def _generator(args: Sequence[Any]) -> bool:
    """numpy's own constructors: a bit generator, built or by name, and numpy's function that makes one."""
    allowed = ("numpy.random._pickle.__bit_generator_ctor", "numpy.random._pickle.__generator_ctor")
    for arg in args:
        if isinstance(arg, Name) and not (arg.full in allowed or arg.full.startswith("numpy.random._")):
            return False
        if not isinstance(arg, (str, Name)) and not (isinstance(arg, Made) and arg.name.startswith("numpy.random.")):
            return False
    return True


# Allowed in one form only.
_CALLED: dict[str, Callable[[Sequence[Any]], bool]] = {
    "copyreg.__newobj__": _of_class,
    "copyreg.__newobj_ex__": _of_class,
    "copyreg._reconstructor": _rebuilt,
    "builtins.getattr": _member,
    "builtins.type": _type,
    "functools.partial": _partial,
    "_codecs.encode": _encoded,
    "torch._tensor._rebuild_from_type_v2": _from_type,
    "logging.getLogger": _texts,
    "re._compile": _texts,
    "numpy.random._pickle.__randomstate_ctor": _generator,
    "numpy.random._pickle.__generator_ctor": _generator,
    "numpy.random._pickle.__bit_generator_ctor": _generator,
}


def _words(call: Call) -> str:
    if call.how in ("extension", "persistent"):
        return {"extension": "a code of the extension registry", "persistent": "a persistent id"}[call.how]
    what = call.what
    if isinstance(what, Name):
        return _shown(what.full) if call.how != "state" else f"{_shown(what.full)} (its attributes are replaced)"
    if call.how == "state":
        return "a method that is set on an object"
    return f"what {_shown(what.name)} gives" if isinstance(what, Made) and what.name else "something that it makes"


def _shown(name: str) -> str:
    return name[:80].encode("utf-8", "backslashreplace").decode()


__all__ = ["METHODS", "classes", "remark", "unsafe"]
