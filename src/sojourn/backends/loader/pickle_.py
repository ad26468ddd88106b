"""Verifies pickles. One of plain values alone (lists, maps, numbers, texts) is loaded; one that names classes is read
without building anything; one that would call something that does more than make data is `unsafe`.
"""

from __future__ import annotations

import io
import os
import pickle
from typing import Any, ClassVar

from sojourn.core.ports import Loaded, Loader
from sojourn.formats.damage import Unloadable

_LIMIT_BYTES = 64 << 20
# All of these only make a value.
_SAFE = frozenset(
    ["collections.OrderedDict", "builtins.set", "builtins.frozenset", "builtins.complex", "builtins.bytearray"]
    + ["__builtin__.set", "__builtin__.frozenset", "__builtin__.complex", "__builtin__.bytearray", "_codecs.encode"]
)
_NAMED = 5


class Backend(Loader):
    """Loads one .pkl or .pickle file."""

    kind: ClassVar[str] = "pickle"
    suffixes: ClassVar[tuple[str, ...]] = (".pkl", ".pickle", ".joblib")
    magic: ClassVar[tuple[bytes, ...]] = ()

    def owns(self, path: str, head: bytes) -> bool:
        """Many things start like a pickle: only the name identifies one."""
        return False

    def load(self, path: str) -> Loaded:
        """Take it apart; if it names nothing more, load it with all but _SAFE refused. Raises: Unloadable, OSError."""
        from sojourn.backends.proof import content, pickles

        if os.path.getsize(path) > _LIMIT_BYTES:
            raise Unloadable("unsafe", f"a pickle of more than {_LIMIT_BYTES >> 20} MiB cannot be judged safely")
        with open(path, "rb") as f:
            data = f.read()
        found = pickles.take_apart(data)
        if any(name not in _SAFE for name in found.names):
            return _read(data, found)
        _whole(found.error, found.end, data)
        try:
            value = _Plain(io.BytesIO(data)).load()
        except (pickle.UnpicklingError, ValueError, TypeError, KeyError, IndexError, EOFError, AttributeError) as error:
            raise Unloadable("corrupt", f"it does not load: {str(error)[:200]}") from None
        bad = content.not_finite(value)
        if bad:
            raise Unloadable("non-finite", f"NaN or infinity at {', '.join(bad[:_NAMED])}")
        return Loaded(("structure", "load", "content"), {**_facts(value), "by": "sojourn"})


def _read(data: bytes, taken: Any) -> Loaded:
    """The content of a pickle that names classes. Raises: Unloadable."""
    from sojourn.backends.proof import content, objects
    from sojourn.formats.torch import pickle_walk

    try:
        found = objects.Read(pickle_walk.walk(data))
    except ValueError as error:
        # A pickle unreadable because of its names is not called damaged.
        names = ", ".join(name for name in taken.names if name not in _SAFE)[:300]
        why = f"a pickle that cannot be judged safely: it names {names}, and cannot be taken apart: {str(error)[:120]}"
        raise Unloadable("unsafe", why) from None
    if found.unsafe:
        text = ", ".join(found.unsafe[:_NAMED])[:300]
        raise Unloadable("unsafe", f"a pickle that cannot be judged safely: reading it would call {text}")
    _whole("", found.end, data)
    bad = content.not_finite([found.tree, found.beside]) + objects.check([found.tree, found.beside])
    if bad:
        raise Unloadable("non-finite", f"NaN or infinity at {', '.join(bad[:_NAMED])}")
    facts = {**_facts(found.tree), "classes": [name[:200] for name in found.classes[:256]], "by": "sojourn"}
    return Loaded(("structure", "content"), facts, found.remarks)


def _whole(error: str, end: int, data: bytes) -> None:
    """Raises: Unloadable if it is cut off, or more follows."""
    if error:
        is_cut = "exhausted" in error or "expected" in error or "not enough data" in error
        raise Unloadable("truncated" if is_cut else "corrupt", f"not a complete pickle: {error}")
    if end < len(data):
        raise Unloadable("corrupt", f"{len(data) - end} bytes follow the pickle")


def _facts(value: Any) -> dict[str, Any]:
    name = getattr(value, "name", "") if type(value).__name__ == "Made" else type(value).__name__
    return {"type": name[:200], "count": len(value) if hasattr(value, "__len__") else 1}


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Only globals that make plain values. Raises: UnpicklingError."""
        if f"{module}.{name}" not in _SAFE:
            raise pickle.UnpicklingError(f"it names {module}.{name}")
        return super().find_class(module, name)
