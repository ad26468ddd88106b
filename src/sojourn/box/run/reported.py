"""A run's progress without `sojourn.train`: from its log first, then from the trackers' files."""

from __future__ import annotations

from sojourn.box.trackers import naming
from sojourn.box.trackers.numbers import METRIC, MOST, is_of_training

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict


def joined(log: Dict[str, Any] | None, files: Dict[str, Any] | None) -> Dict[str, Any] | None:
    """One progress document from both. The log's step, total and epoch take precedence; a file's total is used for the
    log's steps only if they can be the same steps.
    """
    if not files or not log:
        return log or (dict(files, metrics=_chosen(files["metrics"])) if files else None)
    out = dict(log)
    if "step" not in log:
        out.pop("unit", None)
        out.update((name, files[name]) for name in ("step", "total") if name in files)
        out["source"] = files["source"]
    elif "total" not in log and "total" in files and files["step"] <= log["step"] <= files["total"]:
        out["total"] = files["total"]
    if "epoch" in files:
        out.setdefault("epoch", files["epoch"])
    out["at"] = max(log["at"], files["at"])
    out["metrics"] = _chosen(naming.added(log.get("metrics") or {}, files["metrics"]))
    return out


def _chosen(metrics: Dict[str, float]) -> Dict[str, float]:
    """At most this many; first those named like metrics of a training."""
    names = sorted(metrics, key=lambda one: (not is_of_training(one), not METRIC.search(one)))[:MOST]
    return {name: value for name, value in metrics.items() if name in names}
