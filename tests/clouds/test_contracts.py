"""Each provider with an API keeps the contract of providers, against the stand-in of its cloud."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sojourn import backends
from sojourn.core.need import Need
from sojourn.core.values import Lease
from sojourn.store.settings import read_site
from sojourn.testing.contracts.provider import ProviderContract
from tests.clouds.accounts import CLOUDS, account
from tests.clouds.standin import KEY, Cloud, Fault

DEAR = "compshare"  # a program is started for each question
WAYS = {"silence": "lost", "error": "after", "twice": "twice"}
# How each calls a machine that computes nothing any more; Lambda's cannot be stopped.
STOPPED = {"runpod": "EXITED", "vastai": "stopped", "digitalocean": "off", "paperspace": "off"}
STOPPED |= {"autodl": "shutdown", "compshare": "Stopped"}
PRICES = {"runpod": (1_490_000, "USD"), "vastai": (1_100_000, "USD"), "lambda": (1_290_000, "USD")}
PRICES |= {"digitalocean": (1_990_000, "USD"), "compshare": (9_600_000, "CNY")}
PRICES |= {"paperspace": (3_090_000, "USD"), "autodl": (5_500_000, "CNY")}  # told by the settings
PAGED = {"vastai": 2, "paperspace": 2, "digitalocean": 2, "autodl": 2, "compshare": 2}


class TestContract(ProviderContract):
    """What every provider promises."""

    rents_a_stub = True

    @pytest.fixture(
        params=[one if one != DEAR else pytest.param(one, marks=pytest.mark.campaign) for one in sorted(CLOUDS)]
    )
    def cloud(
        self, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[tuple[str, Cloud, Any]]:
        for name, size in (("digitalocean", "PER_PAGE"), ("autodl", "PAGE")):
            monkeypatch.setattr(f"sojourn.backends.provider.{name}.{size}", 2)
        monkeypatch.setattr(f"sojourn.backends.provider.{request.param}.OFF_S", 1.0, raising=False)
        with account(request.param, tmp_path, monkeypatch) as (cloud, site):
            cloud.boot_looks = 2
            yield request.param, cloud, backends.get("provider", request.param)(site)
            assert cloud.violations == []

    @pytest.fixture
    def provider(self, cloud: tuple[str, Cloud, Any]) -> Any:
        return cloud[2]

    @pytest.fixture
    def need(self) -> Need:
        return Need(accelerators=(("A100", 1),))

    @pytest.fixture
    def mute(self, cloud: tuple[str, Cloud, Any]) -> Callable[[], None]:
        return lambda: setattr(cloud[1], "mood", "mute")

    @pytest.fixture
    def bad_key(self, cloud: tuple[str, Cloud, Any]) -> Callable[[], str]:
        def refuse() -> str:
            cloud[1].mood = "key"
            return KEY

        return refuse

    @pytest.fixture
    def lost_answer(self, cloud: tuple[str, Cloud, Any]) -> Callable[[str], None]:
        return lambda way: cloud[1].faults.append(Fault(WAYS[way], "create"))

    @pytest.fixture
    def paged(self, cloud: tuple[str, Cloud, Any]) -> int | None:
        return PAGED.get(cloud[0])

    @pytest.fixture
    def lagging(self, cloud: tuple[str, Cloud, Any]) -> Callable[[], None]:
        return lambda: setattr(cloud[1], "list_lag", 5)

    @pytest.fixture
    def stopped(self, cloud: tuple[str, Cloud, Any]) -> Callable[[Lease], None] | None:
        status = STOPPED.get(cloud[0])
        return None if status is None else lambda lease: setattr(cloud[1].machines[lease.native], "status", status)

    @pytest.fixture
    def moved(self, cloud: tuple[str, Cloud, Any]) -> Callable[[Lease], None]:
        return lambda lease: setattr(cloud[1].machines[lease.native], "host", "127.0.0.2")

    @pytest.fixture
    def price(self, cloud: tuple[str, Cloud, Any]) -> tuple[int, str]:
        return PRICES[cloud[0]]


def test_every_provider_that_rents_has_a_stand_in() -> None:
    renting = {name for name in backends.names("provider") if backends.get("provider", name).rents}
    assert renting == set(CLOUDS)


def test_the_site_of_a_provider_is_on_its_platform(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text('[sites.cloud]\ntransport = "ssh"\nprovider = "lambda"\n')
    assert read_site("cloud", str(path)).platform == "lambda"
