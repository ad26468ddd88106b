"""The stand-ins are not shaped to our client: clients that others wrote rent and release there too.

Each is installed from the package index into an environment of its own, so this needs a network: a campaign.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.clouds.digitalocean import DigitalOcean
from tests.clouds.lambda_cloud import Lambda
from tests.clouds.standin import KEY, serving
from tests.clouds.vastai import VastAI

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(1800)]
INSTALL_S, CALL_S = 1200, 120


def environment(folder: Path, package: str) -> Path:
    """The programs of a fresh environment that has this package."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=INSTALL_S)
    pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", package]
    done = subprocess.run(pip, capture_output=True, text=True, timeout=INSTALL_S)
    if done.returncode:
        pytest.skip(f"{package} cannot be installed here: {done.stderr.strip().splitlines()[-1:]}")
    return folder / "bin"


def told(*argv: str, home: Path, **more: str) -> Any:
    """The JSON that a program prints; it sees nothing of our environment."""
    env = {"HOME": str(home), "PATH": os.environ["PATH"], **more}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=CALL_S, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


PYDO = """
import json, sys
from pydo import Client
plain = {"enforce_https": False}
client = Client(token=sys.argv[2], endpoint=sys.argv[1])
asked = {"name": "mine", "size": "gpu-a100x1-80gb", "image": "gpu-h100x1-base", "region": "tor1"}
sizes = [one["slug"] for one in client.sizes.list(**plain)["sizes"] if "gpu_info" in one]
native = client.droplets.create(body=asked, **plain)["droplet"]["id"]
status = client.droplets.get(native, **plain)["droplet"]["status"]
listed = [one["id"] for one in client.droplets.list(type="gpus", **plain)["droplets"]]
hidden = [one["id"] for one in client.droplets.list(**plain)["droplets"]]
client.droplets.destroy(native, **plain)
left = client.droplets.list(type="gpus", **plain)["droplets"]
said = {"sizes": sizes, "native": native, "status": status, "listed": listed, "hidden": hidden, "left": left}
print(json.dumps(said))
"""


def test_pydo_rents_and_destroys_a_droplet(tmp_path: Path) -> None:
    python = environment(tmp_path / "pydo", "pydo==0.44.0") / "python"
    cloud = DigitalOcean()
    with serving(cloud) as api:
        said = told(str(python), "-c", PYDO, api, KEY, home=tmp_path)
    assert "gpu-a100x1-80gb" in said["sizes"] and said["status"] == "active"
    assert said["listed"] == [said["native"]] and said["hidden"] == [] and said["left"] == []
    assert cloud.rented_ever == 1 and not cloud.billing and cloud.violations == []


def test_the_vendors_own_client_rents_and_destroys_an_instance_of_vast_ai(tmp_path: Path) -> None:
    program = environment(tmp_path / "vastai", "vastai==1.9.1") / "vastai"
    cloud = VastAI()
    with serving(cloud) as api:

        def vastai(*words: str) -> Any:
            return told(str(program), *words, "--url", api, "--api-key", KEY, "--raw", home=tmp_path)

        assert 102 in [one["id"] for one in vastai("search", "offers", "num_gpus=1")]
        asked = ("--image", "pytorch/pytorch", "--disk", "32", "--label", "mine", "--ssh", "--direct")
        native = vastai("create", "instance", "102", *asked)["new_contract"]
        assert [(one["id"], one["label"]) for one in vastai("show", "instances")] == [(native, "mine")]
        assert vastai("show", "instance", str(native))["actual_status"] == "running"
        env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
        words = ("destroy", "instance", str(native), "-y", "--url", api, "--api-key", KEY)
        subprocess.run([str(program), *words], check=True, timeout=CALL_S, env=env, capture_output=True)
        assert vastai("show", "instances") == []
    assert cloud.rented_ever == 1 and not cloud.billing


def test_another_client_of_lambda_rents_and_terminates_an_instance(tmp_path: Path) -> None:
    program = environment(tmp_path / "lai", "lambda-ai-cloud-api-client==2.4.1") / "lai"
    cloud = Lambda()
    with serving(cloud) as api:
        at = {"LAMBDA_CLOUD_BASE_URL": api, "LAMBDA_CLOUD_TOKEN": KEY}

        def lai(*words: str) -> Any:
            return told(str(program), *words, "--json", home=tmp_path, **at)

        assert "gpu_1x_a10" in str(lai("types"))
        lai("start", "--instance-type", "gpu_1x_a10", "--region", "us-east-1", "--ssh-key", "laptop", "--name", "mine")
        (one,) = lai("ls")
        assert one["status"] == "active" and one["id"] == cloud.billing[0].native
        env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], **at}
        subprocess.run([str(program), "stop", one["id"]], check=True, timeout=CALL_S, env=env, capture_output=True)
        assert lai("ls") == []
    assert cloud.rented_ever == 1 and not cloud.billing and cloud.violations == []
