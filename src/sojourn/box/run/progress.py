"""progress/N.json as the training process writes it: read when it changed, never trusted to be well formed."""

from __future__ import annotations

import os

from sojourn.wire import lean_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Tuple

    from sojourn.box.run.log_progress import LogProgress

_LIMIT_BYTES = 64 << 10
_PARTS = 1000  # more lists and objects than that is no progress; it also bounds how deep they can lie in each other
_TOLD_BYTES = 4096  # what is larger is told without its metrics: it would come with every beat


class Progress:
    """The last readable state of one progress file; of the `log`, as long as there is no such file."""

    def __init__(self, path: str, log: LogProgress | None = None) -> None:
        self.path = path
        self._log = log
        self.value: Dict[str, Any] | None = None
        self._mark: Tuple[int, ...] = ()

    def look(self) -> bool:
        """Read it where it changed; True where `value` is new."""
        try:
            with open(self.path, "rb", buffering=0) as f:
                s = os.fstat(f.fileno())
                mark = (s.st_mtime_ns, s.st_ino, s.st_size)
                if mark == self._mark:
                    return False
                self._mark = mark
                data = f.read(_LIMIT_BYTES + 1)
        except OSError:
            return self._look_at_log()
        value = parse(data)
        if value is None or value == self.value:
            return False
        self.value = value
        return True

    def _look_at_log(self) -> bool:
        if self._log is None or not self._log.look():
            return False
        self.value = self._log.value
        return True

    def told(self) -> Dict[str, Any] | None:
        """What a beat says of it."""
        if self.value is None or not self._mark or self._mark[2] <= _TOLD_BYTES:
            return self.value
        return {name: self.value.get(name) for name in ("step", "total", "epoch", "at", "checkpoint")}

    @property
    def step(self) -> int | None:
        """The step it tells, or None."""
        step = (self.value or {}).get("step")
        return step if isinstance(step, int) and not isinstance(step, bool) else None

    @property
    def checkpoint(self) -> Dict[str, Any] | None:
        """{"path","step","bytes"} of the newest checkpoint it tells, "write_s" where that was measured; or None."""
        found = (self.value or {}).get("checkpoint")
        if not isinstance(found, dict) or not isinstance(found.get("path"), str):
            return None
        told = {name: found.get(name) for name in ("path", "step", "bytes")}
        return dict(told, write_s=found["write_s"]) if "write_s" in found else told


def parse(data: bytes) -> Dict[str, Any] | None:
    """A progress document, or None for what is none (torn, huge, not an object). Not-a-number becomes its name."""
    if len(data) > _LIMIT_BYTES or data.count(b"[") + data.count(b"{") > _PARTS:
        return None
    try:
        value = lean_json.loads(data.decode("utf-8"), parse_constant=str, parse_float=_float)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _float(text: str) -> Any:
    value = float(text)
    return value if abs(value) != float("inf") else text  # 1e999 is valid JSON that JSON cannot say again
