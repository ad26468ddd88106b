"""The transport `ssh` holds to the contract of every transport, against a real sshd."""

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sojourn import backends
from sojourn.backends.transport.ssh import Backend
from sojourn.core.values import Place, Site
from sojourn.testing.contracts.transport import StreamContract

pytest_plugins = ["tests.lab.fixtures"]


@pytest.mark.lab
class TestContract(StreamContract):
    """As every transport."""

    @pytest.fixture(params=["own", "off"])
    def make(self, request: pytest.FixtureRequest, ssh_config: Path) -> Callable[[], Any]:
        """Connections are shared, then not."""
        site = Site("box1", transport="ssh", address="box1", options={"sharing": request.param})
        return lambda: Backend(Place(site))

    @pytest.fixture
    def there(self) -> str:
        return f"/workspace/it's {uuid.uuid4().hex}"


def test_it_is_found_by_its_file() -> None:
    assert backends.get("transport", "ssh") is Backend
