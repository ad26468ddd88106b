"""`run --queue`: plain runs one after the other on one box, begun by the box itself."""

import time
from pathlib import Path

import pytest

from sojourn.backends.provider import unmetered
from sojourn.cli.main import main
from sojourn.core.need import Need
from sojourn.core.owed import debt
from sojourn.core.values import State
from sojourn.verbs.answers import Launch
from sojourn.verbs.explain.why import of_run
from sojourn.verbs.launch.request import RunRequest
from sojourn.verbs.launch.resume import resume
from sojourn.verbs.launch.run import StoppedByUser, run
from sojourn.verbs.launch.stop import stop
from sojourn.verbs.observe.status import status
from sojourn.verbs.release.obligations import Hashed, facts
from sojourn.verbs.sweep.queue_run import cards, queue_run
from sojourn.verbs.takeover.recover import recover
from tests.verbs.conftest import World

WAIT = "until [ -e {gate} ]; do sleep 0.05; done"


class Line:
    """Runs on one box that end when their gate opens."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.folder = world, folder

    def job(self, name: str) -> str:
        return self.world.job(WAIT.format(gate=self.folder / name), name=name)

    def queue(self, name: str) -> Launch:
        return queue_run(self.world.ctx, RunRequest(self.job(name)))

    def end(self, name: str) -> None:
        (self.folder / name).touch()

    def states(self) -> dict[str, str]:
        return {row.id: row.state.value for row in status(self.world.ctx).rows}

    def reason(self, name: str) -> str:
        return next(row.reason for row in status(self.world.ctx, [name]).rows)

    def until(self, name: str, state: str) -> None:
        deadline = time.monotonic() + 120
        while self.states()[name] != state:
            assert time.monotonic() < deadline, self.states()
            time.sleep(0.1)


@pytest.fixture
def line(world: World, tmp_path: Path) -> Line:
    folder = tmp_path / "gates"
    folder.mkdir()
    return Line(world, folder)


@pytest.mark.campaign
def test_a_queued_run_waits_for_what_lives_there_and_starts_without_a_client(line: Line) -> None:
    assert run(line.world.ctx, RunRequest(line.job("first"))).state is State.RUNNING
    answer = line.queue("second")
    assert (answer.did, answer.state, answer.exit_status) == ("queued", State.QUEUED, 0)
    assert line.states() == {"first": "running", "second": "queued"}
    line.end("second")
    line.world.transport.is_cut = True  # nobody of ours is there
    line.end("first")
    root, deadline = line.world.root("second"), time.monotonic() + 120
    while not (root / "manifest.json").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    line.world.transport.is_cut = False
    line.until("second", "succeeded")


def test_runs_begin_in_the_order_of_asking_and_status_shows_the_place(line: Line) -> None:
    assert line.queue("a").state is State.RUNNING  # the box was free
    for name in "bc":
        assert line.queue(name).did == "queued"
    assert (line.reason("b"), line.reason("c")) == ("1 of 2 in the queue", "2 of 2 in the queue")
    line.end("a")
    line.until("b", "running")
    assert line.reason("c") == "1 of 1 in the queue"


@pytest.mark.campaign
def test_the_identical_run_changes_nothing(line: Line) -> None:
    line.queue("a")
    line.queue("b")
    for again in (line.queue("b"), run(line.world.ctx, RunRequest(line.job("b")))):
        assert (again.did, again.state) == ("nothing", State.QUEUED) and "1 of 1 in the queue" in again.why
    assert line.queue("a").did == "nothing"
    assert line.world.journal().count("queueing") == 2


@pytest.mark.campaign
def test_stop_takes_it_from_the_queue_and_those_behind_move_up(line: Line) -> None:
    for name in "abc":
        line.queue(name)
    stopped = stop(line.world.ctx, "b", confirm=lambda ask: ask.name)
    assert (stopped.state, stopped.exit_status) == (State.CANCELLED, 0)
    assert line.reason("c") == "1 of 1 in the queue"
    with pytest.raises(StoppedByUser):
        line.queue("b")
    line.end("a")
    line.until("c", "running")
    assert line.states()["b"] == "cancelled" and not (line.world.root("b") / "attempts/1").exists()


@pytest.mark.campaign
def test_down_names_what_waits(line: Line) -> None:
    line.queue("a")
    line.queue("b")
    ctx = line.world.ctx
    box = ctx.box(line.world.site)
    records = [line.world.record("a"), line.world.record("b")]
    found = {standing.run: standing for standing in facts(ctx, box, "local", records, Hashed()).runs}
    (lack,) = debt(found["b"]).lacks
    assert (lack.what, lack.next) == ("is queued", "sojourn stop b")


@pytest.mark.campaign
def test_nothing_is_concluded_of_a_run_that_waits(line: Line) -> None:
    line.queue("a")
    line.queue("b")
    answer = of_run(line.world.ctx, "b")
    assert (answer.judged.verdict, answer.exit_status) == (None, 10) and "waits in the queue" in answer.note


@pytest.mark.campaign
def test_a_dead_run_queues_its_next_attempt(line: Line) -> None:
    line.world.ended("exit 3")
    line.queue("a")
    answer = queue_run(line.world.ctx, RunRequest(line.world.job("exit 3")))
    assert (answer.did, answer.attempt, answer.state) == ("queued", 2, State.QUEUED)
    line.end("a")
    line.until("digits", "failed")
    assert line.world.record().heard.attempt == 2


@pytest.mark.campaign
def test_after_a_resume_with_new_code_the_queue_runs_the_newest_code(line: Line) -> None:
    world = line.world
    work = "mkdir -p checkpoints; echo 1 > out.json; "
    world.ended(f"{work} exit 3", outputs=["out.json"])
    mended = f"{work} echo second; [ -e {line.folder}/fixed ]"
    world.job(mended, outputs=["out.json"])
    resume(world.ctx, "digits", new_code=True)
    line.until("digits", "failed")
    line.queue("a")
    line.end("fixed")
    assert queue_run(world.ctx, RunRequest(world.job(mended, outputs=["out.json"]))).did == "queued"
    line.end("a")
    line.until("digits", "succeeded")
    assert (world.root() / "logs/3.log").read_text().strip() == "second"


@pytest.mark.campaign
def test_another_client_recovers_what_waits_in_the_queue(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    line.queue("a")
    line.queue("b")
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("XDG_STATE_HOME", str(line.folder / "another"))
        other = line.world.client(unmetered.Backend(line.world.site))
    assert {run.id for run in recover(other, "local").runs} == {"a", "b"}
    rows = {row.id: row for row in status(other).rows}
    assert (rows["a"].state, rows["b"].state) == (State.RUNNING, State.QUEUED)
    assert rows["b"].reason == "1 of 1 in the queue"
    assert stop(other, "b", confirm=lambda ask: ask.name).state is State.CANCELLED
    assert line.states() == {"a": "running", "b": "cancelled"}


@pytest.mark.campaign
def test_the_command_queues_and_says_so(
    line: Line, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line.queue("a")
    line.job("b")
    monkeypatch.chdir(line.world.project)
    assert main(["run", "--queue"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[1] == "queued   attempt 1 is queued: 1 of 1 in the queue"
    assert out[-1] == "next     sojourn watch b"


def test_a_run_waits_for_the_gpus_that_it_asks_for() -> None:
    gpus = [
        {"uuid": "GPU-1", "name": "NVIDIA A100"},
        {"uuid": "GPU-2", "name": "NVIDIA L4"},
        {"uuid": "GPU-3", "name": "NVIDIA L4"},
    ]
    hello = {"gpus": gpus}
    assert cards(Need(), hello, {}) == {"count": 1}
    assert cards(Need(accelerators=(("L4", 2),)), hello, {}) == {"count": 2, "of": ["GPU-2", "GPU-3"]}
    assert cards(Need(accelerators=(("A100", 2), ("L4", 1))), hello, {}) == {"count": 1, "of": ["GPU-2", "GPU-3"]}
    assert cards(Need(), hello, {"CUDA_VISIBLE_DEVICES": "1"}) == {"whole": True}
