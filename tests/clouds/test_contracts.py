"""Each provider with an API keeps the contract of providers, against the stand-in of its cloud."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sojourn import backends
from sojourn.core.need import Need
from sojourn.store.settings import read_site
from sojourn.testing.contracts.provider import ProviderContract
from tests.clouds.accounts import CLOUDS, account


class TestContract(ProviderContract):
    """What every provider promises."""

    rents_a_stub = True

    @pytest.fixture(params=sorted(CLOUDS))
    def provider(
        self, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[Any]:
        with account(request.param, tmp_path, monkeypatch) as (cloud, site):
            cloud.boot_looks = 2
            yield backends.get("provider", request.param)(site)
            assert cloud.violations == []

    @pytest.fixture
    def need(self) -> Need:
        return Need(accelerators=(("A100", 1),))


def test_every_provider_that_rents_has_a_stand_in() -> None:
    renting = {name for name in backends.names("provider") if backends.get("provider", name).rents}
    assert renting == set(CLOUDS)


def test_the_site_of_a_provider_is_on_its_platform(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text('[sites.cloud]\ntransport = "ssh"\nprovider = "lambda"\n')
    assert read_site("cloud", str(path)).platform == "lambda"
