"""Platform data: what `down` and `plan` rely on."""

import pytest

from sojourn.store.catalog import UnknownPlatform, platform, platforms


def test_this_machine_has_no_meter_and_loses_nothing() -> None:
    local = platform("local")
    assert local.clocks == () and not local.stop_is_final and "nothing to stop" in local.stop_verb


def test_a_box_by_ssh_bills_until_a_person_acts_and_its_end_is_final() -> None:
    ssh = platform("generic-ssh")
    assert ssh.stop_is_final and ssh.facts_verified == "2026-06"
    assert [clock.what for clock in ssh.clocks] == ["no automatic release"]


@pytest.mark.parametrize("name", platforms())
def test_every_fact_has_a_source_and_a_month(name: str) -> None:
    found = platform(name)
    assert found.title and all(clock.source and clock.verified for clock in found.clocks)
    assert len(found.facts_verified) == 7


def test_an_unknown_platform_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownPlatform, match="the nearest is 'local'"):
        platform("locla")
