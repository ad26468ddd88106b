"""What goes to the box, packed under names derived from the content: the keeper and the training side.

The same bytes on every machine with the same zlib: sorted names, one fixed time. Packed once, and kept by `compiled`.
Runs on Python 3.8 too, as do its tests.
"""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from collections.abc import Iterator

from sojourn.store import compiled

_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip can express
_TRAINS = {f"sojourn/formats/{name}.py" for name in ("__init__", "crc", "damage")}
_DOOR, _MAIN = "sojourn/__init__.py", "sojourn/box/__main__.py"
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def keeper_bytes() -> tuple[str, bytes]:
    """("keeper-<sha256>.pyz", its bytes): `box` and `wire` with `box/__main__.py` on top. Raises: OSError."""
    paths = [*_room("box"), *_room("wire"), _DOOR]
    return _packed("keeper", "pyz", {"__main__.py" if path == _MAIN else path: _there(path) for path in paths})


def train_bytes() -> tuple[str, bytes]:
    """("train-<sha256>.zip", its bytes): `train`, `wire` and the parts of `formats` that `train` needs, importable
    straight from the zip. Raises: OSError.
    """
    formats = [path for path in _room("formats") if path in _TRAINS or "/torch/" in path]
    paths = [*_room("train"), *_room("wire"), *formats, _DOOR]
    return _packed("train", "zip", {path: _there(path) for path in paths})


def _packed(name: str, suffix: str, files: dict[str, str]) -> tuple[str, bytes]:
    """`files`: path in the pack -> path of the file."""

    def build() -> bytes:
        data = _zip({path: _read(there) for path, there in files.items()})
        return hashlib.sha256(data).hexdigest().encode() + data

    def read(kept: bytes) -> tuple[str, bytes]:
        digest, data = kept[:64].decode("ascii", "replace"), kept[64:]
        if hashlib.sha256(data).hexdigest() != digest:
            raise ValueError("not as it was written")
        return "%s-%s.%s" % (name, digest, suffix), data

    return compiled.kept("%s.pack" % name, files.values(), build, read)


def _room(room: str) -> Iterator[str]:
    """The paths of a room's files, as in the pack."""
    for folder, _, names in os.walk(os.path.join(_PACKAGE, room)):
        below = os.path.relpath(folder, os.path.dirname(_PACKAGE)).replace(os.sep, "/")
        yield from ("%s/%s" % (below, name) for name in names if name.endswith(".py"))


def _there(path: str) -> str:
    return os.path.join(os.path.dirname(_PACKAGE), path)


def _read(path: str) -> bytes:
    with open(path, "rb") as f:
        return f.read()


def _zip(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as pack:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _TIME)
            entry.create_system = 3
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            pack.writestr(entry, files[name])
    return out.getvalue()
