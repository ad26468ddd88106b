"""Not knowing is a value: a line that is cut moves no state, stops nothing, and is never "dead"."""

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sojourn.core.values import State
from sojourn.store.home import Store
from sojourn.verbs.context import Context
from sojourn.verbs.launch.launch import begin
from sojourn.verbs.launch.request import RunRequest
from sojourn.verbs.launch.resume import resume
from sojourn.verbs.launch.run import run
from sojourn.verbs.launch.stop import stop
from sojourn.verbs.observe import refresh
from sojourn.verbs.observe.leases import leases
from sojourn.verbs.observe.logs import logs
from sojourn.verbs.observe.status import status
from sojourn.verbs.observe.watch import watch
from sojourn.verbs.retrieve.pull import pull
from sojourn.verbs.takeover.recover import recover
from sojourn.wire.errors import Unreachable
from tests.verbs import faulty
from tests.verbs.conftest import World


def test_a_site_that_does_not_answer_leaves_every_run_as_it_was(world: World) -> None:
    world.run("sleep 60")
    world.transport.is_cut = True
    seen = status(world.ctx)
    (row,) = seen.rows
    assert (row.state, row.reach.ok, row.reach.error) == (State.RUNNING, False, "reset: the line was cut")
    assert row.reach.last_ok and seen.exit_status == 111
    world.transport.is_cut = False
    assert status(world.ctx).rows[0].reach.ok


def test_nothing_is_concluded_while_the_line_is_cut_though_the_process_is_dead(world: World) -> None:
    world.run("sleep 60")
    world.end_all()
    world.transport.is_cut = True
    assert status(world.ctx).rows[0].state is State.RUNNING
    world.transport.is_cut = False
    assert status(world.ctx).rows[0].state in (State.KILLED, State.LOST)


