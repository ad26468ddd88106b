"""Built once from our own files, then only read: kept beside the data, as Python keeps byte code, else in our cache.
Runs on Python 3.8 too, where the parcel's tests run.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from sojourn.store import places
from sojourn.wire import atomic, names
from sojourn.wire.errors import Misuse

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DATA = os.path.join(PACKAGE, "data")
T = TypeVar("T")


def compiled(name: str, sources: Sequence[str], build: Callable[[], Any]) -> Any:
    """The JSON value of `build()`, kept since the last change of a source: a file, or a folder's data files.

    Kept only where writing is possible.   Raises: what `build` raises, OSError if a source is missing.
    """
    return kept(f"{name}.json", _files(sources), lambda: json.dumps(build()).encode(), json.loads)


def kept(name: str, files: Iterable[str], build: Callable[[], bytes], read: Callable[[bytes], T]) -> T:
    """What `read` returns for the bytes of `build()`, kept under `name` since the last change of one of the files.

    `read` raises ValueError for altered bytes: they are built again.
    """
    stem, suffix = os.path.splitext(name)
    file = f"{stem}.{names.digest(sorted(map(_identity, files)))[:20]}{suffix}"
    for folder in _folders():
        with contextlib.suppress(OSError, ValueError), open(os.path.join(folder, file), "rb") as there:
            return read(there.read())
    data = build()
    for folder in _folders():
        with contextlib.suppress(OSError):
            os.makedirs(folder, exist_ok=True)
            atomic.write(os.path.join(folder, file), data, durable=False)
            _tidy(folder, stem, suffix, file)
            break
    return read(data)


def _folders() -> Iterator[str]:
    yield os.path.join(DATA, "__pycache__")
    with contextlib.suppress(Misuse):  # no home
        yield places.cache_dir()


def _files(sources: Sequence[str]) -> Iterator[str]:
    for source in sources:
        if not os.path.isdir(source):
            yield source
            continue
        with os.scandir(source) as entries:
            yield from (entry.path for entry in entries if entry.name.endswith(".toml"))


def _identity(path: str) -> tuple[str, int, int]:
    seen = os.stat(path)
    return path, seen.st_size, seen.st_mtime_ns


def _tidy(folder: str, stem: str, suffix: str, but: str) -> None:
    """Remove what was built from older versions of the sources."""
    for old in os.listdir(folder):
        if old.startswith(f"{stem}.") and old.endswith(suffix) and old != but:
            os.unlink(os.path.join(folder, old))
