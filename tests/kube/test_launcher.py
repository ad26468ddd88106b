"""Launcher `k8s_job` against the stand-in: the port's contract, and what is its own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sojourn.backends.kube import reader
from sojourn.backends.launcher import k8s_job
from sojourn.backends.transport import kube, local
from sojourn.core.ports import LaunchRequest
from sojourn.core.values import Place, Site
from sojourn.testing.contracts.launcher import BatchSystemContract, Log
from tests.kube.cluster import Cluster, kubectl

SITE = Site("lab", "kube", "k8s_job", address="lab/ml", base="/mnt/sojourn/base")


class Typed(kube.Backend):
    """Where the contract types a line of the handbook: here, with kubectl on the path."""

    def call(self, argv: Any, **how: Any) -> Any:
        if any("kubectl" in word for word in argv):
            return local.Backend().call(["env", f"PATH={Path(kubectl()).parent}:/usr/bin:/bin", *argv], **how)
        return super().call(argv, **how)


@pytest.fixture(scope="class")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One for all tests of a class, which do not know of each other's roots."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.node("n1")
        cluster.claim("sojourn")
        cluster.nodes.images += (reader.IMAGE,)
        yield cluster


class TestContract(BatchSystemContract):
    @pytest.fixture(autouse=True)
    def config(self, shared: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        import json

        dead = shared.config(context="mute")
        dead["clusters"][0]["cluster"]["server"] = "http://127.0.0.1:9"
        dead["clusters"][0]["name"] = dead["contexts"][0]["context"]["cluster"] = "nowhere"
        (tmp_path / "mute").write_text(json.dumps(dead))
        monkeypatch.setenv("KUBECONFIG", f"{shared.kubeconfig}:{tmp_path / 'mute'}")

    @pytest.fixture
    def launcher(self) -> Any:
        return k8s_job.Backend(SITE)

    @pytest.fixture
    def place(self, transport: Any) -> Place:
        return Place(SITE, way=transport)

    @pytest.fixture
    def mute(self) -> Place:
        site = Site("mute", "kube", "k8s_job", address="mute/ml")
        return Place(site)

    @pytest.fixture
    def transport(self) -> Any:
        return Typed(Place(SITE))

    @pytest.fixture
    def root(self, request: pytest.FixtureRequest) -> str:
        return f"/mnt/sojourn/it's a base/{request.node.name[:40]}/runs/run-1"


__all__ = ["LaunchRequest", "Log"]
