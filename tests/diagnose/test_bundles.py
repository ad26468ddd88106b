"""Evidence recorded from real faults gives its verdict, and with any one probe withheld no wrong one."""

import json
from pathlib import Path
from typing import Any

import pytest

from sojourn.diagnose import evidence
from sojourn.diagnose.reason import reason
from sojourn.store.gotchas import gotchas

FILES = sorted((Path(__file__).parent / "specimens/bundles").glob("*.json"))


def judge(document: dict[str, Any]) -> str:
    """The id of the verdict, "healthy", or "" for undetermined."""
    found = reason(gotchas(), evidence.from_document(document, gotchas()))
    return "healthy" if found.is_healthy else found.verdict.id if found.verdict else ""


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_a_real_fault_gives_its_verdict_and_never_a_wrong_one(file: Path) -> None:
    case = json.loads(file.read_text(encoding="utf-8"))
    document = case["evidence"]
    assert judge(document) == case["verdict"]
    probes = document["probes"]
    wrong = {}
    for name in probes:
        rest = {other: told for other, told in probes.items() if other != name}
        found = judge({**document, "probes": rest})
        if found not in ("", case["verdict"]):
            wrong[name] = found
    assert wrong == {}


def test_a_restart_since_the_end_is_not_its_cause() -> None:
    case = json.loads((FILES[0].parent / "error-of-its-own.json").read_text(encoding="utf-8"))
    document = case["evidence"]
    later = {"/proc/sys/kernel/random/boot_id": {"rc": 0, "stdout": "another\n", "stderr": ""}}
    assert judge({**document, "now": {"probes": later}}) == case["verdict"]


def test_a_run_whose_box_restarted_under_it_was_ended_by_that() -> None:
    case = json.loads((FILES[0].parent / "all-is-well.json").read_text(encoding="utf-8"))
    document = case["evidence"]
    probes = {
        name: told for name, told in document["probes"].items() if not name.startswith(("/proc/", "process", "ps"))
    }
    probes["/proc/sys/kernel/random/boot_id"] = {"rc": 0, "stdout": "another\n", "stderr": ""}
    probes["/proc/1/stat"] = {
        "rc": 0,
        "stdout": "1 (init) S 0 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 77 1 1",
        "stderr": "",
    }
    probes["process tree"] = {"rc": 0, "stdout": "pid ppid start state threads cpu_s comm\n", "stderr": ""}
    assert judge({**document, "probes": probes}) == "box-restarted"
