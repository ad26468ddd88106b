"""The JSON documents hold what docs/json.md promises: fields may be added, never renamed or removed."""

import json
from typing import Any

from sojourn.core.artifact import Artifact
from sojourn.core.values import Evidence, Finding, Meter, State
from sojourn.verbs import answers

ROW = answers.Row("a", "local", State.RUNNING, 1, "t", step=1, total=2)
LEASE = answers.LeaseRow(
    "l", "s", "p", "by_hand", 1_190_000, "USD", "t", Meter.RUNNING, 5, None, (), "off", True, ("a",)
)


def keys(document: Any, promised: str) -> None:
    json.dumps(document, allow_nan=False)
    lacking = set(promised.split()) - set(document)
    assert not lacking, lacking


def test_status() -> None:
    document = answers.StatusReport((ROW,), "t").as_json()
    assert document["schema"] == "sojourn/status/v1"
    (run,) = document["runs"]
    keys(run, "id sweep site state attempt since reach meter progress log_age_s reason owed home spent")
    keys(run["reach"], "ok last_ok error")
    keys(run["progress"], "step total percentage remaining_s metrics")
    assert run["state"] == "running" and run["meter"] in ("running", "stopped", "unknown", "free")


def test_pull_is_verify_and_more() -> None:
    document = answers.Pull("a", True, "/h", (Artifact("x"),), 1, 2, 1, 2, 0.5, 1, (), "", "").as_json()
    keys(document, "schema ok artifacts run files bytes seconds receipts")
    assert document["schema"] == "sojourn/pull/v1"


def test_leases_and_cost() -> None:
    for kind in ("leases", "cost"):
        document = answers.Leases(kind, (LEASE,), ((5, "USD"),)).as_json()
        assert document["schema"] == f"sojourn/{kind}/v1"
        keys(document, "leases total")
        (lease,) = document["leases"]
        keys(lease, "id site platform rate began spent idle_s clocks stop")
        assert lease["stop"] == {"verb": "off", "final": True}
        assert lease["rate"] == {"amount": 1.19, "currency": "USD", "micro": 1_190_000}


def test_findings() -> None:
    finding = Finding("x", "confirmed", "t", "blocker", evidence=(Evidence("w", 1, "s", "t"),))
    document = answers.Launch("a", "s", "", 1, State.PLANNED, "blocked", "w", "n", (finding,)).as_json()
    (found,) = document["findings"]
    keys(found, "id was status title cause fix never evidence")
    assert found["evidence"] == [{"what": "w", "value": 1, "source": "s", "at": "t"}]


def test_the_worst_finding_decides() -> None:
    note = Finding("x", "confirmed", "t", "note")
    warning = Finding("x", "likely", "t", "blocker")
    blocker = Finding("x", "confirmed", "t", "blocker")
    ruled_out = Finding("x", "ruled-out", "t", "blocker")
    assert [answers.worst(f) for f in ([], [note, ruled_out], [note, warning], [warning, blocker])] == [0, 0, 10, 11]
