"""What `why` knows of a rented machine from the client's own record of its lease, after real calls to stub accounts."""

import json

import pytest

from sojourn.diagnose import evidence
from sojourn.store.gotchas import gotchas
from sojourn.verbs.explain.on_record import lease_probe
from sojourn.verbs.release.down import down
from sojourn.verbs.release.request import DownRequest
from tests.clouds.conftest import Ground

DAY_S = 86400.0


def known(ground: Ground) -> dict[str, object]:
    """The observations that the newest lease gives, by name without its family."""
    (record,) = ground.ctx.store.index.leases(open_only=False)
    told = {"lease": {"rc": 0, "stdout": json.dumps(lease_probe(ground.ctx, record))}}
    case = evidence.from_document({"probes": told}, gotchas())
    return {name: one.value for name, one in case.facts.known.items() if name.startswith("prov.")}


def let_go(ground: Ground, keeps_disk: bool = False) -> None:
    down(ground.ctx, DownRequest("cloud", keeps_disk=keeps_disk), confirm=lambda ask: ask.name)


@pytest.mark.campaign(keep=1)
def test_an_open_lease_is_meant_to_run_and_a_released_one_is_gone(ground: Ground) -> None:
    ground.rent()
    now = known(ground)
    assert (now["prov.intended"], now["prov.stop_only"]) == ("running", False)
    assert "prov.exists" not in now and "prov.delete_acked" not in now
    let_go(ground)
    now = known(ground)
    assert (now["prov.exists"], now["prov.delete_acked"], now["prov.intended"]) == ("no", True, "gone")


@pytest.mark.parametrize("ground", ["runpod", "vastai"], indirect=True)
def test_a_machine_that_was_stopped_to_keep_its_disk_is_stopped_only_and_for_how_long(ground: Ground) -> None:
    ground.rent()
    let_go(ground, keeps_disk=True)
    ground.clock[0] += 3 * DAY_S
    now = known(ground)
    assert (now["prov.stop_only"], now["prov.intended"]) == (True, "stopped")
    assert now["prov.stopped_days"] == pytest.approx(3.0, abs=0.1)
    assert "prov.exists" not in now  # a stopped machine is still there


@pytest.mark.parametrize("ground", ["vastai"], indirect=True)
@pytest.mark.parametrize("is_spot", [True, False])
def test_whether_it_may_be_taken_away_and_what_its_traffic_costs_is_as_it_was_rented(
    ground: Ground, is_spot: bool
) -> None:
    ground.site.options["vastai"]["spot"] = is_spot
    ground.rent()
    now = known(ground)
    assert now["prov.spot"] is is_spot
    assert isinstance(now["prov.price_net"], float) and now["prov.price_net"] >= 0
