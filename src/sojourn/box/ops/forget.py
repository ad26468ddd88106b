"""Secrets of finished runs, removed when their lease is released; the keeper does it by itself if it can."""

from __future__ import annotations

import fcntl
import os

from sojourn.box.call import Box
from sojourn.box.run import locks, secrets
from sojourn.box.run.root import Root
from sojourn.box.run.want import find_root, last_attempt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List


def forget_secrets(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    """`runs`: ids. Answer: `gone` (no secrets of it are here any more), `kept` (part of it lives): ids each."""
    gone: List[str] = []
    kept: List[str] = []
    for run in request["runs"]:
        root = find_root(box, str(run), must_exist=False)
        (gone if not secrets.exist(root) or _drop(root) else kept).append(root.id)
    return {"gone": gone, "kept": kept}


def _drop(root: Root) -> bool:
    lock = os.open(root.keeper_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False  # a keeper is in charge, and removes them after the run
    else:
        if locks.is_held(root):
            return False
        secrets.drop(root, last_attempt(root))
        return not secrets.exist(root)
    finally:
        os.close(lock)
