"""The stand-ins by the names of their providers, and a site that rents from one."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from socket import create_server

import pytest

from sojourn import backends
from sojourn.backends.client import limits
from sojourn.core.values import Site
from tests.clouds import compshare
from tests.clouds.autodl import AutoDL
from tests.clouds.digitalocean import DigitalOcean
from tests.clouds.lambda_cloud import Lambda
from tests.clouds.paperspace import Paperspace
from tests.clouds.runpod import RunPod
from tests.clouds.standin import KEY, Cloud, Machine, serving
from tests.clouds.vastai import VastAI

CLOUDS: dict[str, type[Cloud]] = {
    "runpod": RunPod,
    "lambda": Lambda,
    "vastai": VastAI,
    "digitalocean": DigitalOcean,
    "paperspace": Paperspace,
    "autodl": AutoDL,
    "compshare": compshare.CompShare,
}
# What the settings must say where an API lists neither machine types nor prices.
OWN: dict[str, dict[str, object]] = {
    "paperspace": {"machine_type": "A100", "template_id": "t0", "region": "ny2", "rate": "3.09 USD/h"},
    "autodl": {"gpu": "A100", "gpu_spec_uuid": "spec-a100", "image_uuid": "image-1", "rate": "5.50 CNY/h"},
    "compshare": {"region": "cn-wlcb", "zone": "cn-wlcb-01", "image": "image-1"},
}
PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0000000000000000000000000000000000000000000 a person"


@contextlib.contextmanager
def account(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Cloud, Site]]:
    """An account of the cloud `name`, whose machines greet as ssh servers do, and a site that rents there."""
    (folder / "id.pub").write_text(PUBLIC_KEY + "\n")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    for variable, key in keys_of(name).items():
        monkeypatch.setenv(variable, key)
    monkeypatch.setattr(limits, "_kept", {})
    monkeypatch.setattr(f"sojourn.backends.provider.{name}.EVERY_S", {})  # limits are tested with a clock of their own
    monkeypatch.setattr(f"sojourn.backends.provider.{name}.LOOK_S", 0.02, raising=False)
    cloud = CLOUDS[name]()
    with serving(cloud) as api, greeting() as port:

        def boot(one: Machine) -> None:
            one.port = port

        cloud.on_boot = boot
        yield cloud, site(name, api, folder, port)


def keys_of(name: str) -> dict[str, str]:
    """What the environment of a client says: variable -> key."""
    backend = backends.get("provider", name)
    public = {backend.public_env: compshare.PUBLIC} if hasattr(backend, "public_env") else {}
    return {backend.key_env: KEY, **public}


def reached(name: str, api: str, folder: Path) -> dict[str, object]:
    """The settings by which a provider finds its stand-in at `api`."""
    return {"program": compshare.program(folder, api)} if name == "compshare" else {"api": api}


def site(name: str, api: str, folder: Path, ssh_port: int) -> Site:
    """A site that rents from the cloud at `api`. Where the API names no port, its machines have sshd at `ssh_port`."""
    own = {
        **OWN.get(name, {}),
        **reached(name, api, folder),
        "public_key": str(folder / "id.pub"),
        "ssh_port": ssh_port,
    }
    return Site("cloud", "ssh", "setsid", name, name, options={name: own})


@contextlib.contextmanager
def greeting() -> Iterator[int]:
    """The port of something that greets as an ssh server does, and says no more."""
    with create_server(("", 0)) as server:

        def greet() -> None:
            while True:
                try:
                    line, _ = server.accept()
                except OSError:
                    return
                with line:
                    line.sendall(b"SSH-2.0-Stand-in\r\n")

        threading.Thread(target=greet, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(2)
