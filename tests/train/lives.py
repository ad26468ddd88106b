"""Looking at a folder of checkpoints, and at processes that live or die."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Callable

from sojourn.train import Checkpointer

DEADLINE_S = 60.0


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.pt"))


def is_alive(pid: int) -> bool:
    try:
        return Path("/proc/%d/stat" % pid).read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def until(what: Callable[[], bool], why: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not what():
        assert time.monotonic() < deadline, why
        time.sleep(0.01)


def loaded(folder: Path, size: int = 3 << 20) -> dict[str, Any]:
    """The state that the next start goes on with."""
    state: dict[str, Any] = {"count": 0, "bytes": bytearray(size)}
    Checkpointer(folder=folder, state=state).close()
    return state
