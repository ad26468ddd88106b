"""What is made of data once and then only read: kept beside the data, as Python keeps byte code, else in our cache."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sojourn.store import places
from sojourn.wire import atomic, names
from sojourn.wire.errors import Misuse

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DATA = os.path.join(PACKAGE, "data")


def compiled(name: str, sources: Sequence[str], build: Callable[[], Any]) -> Any:
    """The JSON value of `build()`, as it was kept since the last change of a source: a file, or a folder's files.

    Kept nowhere where nothing can be written.   Raises: what `build` raises, OSError where a source is not there.
    """
    key = names.digest(sorted(_identity(path) for source in sources for path in _files(source)))
    file = f"{name}.{key[:20]}.json"
    for folder in _folders():
        with contextlib.suppress(OSError, ValueError), open(os.path.join(folder, file), "rb") as kept:
            return json.load(kept)
    value = build()
    for folder in _folders():
        with contextlib.suppress(OSError):
            os.makedirs(folder, exist_ok=True)
            atomic.write_json(os.path.join(folder, file), value, durable=False)
            _tidy(folder, name, file)
            break
    return json.loads(json.dumps(value))


def _folders() -> Iterator[str]:
    yield os.path.join(DATA, "__pycache__")
    with contextlib.suppress(Misuse):  # no home
        yield places.cache_dir()


def _files(source: str) -> Iterator[str]:
    if not os.path.isdir(source):
        yield source
        return
    with os.scandir(source) as entries:
        yield from (entry.path for entry in entries if entry.name.endswith(".toml"))


def _identity(path: str) -> tuple[str, int, int]:
    seen = os.stat(path)
    return path, seen.st_size, seen.st_mtime_ns


def _tidy(folder: str, name: str, but: str) -> None:
    """What an older version of the data was made into."""
    for old in os.listdir(folder):
        if old.startswith(f"{name}.") and old.endswith(".json") and old != but:
            os.unlink(os.path.join(folder, old))
