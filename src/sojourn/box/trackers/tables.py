"""Tables that grow row by row, and the state that Hugging Face's Trainer leaves beside each checkpoint.

CSV (Lightning's and Keras's CSVLogger, Ultralytics, timm, stable-baselines3) and JSON lines (LLaMA-Factory, detectron2,
MMEngine, DETR). Only the head and the end of each file are read, whatever its size; an incomplete row is left out.
"""

from __future__ import annotations

import re

from sojourn.box.trackers import naming
from sojourn.wire import lean_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO, Dict, List

_HEAD_BYTES = 8 << 10
_TAIL_BYTES = 16 << 10
_ROWS = 64
_STATE_TAIL_BYTES = 32 << 10
_STATE = re.compile(r'"(epoch|global_step|max_steps)": *([0-9.eE+-]+)')
_LOGGED = re.compile(r"\{[^{}]*\}")


class Csv:
    """A table whose first line names its columns."""

    kind = "csv"

    def __init__(self) -> None:
        self.value: Dict[str, Any] = {}

    def read(self, f: BinaryIO, size: int) -> None:
        """The last value of every column. Raises: OSError."""
        head, newline, _ = f.read(_HEAD_BYTES).partition(b"\n")
        text = head.decode("utf-8-sig", "replace")
        mark = max(",;\t", key=text.count)
        names = [name.strip().strip('"') for name in text.split(mark)]
        if not newline or len(names) < 2:
            return
        numbers: Dict[str, float] = {}
        for line in _last_lines(f, size, len(head) + 1):
            cells = line.split(mark)
            if len(cells) != len(names):
                continue
            for name, cell in zip(names, cells):
                number = naming.number(cell.strip().strip('"'))
                if number is not None:
                    numbers[name] = number
        self.value = _told(numbers)


class Lines:
    """JSON objects, one per line."""

    kind = "jsonl"

    def __init__(self) -> None:
        self.value: Dict[str, Any] = {}

    def read(self, f: BinaryIO, size: int) -> None:
        """The last value of every key. Raises: OSError."""
        if f.read(1) != b"{":
            return
        numbers: Dict[str, float] = {}
        for line in _last_lines(f, size, 0):
            try:
                row = lean_json.loads(line)
            except (ValueError, RecursionError):
                continue
            for name, value in row.items() if isinstance(row, dict) else ():
                number = naming.number(value)
                if number is not None:
                    numbers[name] = number
        self.value = _told(numbers)


class TrainerState:
    """trainer_state.json: its keys are sorted, so the place is at its head and the last log entry at its end."""

    kind = "trainer_state"

    def __init__(self) -> None:
        self.value: Dict[str, Any] = {}

    def read(self, f: BinaryIO, size: int) -> None:
        """Step, total, epoch, and the last logged metrics. Raises: OSError."""
        head = f.read(_HEAD_BYTES).decode("utf-8", "replace").partition('"log_history"')[0]
        f.seek(max(0, size - _STATE_TAIL_BYTES))
        tail = f.read(_STATE_TAIL_BYTES).decode("utf-8", "replace")
        log, _, after = tail.rpartition('"logging_steps"')
        numbers = {name: float(text) for name, text in _STATE.findall(head + after) if naming.number(text) is not None}
        logged: Dict[str, float] = {}
        for entry in _LOGGED.findall(log.rpartition('"log_history"')[2])[-_ROWS:]:
            try:
                row = lean_json.loads(entry)
            except (ValueError, RecursionError):
                continue
            logged.update((name, value) for name, value in row.items() if naming.number(value) is not None)
        self.value = naming.place({**logged, **numbers}) if "global_step" in numbers else {}


def _told(numbers: Dict[str, float]) -> Dict[str, Any]:
    """A table records a training only if a column counts."""
    found = naming.place(numbers)
    return found if "step" in found else {}


def _last_lines(f: BinaryIO, size: int, start: int) -> List[str]:
    """The last whole lines after `start`."""
    begin = max(start, size - _TAIL_BYTES)
    f.seek(begin)
    lines = f.read(_TAIL_BYTES).split(b"\n")
    return [line.decode("utf-8", "replace") for line in lines[1 if begin > start else 0 : -1] if line.strip()][-_ROWS:]
