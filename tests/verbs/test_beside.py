"""Runs of several boxes side by side."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sojourn.store.records import RunRecord
from sojourn.verbs.context import Context
from sojourn.verbs.observe.beside import each
from sojourn.verbs.retrieve.pull import pull
from sojourn.verbs.sweep.request import SweepRequest
from sojourn.verbs.sweep.sweep import sweep
from tests.verbs.conftest import World
from tests.verbs.field import Field


@pytest.fixture
def boxes(world: World, tmp_path: Path) -> Iterator[Field]:
    field = Field(world, tmp_path, "a b c")
    field.open()
    sweep(field.ctx, SweepRequest(field.job({"lr": [1, 2, 3, 4, 5, 6]})))
    field.over()
    yield field
    field.ctx.store.close()


@pytest.mark.campaign
def test_a_sweep_comes_home_from_its_boxes_at_once_and_is_told_in_order(boxes: Field) -> None:
    cells = boxes.ctx.store.index.cells("ab")
    together = threading.Barrier(3, timeout=60)  # breaks unless three boxes are at work at one time

    def do(ctx: Context, record: RunRecord) -> str:
        if record.id in firsts:
            together.wait()
        assert ctx.store.index.run(record.id) is not None
        return record.id

    firsts = {next(r.id for r in cells if r.site_name == site) for site in "abc"}
    assert list(each(boxes.ctx, cells, do)) == [record.id for record in cells]

    boxes.lines["b"].is_cut = True
    answers = {answer.run: answer for answer in pull(boxes.ctx, ["ab"])}
    assert list(answers) == [record.id for record in cells]
    for record in cells:
        answer = answers[record.id]
        assert answer.ok is (record.site_name != "b") and answer.exit_status == (3 if record.site_name == "b" else 0)
    boxes.lines["b"].is_cut = False
    assert all(answer.ok for answer in pull(boxes.ctx, ["ab"])) and boxes.reconcile().exit_status == 0


def test_what_flies_out_of_one_flies_out_in_its_turn_and_nothing_more_is_begun(boxes: Field) -> None:
    cells = boxes.ctx.store.index.cells("ab")
    begun: list[str] = []

    def do(ctx: Context, record: RunRecord) -> str:
        begun.append(record.id)
        if record.id == cells[1].id:
            raise OSError("the disk is full")
        return record.id

    seen = []
    with pytest.raises(OSError, match="the disk is full"):
        for one in each(boxes.ctx, cells, do):
            seen.append(one)
    assert seen == [cells[0].id] and cells[1].id in begun