def test_a_keeper_that_was_put_back_is_given_time_to_write_how_it_ended(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is up before it has written the end: such an answer, and what `since` says later, are both real."""
    world.run("sleep 60")
    world.end_all()
    real, asked = refresh.asking, []

    def asking(*what: Any) -> Any:
        asked.append(what)
        said = real(*what)()
        if len(asked) == 2 and isinstance(said, dict):  # the first question after the keeper was started
            early = {"keeper": "alive", "payload": "gone"}
            said = {run: ({**entry, **early, "offset": what[1][0][0].offset}, b"") for run, (entry, _) in said.items()}
        return lambda: said

    monkeypatch.setattr(refresh, "asking", asking)
    assert status(world.ctx).rows[0].state in (State.KILLED, State.LOST)
    assert len(asked) > 2


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("verb", ["run", "resume", "stop", "logs", "pull"])
def test_a_verb_that_needs_the_box_says_unreachable_and_records_no_intent(world: World, verb: str) -> None:
    world.run("sleep 60")
    world.transport.is_cut = True
    ctx, before = world.ctx, world.journal()
    act = {
        "run": lambda: run(ctx, RunRequest(str(world.project / "sojourn.yaml"))),
        "resume": lambda: resume(ctx, "digits"),
        "stop": lambda: stop(ctx, "digits", confirm=lambda ask: ask.name),
        "logs": lambda: list(logs(ctx, "digits")),
        "pull": lambda: list(pull(ctx, ["digits"])),
    }[verb]
    with pytest.raises(Unreachable):
        act()
    assert [kind for kind in world.journal()[len(before) :] if kind != "stopping"] == []


def test_a_first_run_on_a_site_that_does_not_answer_leaves_no_trace(world: World) -> None:
    world.transport.is_cut = True
    with pytest.raises(Unreachable):
        world.run("true")
    assert world.journal() == []


def test_all_runs_of_a_site_are_asked_about_with_one_call_and_ended_ones_not_at_all(world: World) -> None:
    world.ended("true")
    for name in ("one", "two"):
        run(world.ctx, RunRequest(world.job("sleep 60", name=name)))
    world.transport.calls = 0
    assert [row.id for row in status(world.ctx).rows] == ["digits", "one", "two"]
    assert world.transport.calls == 1
    os.kill(int(world.record("one").handle["facts"]["pid"]), signal.SIGTERM)
    status(world.ctx, ["digits"])
    leases(world.ctx)
    assert world.transport.calls == 1


def test_what_to_do_about_a_site_that_does_not_answer_is_told(world: World) -> None:
    world.run("sleep 60")
    world.transport.is_cut = True
    assert status(world.ctx).rows[0].reach.next == faulty.CUT.next_step != ""


@pytest.mark.campaign
def test_a_resume_by_another_client_is_heard_beside_any_other_run_of_that_box(world: World, tmp_path: Path) -> None:
    world.ended("test -e go && sleep 60; exit 3")
    run(world.ctx, RunRequest(world.job("sleep 60", name="other")))
    with Context(Store(str(tmp_path / "second")), boxes=world.ctx.boxes) as second:
        recover(second, "local")
        (world.root() / "attempts/1/go").touch()
        before = world.transport.calls
        assert {row.id: row.attempt for row in status(world.ctx).rows} == {"digits": 1, "other": 1}
        resume(second, "digits")
    after = world.transport.calls
    assert {row.id: row.attempt for row in status(world.ctx).rows} == {"digits": 2, "other": 1}
    assert world.transport.calls == after + 1 > before
    assert world.record().heard.attempt == 2  # it is in the records, not only on the screen


@pytest.mark.campaign
def test_a_start_that_was_not_heard_is_made_good_by_the_identical_run(world: World) -> None:
    real, lost = world.transport.call, []

    def call(argv: Sequence[str], **how: Any) -> Any:
        answer = real(argv, **how)
        if b"proven" in how.get("stdin", b"") and not lost:
            lost.append(answer)
            return faulty.CUT
        return answer

    world.transport.call = call  # type: ignore[method-assign]
    with pytest.raises(Unreachable):
        world.run("sleep 60")
    again = world.run("sleep 60")
    assert lost and (again.attempt, again.did) == (1, "nothing")
    assert world.journal().count("launching") == 1


@pytest.mark.campaign
@pytest.mark.parametrize("wrong", [[], ["python3", "-I", "-S", "elsewhere.pyz", "supervise", "--root", "/elsewhere"]])
def test_a_keeper_that_is_started_otherwise_than_believed_is_started_as_the_box_says(
    world: World, wrong: list[str]
) -> None:
    world.ended("test $SOJOURN_ATTEMPT = 2 && sleep 60; exit 3")
    asked = [{"op": "want", "run": "digits", "attempt": 2, "by": "resume"}]
    begun = begin(world.ctx, world.ctx.box(world.site), "digits", 2, asked, wrong, wait_s=60.0)
    assert begun.is_proven and begun.view.status.attempt == 2
    assert (world.record().handle or {})["facts"]["root"] == str(world.root())


@pytest.mark.campaign
def test_watch_looks_ever_more_rarely_while_nothing_moves_and_says_what_is_new(world: World) -> None:
    world.run("while [ ! -e go ]; do sleep 0.05; done")
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        world.later_s += seconds
        if len(slept) == 6:
            (world.root() / "attempts/1/go").touch()
            time.sleep(1.0)

    world.ctx.sleep = sleep
    looks = list(watch(world.ctx, every_s=2.0))
    most = [2.0, 4.0, 8.0, 16.0, 30.0, 30.0]  # less the time that this machine takes between
    assert all(pause <= limit for pause, limit in zip(slept, most, strict=False)) and sum(slept[:6]) > 60
    assert looks[0].news == () and looks[5].news == () and looks[5].quiet_s > 25
    assert looks[-1].is_last and looks[-1].news == ("digits: running -> succeeded",)
    assert sum(look.is_last for look in looks) == 1


@pytest.mark.campaign
def test_watch_says_when_a_site_stops_answering_and_gives_up_after_an_hour(world: World) -> None:
    world.run("sleep 60")

    def sleep(seconds: float) -> None:
        world.transport.is_cut = True
        world.later_s += seconds

    world.ctx.sleep = sleep
    looks = list(watch(world.ctx))
    assert any("local does not answer" in line for look in looks for line in look.news)
    assert world.later_s > 3500 and len(looks) < 200
    assert looks[-1].status.exit_status == 111 and looks[-1].status.rows[0].state is State.RUNNING
