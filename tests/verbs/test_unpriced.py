"""A rate that nobody told is unknown, never free; and what was cleared to be stopped is not quietly used again."""

from dataclasses import replace
from typing import Any

import pytest

from sojourn.backends.provider import by_hand, unmetered
from sojourn.cli.show import down as show_down
from sojourn.cli.show import leases as show_leases
from sojourn.cli.show import plan as show_plan
from sojourn.cli.show import status as show_status
from sojourn.core.values import Meter
from sojourn.verbs.confirm import Ask, NotConfirmed
from sojourn.verbs.launch.plan import plan
from sojourn.verbs.launch.request import RunRequest
from sojourn.verbs.launch.resume import resume
from sojourn.verbs.observe.alarms import Alarms
from sojourn.verbs.observe.cost import cost
from sojourn.verbs.observe.leases import leases
from sojourn.verbs.observe.status import status
from sojourn.verbs.release.down import down
from sojourn.verbs.release.request import DownRequest
from sojourn.verbs.retrieve.pull import pull
from sojourn.wire.units import unstamp
from tests.verbs.conftest import World


def at(world: World, module: Any, **changes: Any) -> None:
    """The world's box under another provider, on a platform of which nobody knows what it costs."""
    world.ctx.store.close()
    world.site = replace(world.site, platform="generic-ssh", **changes)
    world.ctx = world.client(module.Backend(world.site))


def done(world: World) -> None:
    world.ended("echo '{}' > out.json", outputs=["out.json"])
    list(pull(world.ctx))


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("module", [by_hand, unmetered])
def test_what_an_unpriced_box_costs_is_unknown_in_every_command(world: World, module: Any) -> None:
    at(world, module, provider=module.__name__.rpartition(".")[2])
    done(world)
    seen = status(world.ctx)
    (row,) = seen.rows
    assert (row.meter, row.spent_micro) == (Meter.UNKNOWN, None)
    said = row.as_json()
    assert said["meter"] == "unknown" and said["spent"] is None
    assert "unknown; meter unknown" in "\n".join(show_status.one(row, unstamp(seen.at), 80))
    open_now = leases(world.ctx)
    (lease,) = open_now.as_json()["leases"]
    assert (lease["meter"], lease["rate"], lease["spent"]) == ("unknown", None, None)
    assert open_now.as_json()["unpriced"] == ["local"] and open_now.as_json()["total"] == []
    told = "\n".join(show_leases.lines(open_now, 80))
    assert "cost of local unknown" in told and "free" not in told
    (run,) = cost(world.ctx).runs
    assert run["spent"] is None


def test_a_box_to_be_stopped_by_hand_is_still_to_be_let_go_of_without_a_rate(world: World) -> None:
    at(world, by_hand, provider="by_hand")
    done(world)
    assert status(world.ctx).rows[0].next == "sojourn down local"
    (alarm,) = Alarms(world.ctx).now([world.record()])
    assert "(at an unknown rate)" in alarm.text and alarm.next == "sojourn down local"


def test_a_box_that_is_not_known_to_bill_is_not_said_to_have_been_stopped(world: World) -> None:
    at(world, unmetered)
    done(world)
    assert status(world.ctx).rows[0].next == "" and Alarms(world.ctx).now([world.record()]) == []
    answer = down(world.ctx, DownRequest("local"), confirm=lambda ask: ask.name)
    assert answer.released and "whether this box costs money is not known" in answer.line
    assert status(world.ctx).rows[0].meter is Meter.UNKNOWN  # nothing was stopped by letting it go


def test_plan_says_that_the_rate_is_unknown_what_to_write_and_that_no_budget_holds(world: World) -> None:
    at(world, unmetered)
    answer = plan(world.ctx, RunRequest(world.job("true", budget="5 USD", max_duration="1h")))
    assert answer.rate_micro_per_h is None and answer.max_spent_micro is None
    assert answer.as_json()["rate"] is None and answer.as_json()["max_spent"] is None
    told = " ".join("\n".join(show_plan.lines(answer, 80)).split())
    assert "cost unknown" in told and "a `budget` cannot be enforced there" in told and 'rate = "1.19 USD/h"' in told


