"""The campaign's judge sees what it is there to see: each breach is played to it, once whole and once broken."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.crash import judge
from tests.crash.schedule import line_schedule, schedule


def ledger(tmp_path: Path, *told: dict[str, Any]) -> Path:
    path = tmp_path / "ledger.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in told))
    return path


def begin(attempt: int, at: float, alone: bool = True, committed: int = 0) -> dict[str, Any]:
    return {
        "kind": "begin",
        "pid": 10 * attempt,
        "attempt": attempt,
        "at": at,
        "alone": alone,
        "committed": [1, committed],
    }


def line(kind: str, attempt: int, at: float, step: int = 0) -> dict[str, Any]:
    return {"kind": kind, "pid": 10 * attempt, "attempt": attempt, "at": at, "step": step}


WHOLE = (
    begin(1, 1.0),
    line("goes-on", 1, 1.1, 0),
    line("committed", 1, 2.0, 6),
    begin(2, 3.0, committed=6),
    line("goes-on", 2, 3.1, 6),
    line("end", 2, 4.0),
)


def test_a_training_that_was_killed_once_and_went_on_is_no_breach(tmp_path: Path) -> None:
    assert not list(judge.breaches_of_training(ledger(tmp_path, *WHOLE), is_gentle=False))


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ([begin(3, 5.0, alone=False)], "not alone"),
        ([begin(3, 3.5)], "overlap"),
        ([begin(2, 5.0)], "started twice"),
        ([begin(3, 5.0, committed=9), line("goes-on", 3, 5.1, 6)], "step 9 was committed"),
        ([line("committed", 2, 4.1, 12), begin(3, 5.0), line("goes-on", 3, 5.1, 9)], "step 12 was committed"),
    ],
)
def test_two_at_once_and_lost_checkpoints_are_seen(more: list[dict[str, Any]], word: str, tmp_path: Path) -> None:
    breaches = list(judge.breaches_of_training(ledger(tmp_path, *WHOLE, *more), is_gentle=False))
    assert len(breaches) == 1 and word in breaches[0], breaches


def test_a_second_training_is_seen_where_none_was_killed(tmp_path: Path) -> None:
    (breach,) = judge.breaches_of_training(ledger(tmp_path, *WHOLE), is_gentle=True)
    assert "nothing of the training was killed" in breach


def record(kind: str, n: int, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "n": n, **fields}


PROVEN = [{"path": path, "proved": ["bytes", "load"]} for path in judge.OWED]
LET_GO = [
    record("leased", 1),
    record("launching", 2, attempt=1, token="a"),
    record("pulled", 3, receipts=PROVEN),
    record("clearing", 4),
    record("releasing", 5, clearance={"runs": ["digits"]}),
    record("released", 6),
]


def test_a_lease_let_go_as_the_law_says_is_no_breach() -> None:
    assert not list(judge.breaches_of_lease(LET_GO, 0))


@pytest.mark.parametrize("missing", ["leased", "pulled", "clearing", "releasing"])
def test_a_lease_let_go_without_any_one_step_is_seen(missing: str) -> None:
    assert list(judge.breaches_of_lease([one for one in LET_GO if one["kind"] != missing], 0))


def test_a_lease_let_go_with_a_receipt_too_few_or_after_a_new_attempt_is_seen() -> None:
    few = [dict(one, receipts=PROVEN[:1]) if one["kind"] == "pulled" else one for one in LET_GO]
    late = [*LET_GO[:3], record("launching", 3.5, attempt=2, token="b"), *LET_GO[3:]]
    twice = [*LET_GO, record("released", 7)]
    tokens = [*LET_GO[:2], record("launching", 2.5, attempt=1, token="b"), *LET_GO[2:]]
    for broken in (few, late, twice, tokens):
        assert list(judge.breaches_of_lease(broken, 0)), broken


def test_a_file_at_home_that_is_not_the_box_s_is_seen(tmp_path: Path) -> None:
    there, here = tmp_path / "box.bin", tmp_path / "home.bin"
    for path in (there, here):
        path.write_bytes(b"weights")
    size, sha256 = judge.sha256_file(str(there))
    (tmp_path / "manifest.json").write_text(json.dumps({"files": [{"path": "w", "from": "box.bin"}]}))
    receipt = {"path": "w", "home": str(here), "bytes": size, "sha256": sha256}
    assert not list(judge.unequal(tmp_path, [receipt]))
    for path in (there, here):
        path.write_bytes(b"weightS")
        assert list(judge.unequal(tmp_path, [receipt]))
        path.write_bytes(b"weights")


def test_a_seed_is_one_schedule_for_ever_and_all_kinds_of_kills_come_up() -> None:
    plans = [schedule(seed) for seed in range(1000)]
    assert plans == [schedule(seed) for seed in range(1000)]
    assert {strike.victim for plan in plans for strike in plan.strikes} >= {"keeper", "shim", "training", "everything"}
    assert {blow.how for plan in plans for blow in plan.blows} == {"before", "within", "after", "client", "tree"}
    assert all(line_schedule(seed).is_bloodless for seed in range(100))
