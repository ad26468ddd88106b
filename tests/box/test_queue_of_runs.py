"""The box's queue of plain runs: each waits for the GPUs that it needs, and for whatever else of ours lives there."""

from __future__ import annotations

from typing import Any

import pytest

from sojourn.box.queue.beside import WHOLE, holders, slots_for
from sojourn.box.run.root import Root
from sojourn.box.system.process import is_alive
from sojourn.wire import names
from tests.box.rig import Rig, kill
from tests.box.test_queue import Queue, until


class OfRuns(Queue):
    """The queue of plain runs, in place of a sweep's."""

    def __init__(self, rig: Rig) -> None:
        super().__init__(rig)
        self.root = Root(str(rig.base / "queues" / names.RUNS_QUEUE))

    def spec(self, name: str, script: str = "") -> dict[str, Any]:
        spec = super().spec(name, script)
        del spec["sweep"]
        return spec

    def queue(self, name: str, lanes: tuple[str, ...] = ("GPU-1", "GPU-2"), **cards: Any) -> None:
        template = {"outputs": [], "keeper": self.rig.keeper.name, "grace_s": 5.0, "beat_s": 0.1}
        cell = {"spec": self.spec(name), "attempt": 1, "token": "t", "cards": cards}
        self.rig.call("enqueue", queue=names.RUNS_QUEUE, template=template, cells=[cell], lanes=list(lanes))

    def place(self, name: str) -> int:
        (row,) = self.rig.call("since", runs={name: 0})["runs"]
        return int(row.get("queue", {}).get("place", 0))

    def gpus(self) -> dict[str, str]:
        return dict(line.split() for line in self.log.read_text().splitlines())


@pytest.fixture
def queue(rig: Rig) -> Any:
    made = OfRuns(rig)
    yield made
    kill({made.pid()} if made.pid() and is_alive(made.pid(), 0) else set())


def test_one_run_per_gpu_and_one_that_needs_two_waits_for_two(queue: OfRuns) -> None:
    for name, count in (("a", 1), ("b", 1), ("c", 2), ("d", 1)):
        queue.queue(name, count=count)
    keeper = queue.keep()
    assert sorted(queue.begun(2)) == ["a", "b"]
    queue.open("a")
    until(lambda: queue.said("done"))
    assert (queue.place("c"), queue.place("d")) == (1, 2)  # it is not overtaken
    queue.open("b")
    assert queue.begun(3)[-1] == "c"
    queue.open()
    assert keeper.wait(60) == 0
    assert queue.gpus() == {"a": "GPU-1", "b": "GPU-2", "c": "GPU-1,GPU-2", "d": "GPU-1"}


def test_a_run_waits_for_a_plain_one_that_holds_the_box(queue: OfRuns, rig: Rig) -> None:
    other = rig.place(f"until [ -e '{queue.gates}/other' ]; do sleep 0.02; done", run="other")
    held = rig.supervise(other)
    until(lambda: holders(str(rig.base), ()))
    assert holders(str(rig.base), ()) == {other.path: frozenset([WHOLE])}
    queue.queue("a", count=1)
    keeper = queue.keep()
    until(lambda: queue.pid() and is_alive(queue.pid(), 0))
    assert queue.place("a") == 1 and queue.order() == []
    queue.open("other")
    held.wait(60)
    assert queue.begun(1) == ["a"]
    queue.open()
    assert keeper.wait(60) == 0


def test_a_killed_queue_finds_a_run_on_two_gpus_again(queue: OfRuns) -> None:
    queue.queue("a", count=2)
    keeper = queue.keep()
    queue.begun(1)
    keeper.kill()
    keeper.wait(60)
    queue.queue("b", count=1)
    keeper = queue.keep()
    until(lambda: queue.pid() == keeper.pid)
    assert queue.place("b") == 1
    queue.open()
    assert keeper.wait(60) == 0 and queue.order() == ["a", "b"]


LANES = ("GPU-1", "GPU-2", "GPU-3")


@pytest.mark.parametrize(
    ("asked", "free", "held", "slots"),
    [
        ({"count": 1}, (0, 1, 2), (), (0,)),
        ({"count": 2}, (1, 2), ("GPU-2",), ()),
        ({"count": 1}, (1, 2), ("GPU-2",), (2,)),
        ({"count": 1, "of": ["GPU-3"]}, (0, 1), (), ()),
        ({"count": 1, "of": ["GPU-3"]}, (0, 1, 2), (), (2,)),
        ({"count": 9}, (0, 1, 2), (), (0, 1, 2)),  # all there are
        ({"count": 1, "of": ["GPU-gone"]}, (0,), (), (0,)),
        ({"count": 1}, (0, 1, 2), (WHOLE,), ()),
        ({"count": 1}, (0, 1, 2), ("0",), ()),  # a GPU by a name that is none of ours may be any
        ({"whole": True}, (0, 1), (), ()),
        ({"whole": True}, (0, 1, 2), (), (0, 1, 2)),
        ({"whole": True}, (0, 1, 2), ("GPU-1",), ()),
        (None, (2,), (), (2,)),
        ({"count": "many", "of": 7}, (0,), (), (0,)),
    ],
)
def test_slots_are_given_only_where_nobody_else_is(asked: Any, free: Any, held: Any, slots: Any) -> None:
    assert slots_for(asked, LANES, free, held) == slots


def test_a_sweep_that_has_something_left_to_do_holds_its_gpus(rig: Rig) -> None:
    sweep = Queue(rig)
    sweep.ask("s", lanes=("GPU-1",))
    keeper = sweep.keep()
    sweep.begun(1)
    of_runs = frozenset(card for cards in holders(str(rig.base), ()).values() for card in cards)
    assert of_runs == {"GPU-1"}
    sweep.open()
    assert keeper.wait(60) == 0
    assert holders(str(rig.base), ()) == {}
