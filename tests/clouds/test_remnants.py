"""What still bills after `down`: with its price of a month, and the command that ends it."""

from __future__ import annotations

import os
import subprocess

import pytest

from sojourn import backends
from sojourn.cli.show import down as show
from sojourn.verbs.answers import Down
from sojourn.verbs.release.down import down
from sojourn.verbs.release.request import DownRequest
from tests.clouds.conftest import Ground
from tests.clouds.standin import KEY, Fault
from tests.clouds.test_audit import beside


def let_go(ground: Ground, keeps_disk: bool = False) -> Down:
    answer = down(ground.ctx, DownRequest("cloud", keeps_disk=keeps_disk), confirm=lambda ask: ask.name)
    assert answer.released and ground.cloud.violations == []
    return answer


@pytest.mark.campaign(keep=1)
def test_after_a_machine_that_had_nothing_beside_it_nothing_bills(ground: Ground) -> None:
    ground.rent()
    answer = let_go(ground)
    assert answer.billing == () and bool(answer.billing_unknown) is (ground.site.provider in ("autodl", "compshare"))


@pytest.mark.parametrize("ground", ["digitalocean"], indirect=True)
def test_a_volume_that_stays_is_named_with_its_price_and_the_command_that_deletes_it(ground: Ground) -> None:
    ground.rent()
    ground.cloud.beside["volumes"] = [beside("digitalocean", ground.cloud.billing[0].native)]
    answer = let_go(ground)
    (left,) = answer.billing
    assert (left["kind"], left["native"], left["month"]["micro"]) == ("volume", "vol-1", 10_000_000)
    assert any("volume vol-1 data: 10.00 USD a month" in line for line in show.lines(answer, 100))
    env = {"PATH": os.environ["PATH"], backends.get("provider", "digitalocean").key_env: KEY}
    subprocess.run(["sh", "-c", left["next"]], check=True, env=env, timeout=30)
    assert ground.cloud.beside["volumes"] == []


@pytest.mark.parametrize("ground", ["runpod", "vastai"], indirect=True)
def test_a_disk_that_is_kept_is_named_with_its_price(ground: Ground) -> None:
    ground.rent()
    native = ground.cloud.billing[0].native
    (left,) = let_go(ground, keeps_disk=True).billing
    assert (left["kind"], left["native"]) == ("machine", native)
    gigabytes = 20
    assert left["month"]["micro"] == (gigabytes * 200_000 if ground.site.provider == "runpod" else 5_000 * 730)


@pytest.mark.parametrize("ground", ["digitalocean"], indirect=True)
def test_a_list_that_cannot_be_read_is_said_to_be_unknown_and_holds_nothing(
    ground: Ground,
) -> None:
    ground.rent()
    ground.cloud.faults = [Fault("key", "beside") for _ in range(3)]  # volumes, snapshots, addresses
    answer = let_go(ground)
    assert answer.billing == () and "could not be listed" in answer.billing_unknown
