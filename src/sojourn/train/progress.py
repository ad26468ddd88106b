"""How far training is, for whoever watches: one small JSON file, replaced about once a second."""

from __future__ import annotations

import atexit
import math
import os
import time
from typing import Any, Dict, Mapping, Tuple

from sojourn.wire import atomic, units
from sojourn.wire.errors import Misuse

EVERY_S = 1.0


class NoNumber(Misuse):
    """The metric {name} is not a number: {value}"""

    code = "no-number"


class Progress:
    """Writes {"step","total","epoch","metrics","at","checkpoint"} to `path`; nothing where `path` is "".

    `total` is null while unknown; a metric that is not finite is null. Never durable, never an error: a full disk must
    not end a training for the sake of a bar. What was too soon to be written is written when the process exits.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._next_s = 0.0

    def write(
        self, step: int, total: int | None, epoch: int, metrics: Mapping[str, Any], checkpoint: Any, force: bool = False
    ) -> None:
        """Write, unless the latest writing is younger than a second and not `force`. Raises: NoNumber."""
        now_s = time.monotonic()
        if not self.path:
            return
        if now_s < self._next_s and not force:
            _held[self.path] = (os.getpid(), self, (step, total, epoch, metrics, checkpoint))
            return
        _held.pop(self.path, None)
        self._next_s = now_s + EVERY_S
        document = {"step": step, "total": total, "epoch": epoch, "metrics": finite(metrics), "checkpoint": checkpoint}
        document["at"] = units.stamp(time.time())
        try:
            atomic.write_json(self.path, document, durable=False)
        except OSError:
            self._next_s = now_s + 30 * EVERY_S


_held: Dict[str, Tuple[int, Progress, Tuple[int, int | None, int, Mapping[str, Any], Any]]] = {}


@atexit.register
def write_held() -> None:
    """Write what was held back by `write`, at the exit of the process that told it; a child that it forked tells
    nothing.
    """
    for pid, progress, told in list(_held.values()):
        if pid == os.getpid():
            try:
                progress.write(*told, force=True)
            except (NoNumber, RuntimeError):  # a device that is gone has no last loss
                continue


def light(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics without what hangs on them: a loss that was never detached would hold its whole graph."""
    return {name: value.detach() if hasattr(value, "detach") else value for name, value in metrics.items()}


def numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The metrics as plain numbers; asking a tensor on a GPU waits for it. Raises: NoNumber."""
    out = {}
    for name, value in metrics.items():
        try:
            plain = value.item() if hasattr(value, "item") else value
        except (ValueError, RuntimeError, TypeError):
            plain = None  # more than one number
        if not isinstance(plain, (int, float)):
            raise NoNumber(name=name, value=repr(value)[:80])
        out[name] = plain
    return out


def finite(metrics: Mapping[str, Any]) -> dict[str, float | None]:
    """`numbers` for JSON, which has no NaN and no infinity: null. Raises: NoNumber."""
    return {name: value if math.isfinite(value) else None for name, value in numbers(metrics).items()}
