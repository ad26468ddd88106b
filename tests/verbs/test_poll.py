"""One poll for many boxes: nobody waits for a dead one, and of one run only one watch asks."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sojourn.core.values import NoAnswer
from sojourn.verbs.observe.poll import Poll
from sojourn.verbs.observe.watch import watch
from sojourn.verbs.sweep.request import SweepRequest
from sojourn.verbs.sweep.sweep import sweep
from tests.verbs.conftest import World
from tests.verbs.field import Field


@pytest.fixture
def boxes(world: World, tmp_path: Path) -> Iterator[Field]:
    field = Field(world, tmp_path, "a b")
    sweep(field.ctx, SweepRequest(field.job({"lr": [1, 2]})))
    field.until(lambda states: set(states.values()) == {"running"})
    yield field
    field.open()
    field.ctx.store.close()


def hanging(real: Callable[..., Any], until: threading.Event) -> Callable[..., Any]:
    def call(*args: Any, **how: Any) -> Any:
        until.wait(120)
        return NoAnswer(sent=True, kind="timeout", detail="it hangs")

    return call


def test_a_box_that_hangs_delays_no_other(boxes: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    mended = threading.Event()
    monkeypatch.setattr(boxes.lines["b"], "call", hanging(boxes.lines["b"].call, mended))
    poll = Poll(boxes.ctx, [record.id for record in boxes.ctx.store.index.cells("ab")], every_s=0.1)
    try:
        before = boxes.lines["a"].calls
        heard = [view for _ in range(5) for view in poll.wait_for_changes(time.time() + 60)]
        assert {view.record.site_name for view in heard} == {"a"} and boxes.lines["a"].calls >= before + 5
    finally:
        mended.set()
        poll.close()


def test_a_second_watch_asks_nobody_and_takes_over_when_the_first_is_gone(boxes: Field) -> None:
    ids = [record.id for record in boxes.ctx.store.index.cells("ab")]
    first, second = Poll(boxes.ctx, ids, every_s=0.1), Poll(boxes.client(), ids, every_s=0.1)
    try:
        heard: set[str] = set()
        while heard != {"a", "b"}:
            heard |= {view.record.site_name for view in first.wait_for_changes(time.time() + 60)}
        while any(thread.name.startswith("ask ") for thread in threading.enumerate()):
            time.sleep(0.02)  # a question that is on its way would be counted below
        calls = {name: line.calls for name, line in boxes.lines.items()}
        seen = [view for _ in range(4) for view in second.wait_for_changes(time.time() + 60)]
        assert seen and all(view.reach.ok is None for view in seen)
        assert {name: line.calls for name, line in boxes.lines.items()} == calls
        first.close()
        deadline = time.monotonic() + 240
        while not any(view.reach.ok for view in second.wait_for_changes(time.time() + 60)):
            assert time.monotonic() < deadline
    finally:
        first.close()
        second.close()


def test_watch_tells_of_a_whole_sweep_until_it_is_over(boxes: Field) -> None:
    boxes.lines["b"].is_cut = True
    looks = []
    for look in watch(boxes.ctx, ["ab"], every_s=0.2):
        looks.append(look)
        boxes.open()
        if any("does not answer" in line for line in look.news) or look.status.rows[-1].reach.ok is False:
            boxes.lines["b"].is_cut = False
    assert looks[-1].is_last and {row.state.value for row in looks[-1].status.rows} == {"succeeded"}
    assert any("b answers again" in line for one in looks for line in one.news)


def test_a_second_watch_says_so_and_leaves_the_messages_to_the_first(boxes: Field) -> None:
    first, second = watch(boxes.ctx, ["ab"], every_s=0.1), watch(boxes.client(), ["ab"], every_s=0.1)
    assert next(first).elsewhere == ()
    look = next(second)
    assert look.elsewhere == ("ab",) and look.as_json()["elsewhere"] == ["ab"]
    assert any(line.startswith("ab: another `watch`") for line in look.news)
    first.close()
    boxes.open()
    looks = list(second)
    assert any(line.startswith("ab: the other `watch` has ended") for one in looks for line in one.news)
    assert looks[-1].is_last and looks[-1].elsewhere == ()
