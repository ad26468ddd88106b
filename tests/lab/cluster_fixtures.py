"""Fixtures of the Slurm cluster, for tests that are marked `lab`. A test file takes them by `pytest_plugins`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab import cluster as laboratory
from tests.lab.cluster import Cluster, slurm
from tests.lab.lab import FOLDER, locked

NODES = 3


@pytest.fixture(scope="session")
def slurm_cluster() -> Iterator[Cluster]:
    """Up for the whole session; whatever a killed session left behind is cleared away first."""
    why_not = laboratory.missing()
    if why_not:
        pytest.skip(why_not)
    with locked():
        slurm("down")
        slurm("up", str(NODES))
        try:
            yield Cluster(FOLDER / "slurm")
        finally:
            slurm("down")


@pytest.fixture
def cluster(slurm_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """This machine is a login node; afterwards no job is left, and every node is up."""
    monkeypatch.setenv("SLURM_CONF", slurm_cluster.conf)
    monkeypatch.setenv("SOJOURN_SSH_CONFIG", slurm_cluster.ssh_config)
    yield slurm_cluster
    monkeypatch.setenv("SLURM_CONF", slurm_cluster.conf)
    laboratory.until(slurm_cluster.is_cleared, lambda: slurm_cluster.sh("squeue; sinfo -R"))
