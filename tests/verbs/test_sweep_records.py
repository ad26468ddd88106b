"""What a sweep leaves behind: on its box for a client that lost its records, and of its secrets nothing."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from sojourn.verbs.takeover.recover import recover
from tests.verbs.conftest import World
from tests.verbs.field import Make, fields


@pytest.fixture
def field(world: World, tmp_path: Path) -> Iterator[Make]:
    with fields(world, tmp_path) as make:
        yield make


@pytest.mark.campaign
def test_a_client_that_lost_its_records_finds_the_sweep_on_its_box(field: Make) -> None:
    boxes = field("a")
    boxes.sweep({"lr": [1, 2]})
    boxes.until(lambda states: "running" in states.values())
    boxes.ctx.store.close()
    shutil.rmtree(boxes.ctx.store.state_dir)
    boxes.ctx = boxes.client()
    assert recover(boxes.ctx, "a").exit_status == 0
    assert boxes.states() == {"ab-lr1": "running", "ab-lr2": "queued"}
    boxes.open()
    assert set(boxes.over().values()) == {"succeeded"}
    assert boxes.begun() == ["ab-lr1", "ab-lr2"]


def test_every_cell_finds_the_secret_and_none_leaves_it_behind(field: Make, world: World) -> None:
    boxes = field("a")
    world.ctx.environ = boxes.ctx.environ = {**os.environ, "TOKEN": "a-long-secret-value"}
    boxes.open()
    boxes.sweep({"lr": [1, 2]}, {"secrets": ["TOKEN"]})
    assert boxes.over() == {"ab-lr1": "succeeded", "ab-lr2": "succeeded"}
    held = [path for path in boxes.bases["a"].rglob("*") if path.is_file() and b"a-long-secret" in path.read_bytes()]
    assert held == []
