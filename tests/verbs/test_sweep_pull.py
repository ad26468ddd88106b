"""`pull` of a part of a sweep."""

from pathlib import Path

import pytest

from sojourn.verbs.retrieve.best import NotRanked, Part
from sojourn.verbs.retrieve.pull import pull
from sojourn.verbs.sweep.request import SweepRequest
from sojourn.verbs.sweep.sweep import sweep
from tests.verbs.conftest import World
from tests.verbs.field import SCRIPT, fields


def test_metrics_come_first_and_count_for_no_release_and_the_best_cells_come_whole(
    world: World, tmp_path: Path
) -> None:
    with fields(world, tmp_path) as field:
        boxes = field("a")
        boxes.open()
        told = """printf '{"step": 1, "metrics": {"score": %s}}' $lr > "$SOJOURN_PROGRESS"\n"""
        told += "head -c9000 /dev/zero > w.dat"
        keys = {"outputs": ["result.json", "w.dat"], "candidates": ["a"], "sweep": {"matrix": {"lr": [3, 9, 5]}}}
        sweep(boxes.ctx, SweepRequest(boxes.world.job(SCRIPT.format(folder=boxes.folder) + told, name="ab", **keys)))
        boxes.over()
        first = list(pull(boxes.ctx, ["ab"], part=Part(is_metrics=True)))
        assert [answer.ok for answer in first] == [True] * 3 and not any(answer.receipts for answer in first)
        assert all((Path(answer.home) / "result.json").exists() for answer in first)
        assert not any((Path(answer.home) / "w.dat").exists() for answer in first)
        assert not any(record.is_pulled for record in boxes.ctx.store.index.cells("ab"))
        best = list(pull(boxes.ctx, ["ab"], part=Part(best=2, metric=("score", "max"))))
        assert [answer.run for answer in best] == ["ab-lr9", "ab-lr5"]
        assert all((Path(answer.home) / "w.dat").stat().st_size == 9000 for answer in best)
        with pytest.raises(NotRanked, match="reported score"):
            list(pull(boxes.ctx, ["ab"], part=Part(best=2)))
