"""Progress that is true or absent: logs in the formats of public trainers, read at each point of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator

import tests.box.more_trainer_logs
import tests.box.odd_trainer_logs
from sojourn.box.run.log_progress import LogProgress
from tests.box.trainer_logs import LOGS

assert tests.box.more_trainer_logs and tests.box.odd_trainer_logs
FIELDS = ("epoch", "step", "total", "loss")
LOSSES = ("loss", "train_loss", "lm_loss", "total_loss", "step_loss", "avr_loss", "loss_train")


def shown(progress: LogProgress) -> dict[str, Any]:
    """What a person sees: a count of epochs is no step."""
    value = dict(progress.value or {})
    losses = [value["metrics"][name] for name in LOSSES if name in value.get("metrics", {})]
    out = {"loss": losses[0]} if losses else {}
    if value.get("unit") == "epoch":
        return {**out, "epoch": value["epoch"], **({"epochs": value["total"]} if "total" in value else {})}
    return {**out, **{name: value[name] for name in ("epoch", "step", "total") if name in value}}


def compared(folder: Path, name: str) -> Iterator[tuple[str, str]]:
    """(field, "right", "absent" or what is wrong) at the end of a log; before it, only what is wrong."""
    command, points = LOGS[name]()
    path = folder / f"{len(list(folder.iterdir()))}.log"
    path.touch()
    progress = LogProgress(str(path), argv=["bash", "-eo", "pipefail", "-c", command])
    for number, (text, truth) in enumerate(points):
        with path.open("a", newline="") as f:
            f.write(text)
        progress.look()
        found = shown(progress)
        for field in (*FIELDS, "epochs"):
            true = truth.get(field)
            if field in found and found[field] != true and not (field == "loss" and isinstance(true, dict)):
                yield field, f"{name}, after {text!r}: {field} {found[field]}, but it is {true}"
            elif number == len(points) - 1 and true is not None:
                yield field, "right" if field in found else "absent"


def test_progress_by_a_log_is_true_or_absent(tmp_path: Path) -> None:
    told = [(name, *one) for name in LOGS for one in compared(tmp_path, name)]
    wrong = [verdict for _, _, verdict in told if verdict not in ("right", "absent")]
    absent = [f"{name}: {field}" for name, field, verdict in told if verdict == "absent"]
    assert len(LOGS) >= 60 and len({name.partition(":")[0] for name in LOGS}) >= 20
    assert not wrong, "\n".join(wrong)
    for field in FIELDS:
        verdicts = [verdict for _, one, verdict in told if one == field]
        share = verdicts.count("right") / len(verdicts)
        assert share >= 0.8, f"{field} is shown in {share:.0%} of the logs that tell it; absent: " + ", ".join(absent)
