"""The rungs of a sweep with `early_stop`: what each cell's metric was at a number of steps, and who is behind there.

One small file per cell and rung in the sweep's folder, written by the cell's own keeper, so there is no coordinator.
"""

from __future__ import annotations

import math
import os
import statistics

from sojourn.box.run.root import read_fields
from sojourn.wire import atomic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Mapping, Tuple

# Each rung is this many times the previous one. For asha also the share that continues: one in this many. Source of
# asha: Li et al. 2020, A System for Massively Parallel Hyperparameter Tuning, arXiv:1810.05934; of median: Golovin et
# al. 2017, Google Vizier, section 3.2.1.
ETA = {"asha": 3.0, "median": 1.5}
LEAST = 3  # values at a rung before any conclusion
_NOTHING = -math.inf  # the score of a cell without a number


class Rungs:
    """The rungs of the queue at `queue`. `rule`: the job's `early_stop`."""

    def __init__(self, queue: str, rule: Mapping[str, Any]) -> None:
        self._folder = os.path.join(queue, "rungs")
        self._is_max = rule.get("mode") == "max"
        self.rule = str(rule.get("rule"))
        self.metric = str(rule.get("metric"))
        self.first = max(1, int(rule.get("grace") or 1))

    def after(self, rung: int) -> int:
        """The next rung."""
        return max(rung + 1, math.ceil(rung * ETA[self.rule]))

    def known(self, rung: int, run: str) -> Dict[str, Any]:
        """What `run` recorded at `rung`: value, step, attempt; {} if nothing."""
        return read_fields(os.path.join(self._folder, str(rung), run + ".json"))

    def record(self, rung: int, run: str, fields: Mapping[str, Any]) -> None:
        """Record, or replace, what `run` had at `rung`. Raises: OSError."""
        folder = os.path.join(self._folder, str(rung))
        os.makedirs(folder, exist_ok=True)
        atomic.write_json(os.path.join(folder, run + ".json"), dict(fields), durable=False)

    def behind(self, rung: int, run: str, value: Any) -> str:
        """What `run` is behind at `rung` with `value`, in words; "" if it may go on. Raises: OSError."""
        others = self._others(rung, run)
        if len(others) + 1 < LEAST:
            return ""
        score = self.score(value)
        if self.rule == "median":
            is_behind, than = score < statistics.median(others), "the median of %d cells" % len(others)
        else:
            kept = math.ceil((len(others) + 1) / ETA["asha"])
            is_behind = sum(other > score for other in others) >= kept
            than = "the best %d of %d cells" % (kept, len(others) + 1)
        return than if is_behind else ""

    def best_stopped(self, runs: List[str]) -> str:
        """Of these stopped runs, the one to resume now; "" for none. Highest rung first, then the best value.

        Only asha promotes: a run that is by now among the best third, rounded down, of those at its highest rung.
        Pruning rounds up, so that no run is stopped and resumed in turn. Raises: OSError.
        """
        if self.rule != "asha":
            return ""
        found: List[Tuple[int, float, str]] = []
        for rung in self._all():
            scores = {run: self.score(self.known(rung, run).get("value")) for run in self._at(rung)}
            found = [one for one in found if one[2] not in scores]
            kept = int(len(scores) / ETA["asha"])
            for run in runs:
                score = scores.get(run, _NOTHING)
                if score > _NOTHING and sum(other > score for other in scores.values()) < kept:
                    found.append((rung, score, run))
        return max(found)[2] if found else ""

    def score(self, value: Any) -> float:
        """More is better; anything but a number is worst."""
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
            return _NOTHING
        return float(value) if self._is_max else -float(value)

    def _all(self) -> List[int]:
        """Rungs that any cell has reached, lowest first."""
        try:
            return sorted(int(name) for name in os.listdir(self._folder) if name.isdigit())
        except FileNotFoundError:
            return []

    def _at(self, rung: int) -> List[str]:
        names = os.listdir(os.path.join(self._folder, str(rung)))
        return [name[: -len(".json")] for name in names if name.endswith(".json")]

    def _others(self, rung: int, run: str) -> List[float]:
        told = [self.known(rung, other) for other in self._at(rung) if other != run]
        return [self.score(fields["value"]) for fields in told if "value" in fields]
