"""Pickles that name more than weights need: their content is read without building any of their classes.

The decoder for `torch_zip` and `torch_legacy`, and facts about numpy arrays in such a tree.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from sojourn.backends.proof import pickle_calls
from sojourn.formats.damage import Unloadable
from sojourn.formats.torch import pickle_walk
from sojourn.formats.torch import unpickle as torch_unpickle
from sojourn.formats.torch.values import Made, Storage

_ARRAYS = frozenset(
    f"numpy.{core}.{name}" for core in ("core", "_core") for name in ("multiarray._reconstruct", "multiarray.scalar")
)
_DTYPE = "numpy.dtype"
_INNER = re.compile(r"(?:^|\b)(?:state\.\d+|_modules|_parameters)\.")


class Read(torch_unpickle.Pickled):
    """A dissected pickle; `unsafe` lists calls on loading that do more than make data."""

    def __init__(self, found: pickle_walk.Walked, remarks: tuple[str, ...] = ()) -> None:
        super().__init__(found.tree, found.globals)
        self.beside, self.end = found.beside, found.end
        self.classes = pickle_calls.classes(found.globals)
        self._calls = pickle_calls.unsafe(found.calls, found.globals)
        self.remarks = remarks if self._calls else (*remarks, *_remark(self.classes))

    @property
    def unsafe(self) -> list[str]:
        """In words, the worst first."""
        return self._calls


def _remark(classes: list[str]) -> tuple[str, ...]:
    return (pickle_calls.remark(classes),) if classes else ("content known, nothing of it built",)


def loads(data: bytes, storage: Callable[[str, str, int], Storage]) -> torch_unpickle.Pickled:
    """`torch_unpickle.loads`; if that refuses more than PyTorch loads weights only, the content itself.

    Raises: ValueError.
    """
    try:
        found = torch_unpickle.loads(data, storage)
        if not found.unsafe:
            return found
        del found
    except ValueError:
        pass
    protocol = data[1] if data[:1] == b"\x80" and len(data) > 1 else 0
    told = (f"a pickle of protocol {protocol}, which PyTorch cannot read weights-only",) if protocol != 2 else ()
    return Read(pickle_walk.walk(data, storage), told)


def more(data: bytes, at: int, storage: Any) -> tuple[torch_unpickle.Pickled, int] | None:
    """The pickle at byte `at`, and its end; None if it is not one. For `torch_legacy.read`."""
    try:
        found = Read(pickle_walk.walk(data, storage, at))
    except ValueError:
        return None
    return found, found.end


def plain(name: str) -> str:
    """A tensor's path as the program knows it: without the parts that only pickling adds."""
    return _INNER.sub("", name) if "state." in name else name


def check(tree: Any) -> list[str]:
    """Check numpy arrays in the tree; the paths of those with NaN or infinity.

    Raises: Unloadable("corrupt") if an array's bytes do not match its shape and type.
    """
    bad = []
    for path, made in _made(tree):
        if made.name not in _ARRAYS:
            continue
        shape, dtype, raw = _parts(made)
        if dtype is None or not isinstance(raw, bytes):
            continue
        if len(raw) != math.prod(shape) * dtype.itemsize:
            raise Unloadable("corrupt", f"{path[:80]}: an array of {shape} has {len(raw)} bytes")
        if _is_odd(raw, dtype):
            bad.append(path[:80] or "the array")
    return bad


def _is_odd(raw: bytes, dtype: Any) -> bool:
    from sojourn.backends.proof import content

    seen = content.scan(dtype, [raw])
    return bool(seen.nan or (seen.infinite and seen.elements > 1))


def _parts(made: Made) -> tuple[tuple[int, ...], Any, Any]:
    """(shape, numpy's dtype or None, the bytes) of an array or scalar."""
    if made.name.endswith(".scalar"):
        return (), _dtype(made.args[0]) if made.args else None, made.args[1] if len(made.args) > 1 else None
    state = made.state[-1] if made.state else None
    if not isinstance(state, tuple) or len(state) != 5:
        return (), None, None
    _, shape, dtype, _, raw = state
    if not isinstance(shape, tuple) or not all(type(n) is int and n >= 0 for n in shape):
        raise Unloadable("corrupt", "an array whose shape is no list of whole numbers")
    return shape, _dtype(dtype), raw


def _dtype(value: Any) -> Any:
    """numpy's dtype for a plain number; None for anything else."""
    import numpy as np

    if not isinstance(value, Made) or value.name != _DTYPE or not value.args or type(value.args[0]) is not str:
        return None
    state = value.state[-1] if value.state else None
    is_big = isinstance(state, tuple) and state[1:2] == (">",)
    try:
        found = np.dtype(value.args[0])
    except (TypeError, ValueError):
        return None
    return found.newbyteorder(">" if is_big else "<") if found.kind in "biufc" else None


def _made(tree: Any) -> Iterator[tuple[str, Made]]:
    """(path, node) of everything in the tree that would have been built; repeated ones once."""
    seen: set[int] = set()
    stack: list[tuple[str, Any]] = [("", tree)]
    while stack:
        path, value = stack.pop()
        children: Any = ()
        if isinstance(value, Made):
            yield path, value
            children = (*enumerate(value.args), ("state", value.state))
        elif isinstance(value, dict):
            children = value.items()
        elif isinstance(value, (list, tuple, set, frozenset)):
            children = enumerate(value)
        if children and id(value) not in seen:
            seen.add(id(value))
            stack += [
                ((f"{path}.{str(key)[:40]}" if path else str(key)[:40])[:120], child)
                for key, child in children
                if isinstance(child, (Made, dict, list, tuple, set, frozenset))
            ]


__all__ = ["Read", "check", "loads", "more", "plain"]
