"""Every transport holds to the contract of its port."""

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sojourn import backends
from sojourn.backends.transport import local, ssh
from sojourn.core.values import Site
from sojourn.testing.contracts.transport import TransportContract

pytest_plugins = ["tests.lab.fixtures"]


class TestLocal(TransportContract):
    """This machine."""

    @pytest.fixture
    def make(self) -> Callable[[], Any]:
        return local.Backend

    @pytest.fixture
    def there(self, tmp_path: Path) -> str:
        return str(tmp_path / "there")


@pytest.mark.lab
class TestSsh(TransportContract):
    """A real sshd in its own namespace; connections are shared, then not."""

    @pytest.fixture(params=["own", "off"])
    def make(self, request: pytest.FixtureRequest, ssh_config: Path) -> Callable[[], Any]:
        site = Site("box1", transport="ssh", address="box1", options={"sharing": request.param})
        return lambda: ssh.Backend(site)

    @pytest.fixture
    def there(self) -> str:
        return f"/workspace/{uuid.uuid4().hex}"


def test_every_transport_has_a_contract_test() -> None:
    assert set(backends.names("transport")) == {"local", "ssh"}
