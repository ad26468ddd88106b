"""Iterating on a fix in a sweep: what failed runs again with the mended code, what is proven stays."""

import json
from pathlib import Path

import pytest

from sojourn.verbs.sweep.request import SweepRequest
from sojourn.verbs.sweep.results import results
from sojourn.verbs.sweep.sweep import SweepTaken, Swept, sweep
from tests.verbs.field import Field
from tests.verbs.test_sweep import Make, all_home, field

__all__ = ["field"]  # a fixture

CODE = """
import json, os, sys, time
cell = os.environ["SOJOURN_RUN_ID"]
with open({folder!r} + "/begun", "a") as f: f.write(cell + chr(10))
while not os.path.exists({folder!r} + "/gate-" + cell): time.sleep(0.05)
if {broken} and os.environ["lr"] == "2": raise ValueError("bad")
json.dump({{"loss": 1.0}}, open("result.json", "w"))
"""


def go(
    boxes: Field,
    *,
    broken: bool,
    lr: "list[int] | None" = None,
    more: str = "",
    new_code: bool = False,
    dry_run: bool = False,
) -> Swept:
    file = boxes.job({"lr": lr or [1, 2, 3]})
    Path(boxes.world.project / "cell.py").write_text(CODE.format(folder=str(boxes.folder), broken=broken) + more)
    lines = Path(file).read_text().splitlines()
    made = [json.dumps("python3 cell.py").join(["run: ", ""]) if line.startswith("run:") else line for line in lines]
    Path(file).write_text("\n".join(made) + "\n")
    return sweep(boxes.ctx, SweepRequest(file, new_code=new_code), dry_run=dry_run)


@pytest.mark.campaign
def test_failed_cells_run_again_with_the_mended_code_and_proven_ones_stay(field: Make) -> None:
    boxes = field("a")
    for n in (1, 2, 3):
        boxes.open(f"ab-lr{n}")
    go(boxes, broken=True)
    assert boxes.over() == {"ab-lr1": "succeeded", "ab-lr2": "failed", "ab-lr3": "succeeded"}
    unchanged = boxes.reconcile(repair=True)
    assert not unchanged.relaunched and any("error of the program itself" in one for one in unchanged.remarks)
    with pytest.raises(SweepTaken) as caught:
        go(boxes, broken=False)
    assert "--with-code new" in caught.value.next
    assert go(boxes, broken=False, new_code=True, dry_run=True).again == ("ab-lr2",)
    said = go(boxes, broken=False, new_code=True)
    assert (said.did, said.again, said.new) == ("queued", ("ab-lr2",), ())
    assert set(boxes.over().values()) == {"succeeded"} and boxes.begun() == ["ab-lr1", "ab-lr2", "ab-lr3", "ab-lr2"]
    assert go(boxes, broken=False, new_code=True).did == "nothing"
    all_home(boxes)
    found = results(boxes.ctx, "ab")
    assert "made by 2 versions of the code" in " ".join(found.remarks)
    codes = {cell.run: cell.code for cell in found.cells}
    assert codes["ab-lr1"] == codes["ab-lr3"] != codes["ab-lr2"]
    receipts = {record.id: {one.code for one in record.receipts} for record in boxes.ctx.store.index.cells("ab")}
    assert receipts["ab-lr2"] == {codes["ab-lr2"]}


def test_what_waits_gets_the_new_code_and_what_runs_keeps_its_own(field: Make) -> None:
    boxes = field("a")
    boxes.open("ab-lr2")
    boxes.open("ab-lr3")
    go(boxes, broken=True)
    boxes.until(lambda states: states["ab-lr1"] == "running")
    said = go(boxes, broken=False, new_code=True)
    assert sorted(said.again) == ["ab-lr2", "ab-lr3"] and "1 cells run" in " ".join(said.remarks)
    boxes.open("ab-lr1")
    assert set(boxes.over().values()) == {"succeeded"}
    assert sorted(boxes.begun()) == ["ab-lr1", "ab-lr2", "ab-lr3"]
    codes = {record.id: record.heard.code for record in boxes.ctx.store.index.cells("ab")}
    assert codes["ab-lr2"] == codes["ab-lr3"] != codes["ab-lr1"]


def test_a_changed_parameter_is_another_sweep(field: Make) -> None:
    boxes = field("a")
    for n in (1, 2, 3):
        boxes.open(f"ab-lr{n}")
    go(boxes, broken=True)
    boxes.over()
    file = Path(boxes.job({"lr": [1, 2, 3]}, envs={"WIDTH": "8"}))
    with pytest.raises(SweepTaken, match="envs"):
        sweep(boxes.ctx, SweepRequest(str(file), new_code=True))


@pytest.mark.campaign
def test_a_cut_off_before_the_cells_are_queued_again_is_made_good(field: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    boxes = field("a")
    for n in (1, 2, 3):
        boxes.open(f"ab-lr{n}")
    go(boxes, broken=True)
    boxes.over()
    for kind in ("queueing", "queued"):
        real = boxes.ctx.store.append

        def cut(what: str, kind: str = kind, real: object = real, **fields: object) -> None:
            real(what, **fields)  # type: ignore[operator]
            if what == kind:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(boxes.ctx.store, "append", cut)
            with pytest.raises(KeyboardInterrupt):
                go(boxes, broken=False, new_code=True)
        boxes.ctx = boxes.client()
        if kind == "queued":
            break
    go(boxes, broken=False, new_code=True)
    assert set(boxes.over().values()) == {"succeeded"} and boxes.begun().count("ab-lr2") == 2
