"""What saves that were killed leave: `.saving-*` folders of `protect: saves`, and torn files that the keeper set aside.

Nobody's results, so never an output. A `.saving-*` is removed once no process can be writing there; its name says whose
it is (see train/hook/sitecustomize.py, which imports nothing of ours), and any other that begins so is the user's.
"""

from __future__ import annotations

import os
import re

from sojourn.box.run import saved_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List

_NAME = re.compile(r"\.saving-[0-9]+-[0-9]+-[0-9]+-[0-9a-f]{8}-[0-9a-f]{8}")  # token, pid, start, machine, random


def is_left(folder: str, path: str) -> bool:
    """Whether the file `path` in `folder` is half a save: in a `.saving-*`, or a `.torn-*` that is not whole."""
    if os.path.basename(path).startswith(saved_files.TORN):
        return not saved_files.is_whole(os.path.join(folder, path))
    return is_inside(path)


def is_inside(path: str) -> bool:
    """Whether a path is such a folder, or in one."""
    return ".saving-" in path and any(_NAME.fullmatch(part) for part in path.split("/"))


def remove(top: str) -> List[str]:
    """Remove every one in `top`, where no process may be saving any more; their paths, sorted. Links are not followed.
    Raises: nothing; what cannot be removed stays, and is no output either.
    """
    found = []
    for at, folders, _ in os.walk(top):
        for name in [name for name in folders if _NAME.fullmatch(name)]:
            folders.remove(name)
            found.append(os.path.join(at, name))
    return sorted(path for path in found if _removed(path))


def _removed(folder: str) -> bool:
    try:
        for name in () if os.path.islink(folder) else os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        os.rmdir(folder)
    except OSError:
        return False
    return True
