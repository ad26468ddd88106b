"""A run on a rented machine that is a real box with a real sshd: run, kill, resume, pull, down, and the box is gone."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sojourn import backends
from tests.clouds.accounts import CLOUDS
from tests.clouds.standin import KEY, Cloud, Machine, serving
from tests.lab.lab import Box, Lab
from tests.spine.conftest import Desk, compiled, desk
from tests.spine.test_chain import result

pytest_plugins = ["tests.lab.fixtures"]
pytestmark = pytest.mark.lab
__all__ = ["compiled", "desk"]
SETTINGS = """
[sites.cloud]
transport = "ssh"
provider = "{name}"
ssh_config = "{ssh_config}"
[sites.cloud.{name}]
api = "{api}"
public_key = "{lab}/key.pub"
max_price = "5 USD/h"
"""
LOGIN = {"lambda": "ubuntu"}
MOVING, PORT = ("runpod", "vastai"), 2222  # their containers get another port at a restart
GATE = "/tmp/gate"


@dataclasses.dataclass
class Rented:
    """An account whose only machine, when there is one, is the first box."""

    cloud: Cloud
    box: Box
    desk: Desk
    name: str


@pytest.fixture
def rented(request: pytest.FixtureRequest, inside: Lab, ssh_config: Path, desk: Desk) -> Iterator[Rented]:
    name, box = request.param, inside.boxes[0]
    box.fault("power-off")
    cloud = CLOUDS[name]()
    user = LOGIN.get(name, "root")

    def boot(one: Machine) -> None:
        box.fault("power-on")  # with an empty disk, and without a key of anybody
        if user != "root":
            box.user(user, "/bin/bash")
        folder = "/root/.ssh" if user == "root" else f"/home/{user}/.ssh"
        lines = "\n".join(one.keys).replace("'", "")
        box.sh(f"rm -f /root/.ssh/authorized_keys; echo '{lines}' > {folder}/authorized_keys")
        one.host, one.port = box.address, 22

    cloud.on_boot, cloud.on_end, cloud.boot_looks = boot, lambda one: box.fault("power-off"), 1
    with serving(cloud) as api:
        settings = desk.home / ".config/sojourn/settings.toml"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(SETTINGS.format(name=name, api=api, ssh_config=ssh_config, lab=inside.folder))
        desk.env[backends.get("provider", name).key_env] = KEY
        yield Rented(cloud, box, desk, name)
    assert cloud.violations == []


def move(box: Box) -> int:
    """Another port for its sshd, as at a restart of its container: who was logged in is not, and 22 is closed."""
    box.sshd(PORT)
    box.sh(
        "kill $(ss -ltnpH 'sport = :22' | grep -o 'pid=[0-9]*' | head -1 | cut -d= -f2);pkill -f '[s]shd: root' || true"
    )
    return PORT


@pytest.mark.parametrize(
    "rented",
    [pytest.param(name, marks=() if name == "runpod" else pytest.mark.campaign) for name in sorted(CLOUDS)],
    indirect=True,
)
def test_a_run_goes_to_a_rented_box_and_the_box_is_gone_at_the_end(rented: Rented) -> None:
    cloud, box, desk = rented.cloud, rented.box, rented.desk
    desk.job(f"python3 train.py 8 0.02 {GATE}", site="cloud", budget="5 USD")
    offered = desk("offers", "--json").json
    assert {one["provider"] for one in offered["offers"]} == {rented.name} and not cloud.machines
    planned = desk("plan", "--json", rc=None).json
    assert planned["rents"]["rate"]["amount"] > 0 and not cloud.machines
    desk("run", rc=4)
    assert not cloud.machines
    desk("run", "-y")
    assert len(cloud.billing) == 1
    desk.until(lambda row: row["progress"]["percentage"] and row["progress"]["percentage"] > 30)
    box.sh(f"pkill -9 -f '[s]upervise --root'; pkill -9 -f '[t]rain.py 8'; touch {GATE}")
    desk.until(lambda row: row["state"] in ("killed", "lost", "failed"))
    if rented.name in MOVING:
        cloud.billing[0].port = move(box)
    desk("resume", "digits")
    desk.until(lambda row: row["state"] == "succeeded")
    assert "begins at epoch 0" not in desk("logs", "digits", "--attempt", "2").out
    desk("down", "cloud", "--confirm", "cloud", rc=4)
    assert len(cloud.billing) == 1
    desk("pull", "digits", "--to", "results")
    assert json.loads((desk.project / "results/result.json").read_text())["value"] == result(8)
    cloud.leave_looks = 3
    # The box shows this machine's root beside its own user: somebody whose runs that user cannot look into.
    others = ("--abandon", "cloud:others") if rented.name in LOGIN else ()
    desk("down", "cloud", "--confirm", "cloud", *others)
    assert not cloud.billing and cloud.rented_ever == 1
    assert desk("leases", "--json").json["leases"] == []
    assert KEY not in (desk.state / "journal.jsonl").read_text()
    assert KEY not in (desk.state / "providers.log").read_text()
