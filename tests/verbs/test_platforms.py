"""`platforms list|show|stale`, and clocks and survival where money is about to move."""

import json
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from sojourn.cli.show import platforms as show
from sojourn.cli.show.text import width
from sojourn.core.law import Facts, Given, Judgement
from sojourn.core.values import Lease, Site
from sojourn.store.catalog import platform
from sojourn.store.platforms import UnknownPlatform, document
from sojourn.store.platforms import platforms as every
from sojourn.verbs.explain import platforms
from sojourn.verbs.launch.plan import _survival
from sojourn.verbs.release.down import _ask
from sojourn.verbs.rent.machine import tell_clocks
from sojourn.wire.errors import Misuse


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sojourn", "platforms", *argv], capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("name", every())
def test_the_page_of_a_platform_reads_at_80_columns_and_shows_what_loses_work(name: str) -> None:
    lines = show.page(platforms.show_platform(name), 80)
    assert [line for line in lines if width(line) > 80] == []
    told = "\n".join(lines)
    for row in document(name).get("clock", ()):
        assert row["verified"] in told
    for row in document(name).get("tier", ()):
        assert f"[{row['verified']}]" in told
    assert len(lines) < 140


def test_the_list_has_every_platform_and_its_stop_verb() -> None:
    said = platforms.listed().as_json()
    assert [row["platform"] for row in said["platforms"]] == every()
    assert all(row["stop"]["verb"] and len(row["oldest"]) == 7 for row in said["platforms"])
    assert [line for line in show.listed(platforms.listed(), 80) if width(line) > 80] == []


def test_a_platform_in_json_is_the_whole_document() -> None:
    said = platforms.show_platform("RunPod").as_json()
    assert (said["schema"], said["platform"], said["extends"]) == ("sojourn/platform/v1", "runpod", "generic-ssh")
    assert said["stop"]["is_final"]["is"] is True and said["clock"][0]["loses"]
    json.dumps(said, allow_nan=False)


def test_stale_facts_are_listed_by_month_with_those_of_money_first() -> None:
    later = platforms.stale(at="2028-06")
    assert later.exit_status == 10
    ages = [(not fact.is_grave, fact.verified) for fact in later.facts]
    assert ages == sorted(ages) and ages[0][0] is False
    assert platforms.stale(at="2024-01").exit_status == 0
    assert {fact.platform for fact in platforms.stale(at="2030-01", name="vast.ai").facts} == {"vastai"}
    assert [line for line in show.stale(later, 80) if width(line) > 80] == []
    with pytest.raises(Misuse, match="not a month"):
        platforms.stale(at="soon")


def test_an_unknown_platform_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownPlatform, match="runpod"):
        platforms.show_platform("runpot")


def survival(**site: Any) -> dict[str, Any]:
    """What `plan` says of a run's checkpoints on this site."""
    box = SimpleNamespace(site=Site("a", **site), is_blind=False, provider=SimpleNamespace(rents=False))
    return _survival(box, None, "r")  # type: ignore[arg-type]


def test_plan_says_whether_the_checkpoints_outlive_the_stop_by_where_they_lie() -> None:
    lost = survival(platform="matpool", base="/root/s")
    assert lost["survives"] is False and "system disk, which goes with it" in lost["why"]
    kept = survival(platform="autodl", base="/root/autodl-fs/s")
    assert kept["survives"] is True and "file storage" in kept["why"]
    open_ = survival(platform="runpod", base="/workspace/s")
    assert open_["survives"] is None and "network volume" in open_["why"]
    own = survival(platform="matpool", base="/root/s", options={"stop_is_final": False})
    assert own["survives"] is True  # the user's own words win


def test_the_danger_clocks_are_told_before_a_meter_starts() -> None:
    told: list[str] = []
    ctx = SimpleNamespace(say=told.append)
    tell_clocks(ctx, Site("box", platform="autodl", rate_micro_per_h=1_000_000))  # type: ignore[arg-type]
    assert any("after 15 consecutive days" in line and "loses" in line for line in told)
    told.clear()
    tell_clocks(ctx, Site("box", platform="autodl"))  # type: ignore[arg-type]
    assert told == []  # nothing is metered


def test_a_stop_that_keeps_the_disk_is_asked_with_the_clocks_that_begin_then() -> None:
    clocks = platform("autodl").clocks
    lease = Lease("box", "box", "by_hand", "t", 1_000_000, "CNY", 0.0, "power off", False, clocks)
    asked = _ask(lease, 0, Facts((), 0.0), Judgement(()), (), Given(), False)
    assert any("after 15 consecutive days" in line and "loses" in line for line in asked.lines)


def test_the_command_line_answers_in_words_and_in_json() -> None:
    told = run("show", "恒源云")
    assert told.returncode == 0 and "/hy-tmp" in told.stdout
    assert run("stale", "--at", "2024-01").returncode == 0
    late = run("stale", "--at", "2030-01", "--json")
    assert late.returncode == 10 and json.loads(late.stdout)["stale"]
    assert run("show").returncode == 2 and run("list", "x").returncode == 2
