"""Ending a cell of a sweep that falls behind its siblings (`early_stop`), by the progress they all report.

Without a coordinator: each keeper writes its cell's metric into a folder of the sweep at every rung, a number of steps,
and compares it with the others'. So it works in a queue of this box and on cluster machines that share the folder, and
continues without a client. Resuming a cell that has become one of the best is up to the queue (`queue_keeper.py`).
"""

from __future__ import annotations

import os

from sojourn.box.queue.rungs import ETA, Rungs
from sojourn.box.run.ledger import complain
from sojourn.box.supervise.keeper import Keeper
from sojourn.wire import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping


class Pruning:
    """The rungs of one attempt of a cell; for any other run it does nothing."""

    def __init__(self, keeper: Keeper, number: int) -> None:
        rule: Mapping[str, Any] = keeper.spec.get("early_stop") or {}
        sweep = str(keeper.spec.get("sweep") or "")
        self._is_on = bool(rule) and names.is_name(sweep) and rule.get("rule") in ETA
        self._run, self._number = keeper.root.id, number
        self._rungs = Rungs(os.path.join(keeper.root.base, "queues", sweep), rule)
        self._rung = self._rungs.first
        self._has_seen = False

    def look(self, progress: Mapping[str, Any] | None) -> str:
        """Why the cell should end, "" while it should not. `progress`: the training process's last report."""
        rungs = self._rungs
        step, metrics = (progress or {}).get("step"), (progress or {}).get("metrics") or {}
        if not self._is_on or not isinstance(step, int) or isinstance(step, bool) or rungs.metric not in metrics:
            return ""
        is_first, self._has_seen = not self._has_seen, True
        if step < self._rung:
            return ""
        rung = self._rung
        while step >= self._rung:  # a rung passed between two looks is judged by the current value
            rung = self._rung
            self._rung = rungs.after(self._rung)
        # Resumed beyond that rung: an earlier attempt reached it, and its value there was judged.
        if is_first and 0 < int(rungs.known(rung, self._run).get("attempt") or 0) < self._number:
            return ""
        value = metrics[rungs.metric]
        mine = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
        try:
            rungs.record(rung, self._run, {"value": mine, "step": step, "attempt": self._number})
            than = rungs.behind(rung, self._run, mine)
        except OSError as error:
            complain("early_stop: %s" % error)
            return ""
        told = "no number" if mine is None else "%.6g" % mine
        return "pruned: %s is %s at step %d, behind %s" % (rungs.metric, told, step, than) if than else ""
