"""The outer world, one folder per port; a backend is one file in it, found by scanning the folder.

Imports: wire core store box train
Outside: numpy, safetensors, torch (loaders, when used)
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from importlib.metadata import entry_points
from typing import Any

from sojourn.wire.errors import Defect


@functools.cache
def names(port: str) -> tuple[str, ...]:
    """The backends of a port, sorted: files of its folder, then what other packages declare as `sojourn.<port>`."""
    folder = importlib.import_module(f"sojourn.backends.{port}")
    ours = [found.name for found in pkgutil.iter_modules(folder.__path__) if not found.name.startswith("_")]
    theirs = [found.name for found in entry_points(group=f"sojourn.{port}")]
    return tuple(sorted({*ours, *theirs}))


@functools.cache
def get(port: str, name: str) -> Any:
    """The class `Backend` of one backend; only its module is imported. Ours win over others of the same name.

    Raises: Defect where there is none of that name.
    """
    if name not in names(port):
        raise Defect(detail=f"no {port} named {name}; there are: {', '.join(names(port))}")
    folder = importlib.import_module(f"sojourn.backends.{port}")
    if any(found.name == name for found in pkgutil.iter_modules(folder.__path__)):
        return importlib.import_module(f"sojourn.backends.{port}.{name}").Backend
    (declared,) = [found for found in entry_points(group=f"sojourn.{port}") if found.name == name][:1]
    return declared.load()
