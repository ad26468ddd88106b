"""Fixtures of a client of the real Slurm. A test file takes them by `pytest_plugins`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.cluster import Cluster
from tests.verbs.slurm_client import Client


@pytest.fixture
def client(cluster: Cluster, private_home: Path, tmp_path: Path) -> Iterator[Client]:
    yield Client(cluster, private_home, tmp_path)
