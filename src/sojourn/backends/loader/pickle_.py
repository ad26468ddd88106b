"""Proves pickles that hold plain values alone: lists, maps, numbers, texts. One that names anything else cannot be
judged safely, since reading it would run what it says: that is `unsafe`, and it is never read.
"""

from __future__ import annotations

import io
import os
import pickle
from typing import Any, ClassVar

from sojourn.core.ports import Loaded
from sojourn.wire.damage import Unloadable

_LIMIT_BYTES = 64 << 20
# Nothing of these does anything but make a value.
_SAFE = frozenset(
    ["collections.OrderedDict", "builtins.set", "builtins.frozenset", "builtins.complex", "builtins.bytearray"]
    + ["__builtin__.set", "__builtin__.frozenset", "__builtin__.complex", "__builtin__.bytearray", "_codecs.encode"]
)
_NAMED = 5


class Backend:
    """Loads one .pkl or .pickle file."""

    kind: ClassVar[str] = "pickle"
    suffixes: ClassVar[tuple[str, ...]] = (".pkl", ".pickle", ".joblib")
    magic: ClassVar[tuple[bytes, ...]] = ()

    def owns(self, path: str, head: bytes) -> bool:
        """Many things begin as a pickle does: only the name says that it is one."""
        return False

    def load(self, path: str) -> Loaded:
        """Take it apart, then read it with all but _SAFE refused. Raises: Unloadable, OSError."""
        from sojourn.backends.client import content, pickles

        if os.path.getsize(path) > _LIMIT_BYTES:
            raise Unloadable("unsafe", f"a pickle of more than {_LIMIT_BYTES >> 20} MiB cannot be judged safely")
        with open(path, "rb") as f:
            data = f.read()
        found = pickles.take_apart(data)
        foreign = [name for name in found.names if name not in _SAFE]
        if foreign:
            text = ", ".join(foreign[:_NAMED])[:300]
            raise Unloadable("unsafe", f"a pickle that cannot be judged safely: reading it would call {text}")
        if found.error:
            is_cut = "exhausted" in found.error or "expected" in found.error or "not enough data" in found.error
            raise Unloadable("truncated" if is_cut else "corrupt", f"no whole pickle: {found.error}")
        if found.end < len(data):
            raise Unloadable("corrupt", f"{len(data) - found.end} bytes follow the pickle")
        try:
            value = _Plain(io.BytesIO(data)).load()
        except (pickle.UnpicklingError, ValueError, TypeError, KeyError, IndexError, EOFError, AttributeError) as error:
            raise Unloadable("corrupt", f"it does not load: {str(error)[:200]}") from None
        bad = content.not_finite(value)
        if bad:
            raise Unloadable("non-finite", f"NaN or infinity at {', '.join(bad[:_NAMED])}")
        facts = {"type": type(value).__name__, "count": len(value) if hasattr(value, "__len__") else 1}
        return Loaded(("structure", "load", "content"), {**facts, "by": "sojourn"})


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Only what makes plain values. Raises: UnpicklingError."""
        if f"{module}.{name}" not in _SAFE:
            raise pickle.UnpicklingError(f"it names {module}.{name}")
        return super().find_class(module, name)
