"""Working folders for tests."""

from __future__ import annotations

from pathlib import Path

from sojourn.store.snapshot import Snapshot


def fill(root: Path, **files: str) -> None:
    for name, text in files.items():
        write(root, name.replace("__", "/").replace("_py", ".py"), text)


def write(root: Path, name: str, text: str = "") -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def paths(snapshot: Snapshot) -> list[str]:
    return [row["path"] for row in snapshot.rows]
