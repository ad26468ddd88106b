"""What `leases` and `cost` say of rented machines beside their rate: the balance, the disk, clocks counted down."""

from __future__ import annotations

import pytest

from sojourn.verbs.observe.clocks import RENTAL
from sojourn.verbs.observe.cost import cost
from sojourn.verbs.observe.leases import leases
from sojourn.verbs.release.down import down
from sojourn.verbs.release.request import DownRequest
from tests.clouds.conftest import Ground
from tests.clouds.standin import Fault

HOUR_S = 3600.0


@pytest.mark.parametrize("ground", ["vastai"], indirect=True)
def test_a_balance_lasts_as_long_as_the_open_leases_let_it(ground: Ground) -> None:
    assert leases(ground.ctx).balances == ()  # nothing is rented, so nobody is asked
    ground.rent()
    (left,) = leases(ground.ctx).balances
    rate = ground.cloud.billing[0].rate_micro_per_h
    assert left["balance"] == {"amount": 100.0, "currency": "USD", "micro": 100_000_000}
    assert left["lasts_s"] == pytest.approx(100_000_000 / rate * HOUR_S, abs=1) and left["leases"] == ["cloud"]
    assert cost(ground.ctx).balances == (left,)


@pytest.mark.parametrize("ground", ["vastai"], indirect=True)
def test_a_balance_that_cannot_be_read_is_unknown_and_the_leases_are_shown(ground: Ground) -> None:
    ground.rent()
    ground.cloud.faults = [Fault("key", "read") for _ in range(20)]
    answer = leases(ground.ctx)
    assert [row.id for row in answer.rows] == ["cloud"]
    assert [(one["balance"], one["lasts_s"], bool(one["why"])) for one in answer.balances] == [(None, None, True)]


@pytest.mark.parametrize("ground", ["runpod"], indirect=True)
def test_a_disk_beside_the_rate_is_counted_and_a_balance_without_a_call_is_said_to_be(ground: Ground) -> None:
    ground.rent()
    ground.clock[0] += 730 * HOUR_S
    answer = leases(ground.ctx)
    (row,), (left,) = answer.rows, answer.balances
    gigabytes = 20
    assert row.disk_micro == pytest.approx(gigabytes * 100_000, rel=0.001)
    assert left["balance"] is None and "console" in left["why"]


@pytest.mark.parametrize("ground", ["vastai"], indirect=True)
def test_the_end_of_a_rental_is_counted_down(ground: Ground) -> None:
    ground.rent()
    clocks = {clock["what"]: clock["left_s"] for clock in leases(ground.ctx).rows[0].clocks}
    ends_s = ground.cloud.billing[0].made_s + 5_000_000.0
    assert clocks[RENTAL] == pytest.approx(ends_s - ground.clock[0], abs=1)


@pytest.mark.parametrize("ground", ["runpod"], indirect=True)
def test_a_machine_that_was_stopped_to_keep_its_disk_shows_how_long_that_stays(ground: Ground) -> None:
    ground.rent()
    down(ground.ctx, DownRequest("cloud", keeps_disk=True), confirm=lambda ask: ask.name)
    ground.clock[0] += 24 * HOUR_S
    (row,) = cost(ground.ctx).rows
    (clock,) = row.clocks
    assert clock["what"] == "a pod stays stopped"
    assert clock["left_s"] == pytest.approx(720 * HOUR_S - 24 * HOUR_S, abs=60)
