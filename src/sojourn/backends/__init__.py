"""The outer world, one folder per port; a backend is one file in it, found by scanning the folder.

Imports: wire formats core store box train
Outside: numpy, safetensors, torch, pyarrow, PIL, apprise, yaml, urllib3, keyring, lightkube, httpx2, httpcore2, wsproto
"""

from __future__ import annotations

import functools
import importlib
import os
from typing import Any

from sojourn.wire.errors import Misuse
from sojourn.wire.names import nearest

PORTS = ("transport", "launcher", "provider", "loader")


class NoBackend(Misuse):
    """There is no {port} named {name!r}{hint}."""

    code = "no-backend"


def names(port: str) -> tuple[str, ...]:
    """Names of all backends of a port, sorted: the files in its folder, then entry points of `sojourn.<port>`.

    A file whose name begins with `_` is none. Loads no backend. Raises: NoBackend for a port that is none.
    """
    return tuple(sorted({*_ours(port), *(entry.name for entry in _entries(port))}))


def has(port: str, name: str) -> bool:
    """Whether there is a backend of that name; cheap for ours, which are most. Raises: NoBackend for no port."""
    return name in _ours(port) or any(entry.name == name for entry in _entries(port))


def get(port: str, name: str) -> type[Any]:
    """The class `Backend` of one. Ours wins over an entry point of the same name. Raises: NoBackend, ImportError."""
    if name in _ours(port):
        backend: type[Any] = importlib.import_module(f"{__name__}.{port}.{name}").Backend
        return backend
    for entry in _entries(port):
        if entry.name == name:
            found: type[Any] = entry.load()
            return found
    near = nearest(name, names(port))
    raise NoBackend(port=port, name=name, hint=f" (nearest: {near})" if near else "")


def folders(port: str) -> tuple[str, ...]:
    """Where the packages lie that bring backends of a port by entry points."""
    return tuple(dict.fromkeys(str(entry.dist.locate_file("")) for entry in _entries(port)))


@functools.cache
def _ours(port: str) -> frozenset[str]:
    if port not in PORTS:
        raise NoBackend(port="port", name=port, hint=f" (ports are {', '.join(PORTS)})")
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), port)
    return frozenset(name[:-3] for name in os.listdir(folder) if name.endswith(".py") and not name.startswith("_"))


@functools.cache
def _entries(port: str) -> tuple[Any, ...]:
    from importlib.metadata import entry_points  # slow: it reads what every installed package declares

    return tuple(entry_points(group=f"sojourn.{port}"))
