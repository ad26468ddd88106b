"""`leases --audit`: what bills and is ours, what bills and is not, and what is believed gone and is not."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sojourn import backends
from sojourn.core.inventory import Verdict
from sojourn.verbs.release.down import down
from sojourn.verbs.release.request import DownRequest
from tests.clouds.conftest import Ground
from tests.clouds.standin import KEY, Fault

LISTS = {"runpod": "network-volumes", "lambda": "file-systems", "vastai": "volumes", "digitalocean": "volumes"}


def beside(name: str, machine: str = "") -> dict[str, Any]:
    """What bills beside machines, as the cloud `name` shows it; it belongs to `machine` where that can be said."""
    if name == "runpod":
        return {"id": "vol-1", "name": "data", "size": 100, "dataCenter": "EU-RO-1", "type": "STANDARD"}
    if name == "lambda":
        person = {"id": "p", "email": "a@b.c", "status": "active"}
        region = {"name": "us-east-1", "description": "Virginia, USA"}
        what = {"id": "vol-1", "name": "data", "mount_point": "/lambda/nfs/data", "created": "2026-01-01T00:00:00Z"}
        return {**what, "created_by": person, "is_in_use": False, "region": region, "bytes_used": 10 << 30}
    if name == "vastai":
        users = [{"id": int(machine)}] if machine else []
        return {"id": 77, "disk_space": 50.0, "storage_total_cost": 0.01, "instances": users, "status": "active"}
    region = {"name": "Toronto 1", "slug": "tor1", "sizes": [], "features": [], "available": True}
    users = [int(machine)] if machine else []
    return {"id": "vol-1", "name": "data", "size_gigabytes": 100, "droplet_ids": users, "region": region}


@pytest.mark.campaign(keep=1)
def test_a_machine_of_ours_is_ours_and_an_account_with_nothing_else_is_clean(ground: Ground) -> None:
    assert (ground.audit().rows, ground.audit().exit_status) == ((), 0)
    ground.rent()
    (row,) = ground.audit().rows
    assert (row.verdict, row.lease, ground.audit().exit_status) == (Verdict.OURS, "cloud", 0)
    assert row.asset and row.asset.rate_micro_per_h == ground.cloud.billing[0].rate_micro_per_h


@pytest.mark.campaign(keep=1)
def test_what_others_have_in_the_account_bills_and_is_not_ours(ground: Ground) -> None:
    ground.rent()
    ours = ground.cloud.billing[0]
    ground.cloud.rent(ours.kind, "somebody-elses", ours.rate_micro_per_h, dict(ours.asked), "9000001")
    answer = ground.audit()
    assert sorted((row.verdict.value, row.asset.name) for row in answer.rows if row.asset) == [
        ("not-ours", "somebody-elses"),
        ("ours", ours.name),
    ]
    assert answer.exit_status == 10


@pytest.mark.campaign(keep=1)
def test_a_machine_that_was_released_and_is_there_all_the_same_is_found(ground: Ground) -> None:
    ground.rent()
    one = ground.cloud.billing[0]
    down(ground.ctx, DownRequest("cloud"), confirm=lambda ask: ask.name)
    assert ground.verdicts() == []
    one.ended_s, one.status, one.leaving = None, "booting", -1  # it came back
    answer = ground.audit()
    assert [(row.verdict, row.lease) for row in answer.rows] == [(Verdict.NOT_GONE, "cloud")]
    assert answer.exit_status == 1 and one.native in answer.rows[0].next


def test_a_machine_that_its_provider_took_back_is_named(ground: Ground) -> None:
    ground.rent()
    ground.cloud.end(ground.cloud.billing[0])
    answer = ground.audit()
    assert [(row.verdict, row.lease, row.next) for row in answer.rows] == [
        (Verdict.GONE, "cloud", "sojourn down cloud")
    ]
    assert answer.exit_status == 1


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("what", ["key", "before", "bare"])
def test_a_list_that_cannot_be_read_is_unknown_and_never_clean(ground: Ground, what: str) -> None:
    ground.rent()
    ground.cloud.faults = [Fault(what, "list") for _ in range(30)]
    answer = ground.audit()
    assert answer.unknown and answer.exit_status == 3
    assert not [row for row in answer.rows if row.verdict in (Verdict.GONE, Verdict.NOT_GONE)]


def test_an_account_without_its_key_is_unknown(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    env = backends.get("provider", ground.site.provider).key_env
    monkeypatch.delenv(env)
    answer = ground.audit()
    assert [blank.what for blank in answer.unknown] == ["everything"] and env in answer.unknown[0].why
    assert answer.exit_status == 3


@pytest.mark.parametrize("ground", sorted(LISTS), indirect=True)
def test_what_bills_beside_a_machine_is_listed_with_the_command_that_ends_it(ground: Ground, tmp_path: Path) -> None:
    name = ground.site.provider
    ground.cloud.beside[LISTS[name]] = [beside(name)]
    answer = ground.audit()
    (row,) = answer.rows
    assert (row.verdict, answer.exit_status) == (Verdict.NOT_OURS, 10) and row.asset
    assert name == "digitalocean" or (row.asset.month_micro or 0) > 0
    assert KEY not in row.next
    env = {"PATH": os.environ["PATH"], backends.get("provider", name).key_env: KEY}
    subprocess.run(["sh", "-c", row.next], check=True, env=env, timeout=30)
    assert ground.audit().rows == ()


@pytest.mark.parametrize("ground", ["vastai"], indirect=True)
def test_what_belongs_to_our_machine_is_ours_and_outlives_its_release_by_name(ground: Ground) -> None:
    ground.rent()
    native, name = ground.cloud.billing[0].native, ground.site.provider
    ground.cloud.beside[LISTS[name]] = [beside(name, native)]
    assert ground.verdicts() == [("ours", "cloud"), ("ours", "cloud")]
    down(ground.ctx, DownRequest("cloud"), confirm=lambda ask: ask.name)
    assert ground.verdicts() == [("kept", "cloud")]


@pytest.mark.parametrize("ground", ["runpod", "vastai"], indirect=True)
def test_a_disk_that_was_kept_on_purpose_is_said_to_bill(ground: Ground) -> None:
    ground.rent()
    down(ground.ctx, DownRequest("cloud", keeps_disk=True), confirm=lambda ask: ask.name)
    answer = ground.audit()
    assert [(row.verdict, row.lease) for row in answer.rows] == [(Verdict.KEPT, "cloud")]
    assert answer.exit_status == 10 and answer.rows[0].asset and (answer.rows[0].asset.month_micro or 0) > 0
