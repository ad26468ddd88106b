"""`sweep results`: the numbers of cells that are home and loaded, and of no others."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sojourn.cli.main import main
from sojourn.store.index import NotFound
from sojourn.verbs.retrieve.pull import pull
from sojourn.verbs.sweep.results import NoSuchMetric, results
from tests.verbs.conftest import World
from tests.verbs.field import Field

# accuracy = lr + seed / 100; the log says another number, which nobody may believe.
SCRIPT = """
echo "final accuracy: 0.999"
if [ "$lr$seed" = 0.31 ]; then exit 3; fi
python3 - <<'END'
import json, os
lr, seed = float(os.environ["lr"]), int(os.environ["seed"])
json.dump({"lr": lr, "eval": {"accuracy": lr + seed / 100, "ok": True}, "note": "7"}, open("result.json", "w"))
with open("log.jsonl", "w") as f:
    for step in (1, 2):
        f.write(json.dumps({"step": step, "loss": 1 / step}) + "\\n")
open("predictions.csv", "w").write("id,label\\n1,0\\n2,1\\n")
END
"""
OUTPUTS = ["result.json", "log.jsonl", "predictions.csv"]


@pytest.fixture
def boxes(world: World, tmp_path: Path) -> Iterator[Field]:
    field = Field(world, tmp_path, "a")
    field.open()
    keys = {"run": SCRIPT, "outputs": OUTPUTS}
    made = field.job({"lr": [0.1, 0.2, 0.3], "seed": [0, 1], "wd": [0]})
    job = {line.split(":", 1)[0]: json.loads(line.split(":", 1)[1]) for line in Path(made).read_text().splitlines()}
    field.world.job(**{**job, **keys})
    from sojourn.verbs.sweep.request import SweepRequest
    from sojourn.verbs.sweep.sweep import sweep

    sweep(field.ctx, SweepRequest(made))
    field.over()
    yield field
    field.ctx.store.close()


@pytest.mark.campaign
def test_metrics_are_those_of_files_that_came_home_and_loaded_and_no_box_is_asked(
    boxes: Field, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = results(boxes.ctx, "ab")
    assert before.cells == () and before.exit_status == 1 and before.next == "sojourn pull ab"
    list(pull(boxes.ctx, ["ab"]))
    boxes.lines["a"].is_cut = True
    calls = boxes.lines["a"].calls
    seen = results(boxes.ctx, "ab")
    assert [cell.run for cell in seen.cells] == [
        *(f"ab-lr0.{n}-seed{s}-wd0" for n in (1, 2) for s in (0, 1)),
        "ab-lr0.3-seed0-wd0",
    ]
    assert [why.split(":")[0] for _, why in seen.left_out] == ["failed"] and seen.exit_status == 1
    assert seen.cells[1].metrics == {"eval.accuracy": pytest.approx(0.11), "loss": 0.5}
    assert [(m.name, m.direction, m.by) for m in seen.metrics] == [
        ("loss", "min", "name"),
        ("eval.accuracy", "max", "name"),
    ]
    assert (seen.varied, seen.seeds, seen.held) == (("lr", "seed"), ("seed",), {"wd": "0"})
    document = seen.as_json()
    assert document["groups"][0]["metrics"]["eval.accuracy"]["n"] == 2
    # 0.3 without its second seed has the highest mean, and is not ranked.
    assert document["best"]["eval.accuracy"] == [1] and document["not_ranked"]["eval.accuracy"] == [2]
    assert [group["planned"] for group in document["groups"]] == [2, 2, 2]
    change, _ = document["comparisons"]
    assert (change["variable"], change["from"], change["to"]) == ("lr", "0.1", "0.2")
    assert change["metrics"]["eval.accuracy"]["better"] is True and change["metrics"]["eval.accuracy"]["apart"] is True
    assert json.loads(json.dumps(document, allow_nan=False))["schema"] == "sojourn/results/v1"

    stated = results(boxes.ctx, "ab", metrics=[("eval.accuracy", "min")])
    assert [(m.name, m.direction, m.by) for m in stated.metrics] == [("eval.accuracy", "min", "stated")]
    with pytest.raises(NoSuchMetric, match=r"eval\.accuracy"):
        results(boxes.ctx, "ab", metrics=[("accuracy", "")])
    with pytest.raises(NotFound):
        results(boxes.ctx, "nothing")

    assert main(["sweep", "results", "ab"]) == 1
    table = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["0.2", "2", "0.5", "+-0", "*", "0.205", "+-0.0071", "*"] in table
    assert ["0.3", "1", "of", "2", "?", "0.5", "0.3"] in table
    assert main(["sweep", "results", "ab", "--csv"]) == 1
    rows = capsys.readouterr().out.splitlines()
    assert rows[0] == "run,site,attempt,wd,lr,seed,loss,eval.accuracy" and len(rows) == 6
    assert rows[1] == "ab-lr0.1-seed0-wd0,a,1,0,0.1,0,0.5,0.1"

    home = seen.cells[0].files[0]
    assert home.path == "log.jsonl"
    record = boxes.ctx.store.index.run(seen.cells[0].run)
    assert record is not None
    path = Path(next(r.home for r in record.receipts if r.path == "result.json"))
    path.write_text(path.read_text().replace("0.1", "0.9"))
    spoilt = results(boxes.ctx, "ab")
    assert len(spoilt.cells) == 4
    assert ("ab-lr0.1-seed0-wd0", "result.json at home has changed since it was loaded") in spoilt.left_out
    assert boxes.lines["a"].calls == calls


REPORTS = """
echo "step 1/2 | loss: 0.9 | lr: 7"
mkdir -p runs && printf 'step,val_acc\\n2,%s\\n' "$lr" > runs/metrics.csv
echo "step 2/2 | loss: 0.25 | lr: 7"
echo '{"note": "done"}' > result.json
if [ "$lr" = 0.2 ]; then echo '{"val_acc": 0.75}' > result.json; fi
"""


def test_what_a_run_only_reported_counts_where_no_file_of_metrics_came_home_and_is_marked(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    field = Field(world, tmp_path, "a")
    from sojourn.verbs.sweep.request import SweepRequest
    from sojourn.verbs.sweep.sweep import sweep

    keys = {"name": "ab", "outputs": ["result.json"], "site": "a", "sweep": {"matrix": {"lr": [0.1, 0.2]}}}
    sweep(field.ctx, SweepRequest(world.job(REPORTS, **keys)))
    field.over()
    list(pull(field.ctx, ["ab"]))
    seen = results(field.ctx, "ab")
    assert [(cell.metrics, cell.is_reported) for cell in seen.cells] == [
        ({"loss": 0.25, "val_acc": 0.1}, True),
        ({"val_acc": 0.75}, False),
    ]
    assert set(seen.reported) == {"loss", "val_acc"} and seen.exit_status == 0
    assert any(remark.startswith("not verified: the metrics of 1 cells") for remark in seen.remarks)
    document = seen.as_json()
    assert [cell["reported"] for cell in document["cells"]] == [True, False]
    assert [metric["reported"] for metric in document["metrics"]] == [True, True]
    assert main(["sweep", "results", "ab"]) == 0
    assert "reported by the run, not verified" in " ".join(capsys.readouterr().out.split())
    assert main(["sweep", "results", "ab", "--csv"]) == 0
    assert [row.rsplit(",", 1)[1] for row in capsys.readouterr().out.splitlines()] == ["reported", "yes", "no"]
    field.ctx.store.close()
