"""Platform files: thin diffs, each fact with its source and month, none about money or storage too old to rely on."""

import re
import time
import tomllib
import warnings
from pathlib import Path

import pytest

from sojourn.store.catalog import platform
from sojourn.store.platforms import FACTS, ROWS, UnknownPlatform, document, facts, faults, named, own, platforms

PAGE = Path(__file__).resolve().parents[2] / "docs/adding-a-platform.md"
WARN_MONTHS, TOO_OLD_MONTHS = 18, 24  # docs/adding-a-platform.md says so; the first fact of today fails in 2027-12


@pytest.mark.parametrize("name", platforms())
def test_a_platform_file_holds_only_what_differs_and_every_fact_has_source_and_month(name: str) -> None:
    assert faults(own(name)) == []


@pytest.mark.parametrize("name", platforms())
def test_a_platform_has_all_that_plan_and_a_reader_need(name: str) -> None:
    whole = document(name)
    assert whole["stop"]["verb"]["is"] and isinstance(whole["stop"]["is_final"]["is"], bool)
    if name != "local":
        assert whole["tier"] and whole["clock"] and whole["verb"]
        assert set(whole) >= {*FACTS, *ROWS, "overrides", "kind", "control"}


def test_no_fact_about_money_storage_or_interruption_is_too_old_to_rely_on() -> None:
    now = time.strftime("%Y-%m", time.gmtime())
    grave = [fact for name in platforms() for fact in facts(name) if fact.is_grave]
    old = [f"{f.platform} {f.where} ({f.verified})" for f in grave if f.age_months(now) >= WARN_MONTHS]
    if old:
        warnings.warn(f"look again, and write the month: {', '.join(old[:9])}; {len(old)} in all", stacklevel=1)
    dead = [f"{f.platform} {f.where} ({f.verified})" for f in grave if f.age_months(now) >= TOO_OLD_MONTHS]
    assert dead == [], "look at the sources again and write the month (docs/adding-a-platform.md)"


def test_age_is_counted_in_months() -> None:
    fact = facts("generic-ssh")[0]
    assert fact.verified == "2026-06"
    assert [fact.age_months(at) for at in ("2026-06", "2026-11", "2028-06")] == [0, 5, 24]


def test_what_a_file_does_not_say_is_as_in_the_one_it_extends() -> None:
    mine, whole = own("runpod"), document("runpod")
    assert "proxy" not in mine["network"] and whole["network"]["proxy"] == document("generic-ssh")["network"]["proxy"]
    assert whole["tier"] == mine["tier"] and whole["title"] == "RunPod Pods"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("runpod", "runpod"),
        ("vast.ai", "vastai"),
        ("恒源云", "gpushare"),
        ("AutoDL", "autodl"),
        ("kuber", "kubernetes"),
    ],
)
def test_a_platform_is_known_by_the_names_that_people_use(text: str, name: str) -> None:
    assert named(text) == name
    assert platform(text).name == name


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownPlatform, match="the nearest is 'autodl'"):
        named("autodi")


@pytest.mark.parametrize(
    ("name", "path", "stays"),
    [
        ("runpod", "/root/runs", False),
        ("runpod", "/workspace/runs", None),  # a volume disk or a network volume: both are mounted there
        ("autodl", "/root/autodl-tmp/runs", True),
        ("matpool", "/root/runs", False),
        ("matpool", "/mnt/runs", True),
        ("matpool", "/mntx/runs", None),
        ("slurm", "/scratch/alice/runs", True),
        ("lambda", "/lambda/nfs/data/runs", True),
        ("lambda", "/home/ubuntu/runs", False),
        ("generic-ssh", "~/.local/share/sojourn", False),
        ("colab", "/content/drive/MyDrive/x", True),
        ("colab", "/content/x", False),
        ("local", "/home/me", True),
    ],
)
def test_what_lies_somewhere_outlives_the_stop_verb_as_the_matrix_says(
    name: str, path: str, stays: bool | None
) -> None:
    if path.startswith("/mntx"):
        assert platform(name).tiers_of(path) == ()
        assert platform(name).keeps(path) is False  # nothing is known of it, and the stop is final
    else:
        assert platform(name).keeps(path) is stays


def test_the_example_of_the_page_is_a_platform_file() -> None:
    block = re.search(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert block and faults(tomllib.loads(block.group(1))) == []


GOOD = """
extends = "generic-ssh"
title = "x"
[[clock]]
what = "a"
at = "b"
loses = "c"
source = "s"
verified = "2026-11"
"""


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (GOOD.replace('source = "s"', 'source = ""'), "source, and verified"),
        (GOOD.replace("2026-11", "2026-13"), "source, and verified"),
        (GOOD.replace('loses = "c"', ""), "loses lacks"),
        (GOOD + 'colour = "red"', "no such key as colour"),
        (GOOD.replace('title = "x"', ""), "title lacks"),
        (GOOD + '[stop]\nverb = { is = "v", source = "s" }', "a fact is"),
        (GOOD + '[whim]\nx = "y"', "no such part"),
        (GOOD + '[ssh]\nscp = "yes"\nsource = "s"\nverified = "2026-11"', "ssh.scp: repeats"),
        (
            GOOD + '[[tier]]\nname="t"\npath="/"\nstop="maybe"\ndestroy="no"\nsize="1"\nsource="s"\nverified="2026-11"',
            "stop is one of",
        ),
    ],
)
def test_a_file_that_breaks_the_schema_is_told_where(wrong: str, says: str) -> None:
    assert faults(tomllib.loads(GOOD)) == []
    assert any(says in fault for fault in faults(tomllib.loads(wrong)))