def test_a_free_box_is_free_as_before(world: World) -> None:
    done(world)
    (row,) = status(world.ctx).rows
    assert (row.meter, row.spent_micro, row.next) == (Meter.FREE, 0, "")
    assert plan(world.ctx, RunRequest(world.job("true", name="other"))).rate_micro_per_h == 0


def cleared(world: World) -> None:
    """A lease that its user was told to stop; whether that was done nobody said."""
    at(world, by_hand, provider="by_hand", rate_micro_per_h=1_000_000)
    world.ended("exit 3", name="failing")
    done(world)
    list(pull(world.ctx))
    assert not down(world.ctx, DownRequest("local"), confirm=lambda ask: ask.name).released
    (record,) = world.ctx.store.index.leases()
    assert record.state == "releasing"


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("answer", [None, "loca", "failing", "y"])
@pytest.mark.parametrize("verb", ["run", "resume"])
def test_nothing_starts_on_a_lease_that_was_cleared_unless_its_name_is_given(
    world: World, verb: str, answer: str | None
) -> None:
    cleared(world)
    world.ctx.confirm = lambda ask: answer
    before = [kind for kind in world.journal() if kind != "heard"]
    with pytest.raises(NotConfirmed) as caught:
        world.run("true", name="late") if verb == "run" else resume(world.ctx, "failing")
    assert caught.value.exit_status == 4 and "--confirm local" in caught.value.next
    assert [kind for kind in world.journal() if kind != "heard"] == before and not world.root("late").exists()
    assert [one.state for one in world.ctx.store.index.leases()] == ["releasing"]


@pytest.mark.campaign
@pytest.mark.parametrize("verb", ["run", "resume"])
def test_the_name_opens_a_cleared_lease_again_and_that_is_journaled(world: World, verb: str) -> None:
    cleared(world)
    asked: list[Ask] = []
    world.ctx.confirm = lambda ask: asked.append(ask) or ask.name  # type: ignore[func-returns-value]
    launched = world.run("true", name="late") if verb == "run" else resume(world.ctx, "failing")
    assert launched.did == "launched"
    (ask,) = asked
    assert ask.name == "local" and "cleared to stop" in ask.lines[0] and "--already-stopped" in ask.lines[-1]
    kinds = world.journal()
    assert kinds.index("reopened") < len(kinds) - 1 - kinds[::-1].index("launching")
    (record,) = world.ctx.store.index.leases()
    assert (record.state, record.meter) == ("open", Meter.RUNNING)


@pytest.mark.campaign
def test_a_plan_warns_of_a_cleared_lease_and_asks_nothing(world: World) -> None:
    cleared(world)
    world.ctx.confirm = lambda ask: pytest.fail("a plan asked")
    assert any(
        "was cleared for release" in text
        for text in plan(world.ctx, RunRequest(world.job("true", name="late"))).remarks
    )


def test_a_free_box_between_clearing_and_release_asks_nothing(world: World) -> None:
    """Nothing is stopped there: a client that died in between leaves no question to its next run."""
    world.ended("true")
    world.ctx.store.append("clearing", lease="local", listed=[])
    world.ctx.store.append("releasing", lease="local", clearance={})
    world.ctx.confirm = lambda ask: pytest.fail("asked")
    assert world.run("true", name="late").did == "launched"


@pytest.mark.campaign
def test_down_says_that_the_cost_is_unknown_and_how_the_disk_is_kept(world: World) -> None:
    at(world, by_hand, provider="by_hand", options={"stop": "press Destroy", "keep_disk": "press Stop"})
    done(world)
    asked: list[Ask] = []
    confirm = lambda ask: asked.append(ask) or ask.name  # type: ignore[func-returns-value]  # noqa: E731
    kept = down(world.ctx, DownRequest("local", keeps_disk=True), confirm=confirm)
    assert "press Stop; its cost is unknown" in asked[0].lines[0]
    assert kept.spent_micro is None and "press Stop (the disk stays)" in kept.line
    assert "cost     unknown" in "\n".join(show_down.lines(kept, 80))
    again = down(world.ctx, DownRequest("local"), confirm=confirm)  # repeated, it is never taken for stopped
    assert not again.released and not again.settled and "press Destroy" in again.line
    assert status(world.ctx).rows[0].meter is Meter.UNKNOWN
