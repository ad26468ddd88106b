"""Money and the provider: what is released, what is only gone, what is said when it does not go."""

from typing import Any

import pytest

from sojourn.core.values import Meter, Pulse
from sojourn.verbs.answers import Down
from sojourn.verbs.confirm import Ask
from sojourn.verbs.launch.resume import resume
from sojourn.verbs.observe.cost import cost
from sojourn.verbs.observe.leases import leases
from sojourn.verbs.observe.status import status
from sojourn.verbs.release.down import down
from sojourn.verbs.release.request import DownRequest
from sojourn.verbs.rent.gone import NotGone
from sojourn.verbs.retrieve.pull import pull
from sojourn.wire.errors import Refusal
from tests.verbs.conftest import World
from tests.verbs.faulty import Provider

HOUR_MICRO = 2_000_000


@pytest.fixture
def rented(world: World) -> Provider:
    """The world's box on a meter of 2 EUR an hour, with a run that has succeeded."""
    provider = Provider(world.site)
    world.ctx.store.close()
    world.ctx = world.client(provider)
    world.ctx.sleep = lambda seconds: setattr(world, "later_s", world.later_s + seconds)
    world.run("echo '{}' > out.json", outputs=["out.json"])
    while not status(world.ctx).rows[0].owed or not world.record().is_settled:
        world.later_s += 0.1
    return provider


def let_go(world: World, **more: Any) -> Down:
    return down(world.ctx, DownRequest("local", **more), confirm=lambda ask: ask.name)


def test_a_lease_is_released_once_everything_is_home_and_seen_to_be_gone_twice(world: World, rented: Provider) -> None:
    with pytest.raises(Refusal):
        let_go(world)
    list(pull(world.ctx))
    rented.after_release = [Pulse.ALIVE, Pulse.UNKNOWN, Pulse.GONE, Pulse.UNKNOWN, Pulse.GONE]
    done = let_go(world)
    assert done.released and len(rented.released) == 1 and rented.pulses == [Pulse.GONE]
    assert done.line == "destroyed"


def test_a_lease_that_does_not_go_is_not_said_to_be_released(world: World, rented: Provider) -> None:
    list(pull(world.ctx))
    rented.after_release = [Pulse.ALIVE]
    with pytest.raises(NotGone):
        let_go(world)
    assert "released" not in world.journal()
    (row,) = leases(world.ctx).rows
    assert row.meter is Meter.UNKNOWN  # it was asked to go, and is not seen to be gone
    rented.after_release = [Pulse.GONE]
    rented.pulses = [Pulse.ALIVE]
    assert let_go(world).released


def test_a_lease_that_its_provider_twice_says_is_gone_is_settled_with_what_was_lost(
    world: World, rented: Provider
) -> None:
    world.transport.is_cut = True
    rented.pulses = [Pulse.GONE]
    done = let_go(world)
    assert done.settled and not done.released and done.exit_status == 1 and not rented.released
    assert done.lost == ("digits: cannot be reached, and its outputs were never listed",)
    assert leases(world.ctx).rows == () and status(world.ctx).rows[0].meter is Meter.STOPPED


def test_gone_once_is_not_gone(world: World, rented: Provider) -> None:
    rented.pulses = [Pulse.GONE, Pulse.ALIVE]
    with pytest.raises(Refusal):
        let_go(world)
    assert "settled" not in world.journal()


def test_a_lease_that_vanished_after_everything_was_home_lost_nothing(world: World, rented: Provider) -> None:
    list(pull(world.ctx))
    world.transport.is_cut = True
    rented.pulses = [Pulse.GONE]
    done = let_go(world)
    assert done.settled and done.lost == () and done.exit_status == 0


def test_what_is_asked_lists_the_money_and_that_it_cannot_be_undone(world: World, rented: Provider) -> None:
    list(pull(world.ctx))
    asked: list[Ask] = []
    world.later_s += 3600
    with pytest.raises(Refusal):
        down(world.ctx, DownRequest("digits"), confirm=lambda ask: asked.append(ask))
    (ask,) = asked
    text = "\n".join(ask.lines)
    assert ask.name == "local" and "destroy" in text and "2.00 EUR" in text and "cannot be undone" in text
    assert ask.command == "sojourn down local --confirm local"
    assert not rented.released


def test_the_meter_counts_the_lease_and_stops_with_it(world: World, rented: Provider) -> None:
    list(pull(world.ctx))
    world.later_s += 1800
    (row,) = leases(world.ctx).rows
    assert row.spent_micro == pytest.approx(HOUR_MICRO / 2, rel=0.02) and row.meter is Meter.RUNNING
    assert row.idle_s == pytest.approx(1800, rel=0.05)
    let_go(world)
    world.later_s += 36000
    told = cost(world.ctx)
    assert told.rows[0].spent_micro == pytest.approx(HOUR_MICRO / 2, rel=0.02) and told.rows[0].ended
    assert told.total == ((told.rows[0].spent_micro, "EUR"),)
    assert told.runs[0]["spent"]["micro"] < told.rows[0].spent_micro


def test_a_run_continued_after_its_lease_was_let_go_takes_a_new_one(world: World, rented: Provider) -> None:
    world.ended("exit 3", name="failing")
    list(pull(world.ctx))
    let_go(world)
    rented.pulses = [Pulse.ALIVE]
    assert resume(world.ctx, "failing").attempt == 2
    assert rented.taken == ["local-0", "local-1"]
    assert [row.runs for row in leases(world.ctx).rows] == [("failing",)]
