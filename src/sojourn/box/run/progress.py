"""progress/N.json, written by the training process: read when changed, never trusted to be well formed."""

from __future__ import annotations

import os

from sojourn.wire import lean_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

    from sojourn.box.run.log_progress import LogProgress
    from sojourn.box.trackers.files import Files

_LIMIT_BYTES = 64 << 10
_PARTS = 1000  # more lists and objects than that are not progress; this also bounds their nesting
MOST_SAVED = 16  # checkpoints between two beats, each an event of its own
_TOLD_BYTES = 4096  # larger ones are reported without metrics: each would go into every beat


class Progress:
    """The last readable state of one progress file or, until it exists, of the `log` and the trackers' `files`."""

    def __init__(self, path: str, log: LogProgress | None = None, files: Files | None = None) -> None:
        self.path = path
        self._log = log
        self._files = files
        self.value: Dict[str, Any] | None = None
        self._mark: Tuple[int, ...] = ()

    def look(self, is_last: bool = False) -> bool:
        """Read it if changed; True if `value` is new. `is_last`: the trackers' files too, due or not."""
        try:
            with open(self.path, "rb", buffering=0) as f:
                s = os.fstat(f.fileno())
                mark = (s.st_mtime_ns, s.st_ino, s.st_size)
                if mark == self._mark:
                    return False
                self._mark = mark
                data = f.read(_LIMIT_BYTES + 1)
        except OSError:
            return self._look_around(is_last)
        value = parse(data)
        if value is None or value == self.value:
            return False
        self.value = value
        return True

    def _look_around(self, is_last: bool) -> bool:
        is_new = self._log is not None and self._log.look()
        if self._files is not None and self._files.look(is_last):
            is_new = True
        if not is_new:
            return False
        from sojourn.box.run.reported import joined  # never loaded in a client's call

        self.value = joined(self._log.value if self._log else None, self._files.value if self._files else None)
        return True

    def told(self) -> Dict[str, Any] | None:
        """What a beat says of it."""
        if self.value is None or not self._mark:
            return self.value
        if self._mark[2] > _TOLD_BYTES:
            return {name: self.value.get(name) for name in ("step", "total", "epoch", "at", "checkpoint")}
        return {name: value for name, value in self.value.items() if name != "saved"}

    @property
    def step(self) -> int | None:
        """The reported step, or None."""
        step = (self.value or {}).get("step")
        return step if isinstance(step, int) and not isinstance(step, bool) else None

    @property
    def checkpoint(self) -> Dict[str, Any] | None:
        """{"path","step","bytes"} of the newest checkpoint reported, "write_s" if that was measured; or None."""
        return _checkpoint((self.value or {}).get("checkpoint"))

    def saved_since(self, last: Tuple[Any, ...]) -> List[Dict[str, Any]]:
        """The checkpoints reported after the one of this path and step, oldest first; the last few of them if there
        were many.
        """
        saved = (self.value or {}).get("saved")
        rows = [_checkpoint(one) for one in (saved if isinstance(saved, list) else [])[-MOST_SAVED:]]
        rows.append(self.checkpoint)
        found: List[Dict[str, Any]] = []
        for row in rows:
            if row is not None and (row["path"], row["step"]) == last:
                found = []
            elif row is not None and row not in found:
                found.append(row)
        return found


def _checkpoint(found: Any) -> Dict[str, Any] | None:
    if not isinstance(found, dict) or not isinstance(found.get("path"), str):
        return None
    told = {name: found.get(name) for name in ("path", "step", "bytes")}
    return dict(told, write_s=found["write_s"]) if "write_s" in found else told


def parse(data: bytes) -> Dict[str, Any] | None:
    """A progress document, or None for anything else (torn, huge, not an object). Not-a-number becomes its name."""
    if len(data) > _LIMIT_BYTES or data.count(b"[") + data.count(b"{") > _PARTS:
        return None
    try:
        value = lean_json.loads(data.decode("utf-8"), parse_constant=str, parse_float=_float)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _float(text: str) -> Any:
    value = float(text)
    return value if abs(value) != float("inf") else text  # 1e999 is valid JSON, but infinity cannot be written as JSON
