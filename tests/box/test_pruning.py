"""Cells of a sweep that fall behind are ended by their own keepers, at a checkpoint, and may be resumed."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sojourn.box.queue.rungs import Rungs
from sojourn.box.run.root import Root
from tests.box.rig import Rig, found, heard, log, until

CELL = """
trap 'echo saved; exit 75' TERM
echo '{"step": 100, "metrics": {"acc": %s}}' > "$SOJOURN_PROGRESS.new"; mv "$SOJOURN_PROGRESS.new" "$SOJOURN_PROGRESS"
until [ -e "$SOJOURN_RUN_DIR/go" ]; do sleep 0.05; done
"""


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize(
    ("rule", "mode", "worst"), [("asha", "max", "0.1"), ("median", "min", "9"), ("asha", "max", "null")]
)
def test_the_cell_that_falls_behind_is_pruned_and_the_others_go_on(rig: Rig, rule: str, mode: str, worst: str) -> None:
    stop: dict[str, Any] = {"metric": "acc", "mode": mode, "rule": rule, "grace": 100}
    roots = []
    for name, value in (("a", "0.9"), ("b", "0.8"), ("c", worst)):
        root = rig.place(CELL % value, run=name, sweep="ab", early_stop=stop)
        rig.supervise(root)
        rung = os.path.join(root.base, "queues", "ab", "rungs", "100", name + ".json")
        until(lambda rung=rung: os.path.exists(rung))
        roots.append(root)
    end = heard(roots[2], "ended")
    assert end["state"] == "cancelled" and end["detail"].startswith("pruned: acc is "), end
    assert "saved" in log(roots[2]) and json.loads(Path(rung).read_text())["attempt"] == 1
    for root in roots[:2]:
        Path(root.path, "go").touch()
    assert [heard(root, "ended")["state"] for root in roots[:2]] == ["succeeded"] * 2
    assert not found(roots[0], "signal")


# Pruned at its first rung; a second attempt ends well. The last cell waits for the gate.
RUNG = """
trap 'exit 75' TERM
[ $SOJOURN_RUN_ID != f ] || until [ -e "$SOJOURN_RUN_DIR/../../gate" ]; do sleep 0.05; done
echo '{"step": 100, "metrics": {"acc": %s}}' > "$SOJOURN_PROGRESS.new"; mv "$SOJOURN_PROGRESS.new" "$SOJOURN_PROGRESS"
[ $SOJOURN_ATTEMPT = 1 ] || { sleep 0.5; exit 0; }
while true; do sleep 0.05; done
"""


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_pruned_cell_goes_on_once_it_is_among_the_best_unless_the_sweep_was_stopped(
    rig: Rig, is_stopped: bool
) -> None:
    rule = {"metric": "acc", "mode": "max", "rule": "asha", "grace": 100}
    rungs = Rungs(str(rig.base / "queues" / "ab"), rule)
    for other, value in (("a", 0.5), ("b", 0.9)):  # cells that went by before
        rungs.record(100, other, {"value": value, "step": 100, "attempt": 1})
    specs = [
        {"run": n, "name": n, "identity": n, "sweep": "ab", "argv": ["bash", "-ec", RUNG % v]}
        for n, v in (("c", 0.8), ("f", 0.1))
    ]
    template = {"outputs": [], "keeper": rig.keeper.name, "grace_s": 30.0, "beat_s": 0.1, "early_stop": rule}
    cells = [{"spec": spec, "attempt": 1, "token": "t"} for spec in specs]
    asked = rig.call("enqueue", queue="ab", keeper=rig.keeper.name, template=template, cells=cells, lanes=[""])
    keeper = rig.supervise(Root(asked["root"]))
    c, f = (Root(str(rig.base / "runs" / name)) for name in "cf")
    until(lambda: bool(found(f, "started")), patience_s=120.0)
    assert [event["state"] for event in found(c, "ended")] == ["cancelled"]  # second of three: not the best third
    if is_stopped:
        assert rig.call("withdraw", queue="ab", runs=[], why="stop", rest=True)["ok"]
    for other in "de":
        rungs.record(100, other, {"value": 0.1, "step": 100, "attempt": 1})
    (rig.base / "gate").touch()
    assert keeper.wait(200) == 0
    assert [event["state"] for event in found(f, "ended")] == ["cancelled"]
    after = [] if is_stopped else ["succeeded"]
    assert [event["state"] for event in found(c, "ended")] == ["cancelled", *after]
