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
if [ "$lr" = 0.3 ]; then exit 3; fi
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
    from sojourn.verbs.sweep.sweep import sweep

    sweep(field.ctx, made)
    field.over()
    yield field
    field.ctx.store.close()


def test_metrics_are_those_of_files_that_came_home_and_loaded_and_no_box_is_asked(
    boxes: Field, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = results(boxes.ctx, "ab")
    assert before.cells == () and before.exit_status == 1 and before.next == "sojourn pull ab"
    list(pull(boxes.ctx, ["ab"]))
    boxes.lines["a"].is_cut = True
    calls = boxes.lines["a"].calls
    seen = results(boxes.ctx, "ab")
    assert [cell.run for cell in seen.cells] == [f"ab-lr0.{n}-seed{s}-wd0" for n in (1, 2) for s in (0, 1)]
    assert [why.split(":")[0] for _, why in seen.left_out] == ["failed", "failed"] and seen.exit_status == 1
    assert seen.cells[1].metrics == {"eval.accuracy": pytest.approx(0.11), "loss": 0.5}
    assert [(m.name, m.direction, m.by) for m in seen.metrics] == [
        ("loss", "min", "name"),
        ("eval.accuracy", "max", "name"),
    ]
    assert (seen.varied, seen.seeds, seen.held) == (("lr", "seed"), ("seed",), {"wd": "0"})
    document = seen.as_json()
    assert document["groups"][0]["metrics"]["eval.accuracy"]["n"] == 2
    assert document["best"]["eval.accuracy"] == [1]
    (change,) = document["comparisons"]
    assert (change["variable"], change["from"], change["to"]) == ("lr", "0.1", "0.2")
    assert change["metrics"]["eval.accuracy"]["better"] is True and change["metrics"]["eval.accuracy"]["apart"] is True
    assert json.loads(json.dumps(document, allow_nan=False))["schema"] == "sojourn/results/v1"

    stated = results(boxes.ctx, "ab", metrics=[("eval.accuracy", "min")])
    assert [(m.name, m.direction, m.by) for m in stated.metrics] == [("eval.accuracy", "min", "stated")]
    with pytest.raises(NoSuchMetric, match=r"eval\.accuracy"):
        results(boxes.ctx, "ab", metrics=[("accuracy", "")])
    with pytest.raises(NotFound):
        results(boxes.ctx, "nothing")

    assert main(["sweep", "results", "ab", "--csv"]) == 1
    rows = capsys.readouterr().out.splitlines()
    assert rows[0] == "run,site,attempt,wd,lr,seed,loss,eval.accuracy" and len(rows) == 5
    assert rows[1] == "ab-lr0.1-seed0-wd0,a,1,0,0.1,0,0.5,0.1"

    home = seen.cells[0].files[0]
    assert home.path == "log.jsonl"
    record = boxes.ctx.store.index.run(seen.cells[0].run)
    assert record is not None
    path = Path(next(r.home for r in record.receipts if r.path == "result.json"))
    path.write_text(path.read_text().replace("0.1", "0.9"))
    spoilt = results(boxes.ctx, "ab")
    assert len(spoilt.cells) == 3
    assert ("ab-lr0.1-seed0-wd0", "result.json at home is not what was loaded") in spoilt.left_out
    assert boxes.lines["a"].calls == calls
