"""Progress from the usual lines of a training log, for scripts that report none: step, total, epoch, metrics.

Bars (tqdm, Keras, Lightning, Ultralytics), the dicts of the Hugging Face Trainer, nanoGPT, "Epoch [3/10]", the lines of
torchvision, timm, MMEngine, Megatron and DeepSpeed, or whatever the job's `progress: {pattern}` matches. The newest
line wins.
"""

from __future__ import annotations

import os
import re
import time

from sojourn.box.run.ledger import complain
from sojourn.box.system import bounded
from sojourn.box.trackers import numbers, plan
from sojourn.box.trackers.reading import Reading
from sojourn.wire import units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Sequence, Tuple

_MOST_BYTES = 64 << 10  # of new text per look: the newest
_LINE_CHARS = 1000
_PATTERN_S = 2.0
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x08")


class LogProgress:
    """The latest values in one attempt's log. `pattern`: the job's own, with groups such as `step`, `total`, `loss`.

    `argv`: the attempt's command, whose flags may say how many epochs or steps it is to make.
    """

    def __init__(self, path: str, pattern: str = "", argv: Sequence[str] = ()) -> None:
        self.path = path
        self.value: Dict[str, Any] | None = None
        self._pattern = _compiled(pattern)
        self._offset = 0
        self._rest = b""
        self._reading = Reading(plan.of_command(argv))

    def look(self) -> bool:
        """Read what is new in the log; True if `value` is new."""
        found: Dict[str, Any] = {}
        lines = self._lines()
        for one in self._by_pattern(lines) if self._pattern else map(self._reading.read, lines):
            metrics = numbers.merged(found.get("metrics") or {}, one.pop("metrics", {}))
            found.update(one, **({"metrics": metrics} if metrics else {}))
        if not found:
            return False
        before = dict(self.value or {})
        before.pop("at", None)
        now = {name: value for name, value in dict(before, **found).items() if value is not None}
        now["metrics"] = numbers.chosen(numbers.merged(before.get("metrics") or {}, found.get("metrics", {})))
        if now == before:
            return False
        self.value = dict(now, at=units.stamp(time.time()), source="log")
        return True

    def head(self) -> List[str]:
        """The lines at the start of the log."""
        try:
            with open(self.path, "rb", buffering=0) as f:
                return _texts(re.split(rb"[\r\n]+", f.read(_MOST_BYTES)))
        except OSError:
            return []

    def step_of(self, line: str) -> int | None:
        """The step that a line reports, given those requested before it."""
        step = self._reading.read(line).get("step")
        return step if isinstance(step, int) else None

    def _lines(self) -> List[str]:
        """The new lines, with each redrawing of a bar as one."""
        try:
            with open(self.path, "rb", buffering=0) as f:
                size = os.fstat(f.fileno()).st_size
                if size < self._offset:
                    self._offset, self._rest = 0, b""  # it was rotated
                if size - self._offset > _MOST_BYTES:
                    self._offset, self._rest = size - _MOST_BYTES, b""
                f.seek(self._offset)
                data = f.read(_MOST_BYTES)
        except OSError:
            return []
        self._offset += len(data)
        *whole, self._rest = re.split(rb"[\r\n]+", self._rest + data)
        self._rest = self._rest[-_LINE_CHARS:]
        # A bar has no line end yet; reading it twice gives the same result.
        return _texts([*whole, self._rest] if data else whole)

    def _by_pattern(self, lines: List[str]) -> List[Dict[str, Any]]:
        """The matches of the job's own pattern, found in a child: a regular expression may run for ever."""
        if not lines:
            return []
        try:
            question = bounded.Question("progress", lambda: [self._own(line) for line in lines], _PATTERN_S)
            answer = bounded.ask([question])["progress"]
        except OSError as error:
            complain("progress.pattern: %s" % error)
            return []
        if answer.why:
            complain("progress.pattern is no longer used: %s" % (answer.detail or answer.why))
            self._pattern = None
            return []
        return answer.value or []

    def _own(self, line: str) -> Dict[str, Any]:
        assert self._pattern is not None
        hit = self._pattern.search(line)
        found: Dict[str, Any] = {}
        for name, text in (hit.groupdict() if hit else {}).items():
            number = numbers.number(text)
            if number is None:
                continue
            if name in ("step", "total", "epoch"):
                found[name] = int(number)
            else:
                found.setdefault("metrics", {})[name] = number
        return found


def first_steps(path: str) -> Tuple[int, ...]:
    """The first two different steps at the head of a log; fewer if it has fewer. Raises: nothing."""
    progress = LogProgress(path)
    found: List[int] = []
    for line in progress.head():
        step = progress.step_of(line)
        if step is not None and step not in found:
            found.append(step)
            if len(found) == 2:
                break
    return tuple(found)


def _compiled(pattern: str) -> Any:
    """None for no pattern, and for one that this box's older Python cannot read: then the usual forms count."""
    try:
        return re.compile(pattern) if pattern else None
    except re.error as error:
        complain("progress.pattern: %s" % error)
        return None


def _texts(parts: List[bytes]) -> List[str]:
    return [_ANSI.sub("", part[:_LINE_CHARS].decode("utf-8", "replace")).rstrip() for part in parts if part]
