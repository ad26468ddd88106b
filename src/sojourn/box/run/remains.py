"""What an ended run left: outputs, checkpoints, and files that look like checkpoints. Nothing is changed."""

from __future__ import annotations

import os
import time

from sojourn.box.run import roster, saved_files, shelved, unnamed
from sojourn.box.run.root import Root, attempts_made, read_spec
from sojourn.wire import units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Set, Tuple

MOST = 20  # paths listed


def remains(root: Root, attempt: int) -> List[str]:
    """Paths below the root of what the run made, sorted, at most MOST of them; [] if it left nothing.

    An output counts under every attempt, whether or not it can be brought home, unless unchanged since the push; so
    does a checkpoint, committed or not, and any file that looks like one in a working copy or persisted folder. Reads
    the files whose outputs are not sealed yet.   Raises: ValueError (no readable run.json), OSError.
    """
    spec = read_spec(root)
    pushed = unnamed.pushed(root, spec)
    taken = roster.take_manifest(root, spec, attempt, units.stamp(time.time()), roster.hashed_before(root))
    found: Set[str] = {row["path"] for row in taken.get("refused", ())} | {row["path"] for row in taken["gone"]}
    for row in [*taken["files"], *taken["earlier"]]:
        if row["role"] != "log" and (row["bytes"], row["sha256"]) != pushed.get(row["path"]):
            found.add(row["from"])
    found.update(os.path.join("checkpoints", name) for name in shelved.committed(root.checkpoints))
    folders = [root.attempt(number) for number in attempts_made(root)] + [root.persist, root.checkpoints]
    for folder in folders:
        found.update(os.path.relpath(path, root.path) for path in _saved(folder, pushed))
    return sorted(found)[:MOST]


def _saved(folder: str, pushed: Dict[str, Tuple[int, str]]) -> List[str]:
    """Files and folders in `folder` that look like checkpoints and changed since the push."""
    found = []
    for one in saved_files.find(folder):
        full = os.path.join(folder, one.path)
        if one.is_folder or not unnamed.is_unchanged(full, pushed.get(one.path)):
            found.append(full)
    return found
