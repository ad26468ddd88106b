"""What goes to the box, packed under names that are its content: the keeper and the training side.

The same bytes wherever it is packed: sorted names, one fixed time, stored. Runs on Python 3.8 too, where its tests run.
"""

from __future__ import annotations

import hashlib
import io
import os
import zipfile

_TIME = (1980, 1, 1, 0, 0, 0)  # the first one a zip can say
_TRAINS = {f"sojourn/formats/{name}.py" for name in ("__init__", "crc", "damage")}
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def keeper_bytes() -> tuple[str, bytes]:
    """("keeper-<sha256>.pyz", its bytes): `box` and `wire` with `box/__main__.py` on top. Raises: OSError."""
    files = {**_room("box"), **_room("wire"), **_door()}
    files["__main__.py"] = files.pop("sojourn/box/__main__.py")
    data = _zip(files)
    return "keeper-%s.pyz" % hashlib.sha256(data).hexdigest(), data


def train_bytes() -> tuple[str, bytes]:
    """("train-<sha256>.zip", its bytes): `train`, `wire` and what `train` needs of `formats`, importable from the zip
    itself. Raises: OSError.
    """
    formats = {path: data for path, data in _room("formats").items() if path in _TRAINS or "/torch/" in path}
    data = _zip({**_room("train"), **_room("wire"), **formats, **_door()})
    return "train-%s.zip" % hashlib.sha256(data).hexdigest(), data


def _door() -> dict[str, bytes]:
    return {"sojourn/__init__.py": _read(os.path.join(_PACKAGE, "__init__.py"))}


def _room(room: str) -> dict[str, bytes]:
    files = {}
    top = os.path.join(_PACKAGE, room)
    for folder, _, names in os.walk(top):
        for name in names:
            if name.endswith(".py"):
                path = os.path.join(folder, name)
                files["sojourn/" + os.path.relpath(path, _PACKAGE).replace(os.sep, "/")] = _read(path)
    return files


def _read(path: str) -> bytes:
    with open(path, "rb") as f:
        return f.read()


def _zip(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as pack:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _TIME)
            entry.create_system = 3
            entry.external_attr = 0o100644 << 16
            pack.writestr(entry, files[name])
    return out.getvalue()
