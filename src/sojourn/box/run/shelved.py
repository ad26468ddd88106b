"""The committed checkpoints of a run, newest first. Their names are `sojourn.train.saving.commit`'s, which see."""

from __future__ import annotations

import errno
import os
import stat

from sojourn.wire import saved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Optional, Tuple

_SEAL = "sojourn-seal.json"


def rank(name: str) -> Tuple[int, int, int]:
    """(token, step, count) from a checkpoint's name: the highest is the newest. (0, 0, 0) for any other name."""
    return saved.order(name) if saved.NAME.fullmatch(name) else (0, 0, 0)


def committed(folder: str, unseen: Optional[Dict[str, str]] = None) -> List[str]:
    """Names of the completely published checkpoints in `folder`, newest first: files, and folders with a seal.

    `unseen` gets what cannot be looked into, by its name ("" for `folder` itself), with the reason.
    """
    unseen = {} if unseen is None else unseen
    try:
        names = os.listdir(folder)
    except OSError as error:
        _missed(unseen, "", error)
        return []
    ranked = sorted(((rank(name), name) for name in names), reverse=True)
    return [name for order, name in ranked if any(order) and _is_whole(folder, name, unseen)]


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


def _is_whole(folder: str, name: str, unseen: Dict[str, str]) -> bool:
    path = os.path.join(folder, name)
    if os.path.islink(path):
        return False
    try:
        return stat.S_ISREG(os.stat(os.path.join(path, _SEAL) if os.path.isdir(path) else path).st_mode)
    except OSError as error:
        _missed(unseen, name, error)
        return False


def _missed(unseen: Dict[str, str], name: str, error: OSError) -> None:
    if error.errno not in (errno.ENOENT, errno.ENOTDIR):
        unseen[name] = error.strerror or str(error)
