"""Platforms without an API that we may use: the person stops the machine, and is told how, and by when."""

from __future__ import annotations

import pytest

from sojourn import backends
from sojourn.core.law import Facts, Given, clear
from sojourn.core.need import Need
from sojourn.core.values import Lease
from sojourn.store.settings import read_site

BY_HAND = ("gpushare", "matpool", "featurize", "lanrui", "autodl")


@pytest.mark.parametrize("name", BY_HAND)
def test_a_machine_of_a_chinese_console_has_its_clocks_and_the_words_that_stop_it(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    settings = tmp_path_factory.mktemp("home") / "settings.toml"
    settings.write_text(
        f'[sites.box]\ntransport = "ssh"\naddress = "root@h:1"\nplatform = "{name}"\nrate = "2 CNY/h"\n'
    )
    site = read_site("box", str(settings))
    assert site.provider == "by_hand"
    provider = backends.get("provider", "by_hand")(site)
    lease = provider.take(provider.offers(Need())[0], "box-0", 0.0)
    assert isinstance(lease, Lease) and lease.clocks and lease.rate_micro_per_h == 2_000_000
    assert all(clock.what and clock.at and clock.loses for clock in lease.clocks)
    facts = Facts((), 0.0)
    said = provider.release(lease, clear(lease, facts, Given("box", shown=facts.digest()), 0.0))
    assert lease.stop_verb in said and "2.00 CNY/h" in said and "\n" not in said
