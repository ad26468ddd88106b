"""The committed checkpoints of a run, newest first. Their names are `sojourn.train.saving.commit`'s, which see."""

from __future__ import annotations

import os

from sojourn.wire import saved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Tuple

_SEAL = "sojourn-seal.json"


def rank(name: str) -> Tuple[int, int, int]:
    """(token, step, count) from a checkpoint's name: the highest is the newest. (0, 0, 0) for any other name."""
    return saved.order(name) if saved.NAME.fullmatch(name) else (0, 0, 0)


def committed(folder: str) -> List[str]:
    """Names of the completely published checkpoints in `folder`, newest first: files, and folders with a seal."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    ranked = sorted(((rank(name), name) for name in names), reverse=True)
    return [name for order, name in ranked if any(order) and _is_whole(os.path.join(folder, name))]


def files_of(folder: str, name: str) -> List[str]:
    """Paths below `folder` of all files of one checkpoint. Raises: OSError."""
    top = os.path.join(folder, name)
    if not os.path.isdir(top):
        return [name]

    def fail(error: OSError) -> None:
        raise error

    found = []
    for at, _, files in os.walk(top, onerror=fail):
        found += [os.path.relpath(os.path.join(at, one), folder) for one in files]
    return sorted(found)


def _is_whole(path: str) -> bool:
    if os.path.islink(path):
        return False
    return os.path.isfile(os.path.join(path, _SEAL)) if os.path.isdir(path) else os.path.isfile(path)
