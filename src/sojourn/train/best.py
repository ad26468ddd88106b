"""Which epoch was the best so far, by one metric in one direction."""

from __future__ import annotations

from typing import Any, Mapping

from sojourn.train.progress import numbers
from sojourn.wire.errors import Misuse


class BadBest(Misuse):
    """best: {detail}"""

    code = "bad-best"


class Best:
    """Watches `of`, (metric, "max" or "min"), or nothing if `of` is None.

    `record`: {"metric", "mode", "value", "epoch", "step"} of the best epoch, None before the first; `before`: the
    record that the latest best epoch replaced.   Raises: BadBest.
    """

    def __init__(self, of: tuple[str, str] | None) -> None:
        if of is not None and (len(of) != 2 or not isinstance(of[0], str) or of[1] not in ("max", "min")):
            raise BadBest(detail=f'give (metric, "max") or (metric, "min"), not {of!r}')
        self.of = of
        self.record: dict[str, Any] | None = None
        self.before: dict[str, Any] | None = None

    def offer(self, metrics: Mapping[str, Any], epoch: int, step: int) -> bool:
        """Whether this epoch is better than all before; if so, it is the new record. NaN never is; equal is not better.

        Raises: BadBest if the metric is missing.
        """
        if self.of is None:
            return False
        name, mode = self.of
        if name not in metrics:
            given = ", ".join(sorted(metrics)) or "nothing"
            raise BadBest(detail=f"end_epoch was not given {name}; it was given {given}")
        value = numbers({name: metrics[name]})[name]
        before = None if self.record is None else self.record["value"]
        if value != value or (before is not None and not (value > before if mode == "max" else value < before)):
            return False
        self.before = self.record
        self.record = {"metric": name, "mode": mode, "value": value, "epoch": epoch, "step": step}
        return True

    def restore(self, record: Mapping[str, Any] | None) -> None:
        """Continue from a saved record; one with another metric or direction is not comparable, and dropped."""
        same = record is not None and (record["metric"], record["mode"]) == self.of
        self.record = dict(record) if same and record is not None else None
