"""The progress of a training, for observers: one small JSON file, replaced about once a second."""

from __future__ import annotations

import atexit
import math
import os
import time
from typing import Any, Dict, List, Mapping, Tuple

from sojourn.wire import atomic, units
from sojourn.wire.errors import Misuse

EVERY_S = 1.0
MOST_SAVED = 16


class NoNumber(Misuse):
    """The metric {name} is not a number: {value}"""

    code = "no-number"


class Progress:
    """Writes {"step","total","epoch","metrics","at","checkpoint","saved"} to `path`; nothing if `path` is "".

    `total` is null while unknown; a metric that is not finite is null. Never durable, never an error: a full disk must
    not end a training for a progress bar. Values held back are written when the process exits.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._next_s = 0.0
        self._saved: List[Any] = []  # the last few checkpoints, for an observer who looks only now and then

    def write(
        self, step: int, total: int | None, epoch: int, metrics: Mapping[str, Any], checkpoint: Any, force: bool = False
    ) -> None:
        """Write, unless the last write is younger than a second and not `force`. Raises: NoNumber."""
        now_s = time.monotonic()
        if not self.path:
            return
        if checkpoint:
            others = [
                one for one in self._saved if (one["path"], one["step"]) != (checkpoint["path"], checkpoint["step"])
            ]
            self._saved = [*others, checkpoint][-MOST_SAVED:]
        if now_s < self._next_s and not force:
            _held[self.path] = (os.getpid(), self, (step, total, epoch, metrics, checkpoint))
            return
        _held.pop(self.path, None)
        self._next_s = now_s + EVERY_S
        document = {"step": step, "total": total, "epoch": epoch, "metrics": finite(metrics), "checkpoint": checkpoint}
        document.update(at=units.stamp(time.time()), saved=self._saved)
        try:
            atomic.write_json(self.path, document, durable=False)
        except OSError:
            self._next_s = now_s + 30 * EVERY_S


_held: Dict[str, Tuple[int, Progress, Tuple[int, int | None, int, Mapping[str, Any], Any]]] = {}


@atexit.register
def write_held() -> None:
    """Write what `write` held back, when its process exits; a forked child writes nothing."""
    for pid, progress, told in list(_held.values()):
        if pid == os.getpid():
            try:
                progress.write(*told, force=True)
            except (NoNumber, RuntimeError):  # a lost device has no last loss
                continue


def light(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics without attached graphs: a loss that was never detached would keep its whole graph alive."""
    return {name: value.detach() if hasattr(value, "detach") else value for name, value in metrics.items()}


def numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The metrics as plain numbers; reading a tensor on a GPU waits for it. Raises: NoNumber."""
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
    """`numbers` for JSON, which has neither NaN nor infinity: null. Raises: NoNumber."""
    return {name: value if math.isfinite(value) else None for name, value in numbers(metrics).items()}
