"""What `status` gives as the reason of an end and what `why` names as its cause never disagree."""

import itertools
import json
from typing import Any

import pytest

from sojourn.box.supervise import ending
from sojourn.core.fold import Status
from sojourn.core.values import State
from sojourn.diagnose import evidence
from sojourn.diagnose.reason import Verdict, reason
from sojourn.store.gotchas import gotchas
from sojourn.verbs.observe.reasons import judged

BEGUN = "step 1 loss 0.5\nstep 2 loss 0.4\n"
SAID = {
    "nothing": "",
    "an error": BEGUN + "Traceback (most recent call last):\n  File \"t.py\", line 3, in f\nKeyError: 'x'\n",
    "a full GPU": BEGUN + "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n",
}
EXITS = [(0, None), (1, None), (75, None), (None, 9), (None, 11), (None, 15)]
WHYS = ("", "stop", "budget", "max_duration", "shutdown", "walltime", "pruned")
SCOPE = ["universal", "slurm"]
# What sojourn itself did is the cause of such an end, whatever the program said while it left.
OURS = {
    "stop": "stopped-on-request",
    "shutdown": "stopped-on-request",
    "pruned": "stopped-on-request",
    "budget": "budget-spent",
    "max_duration": "max-duration-reached",
    "walltime": "walltime",
}


def ended(rc: int | None, signal: int | None, why: str, oom: int) -> dict[str, Any]:
    state = ending.classify_exit(ending.Exit(rc, signal, "shim"), why, oom)
    row = {"v": 1, "seq": 3, "at": "2026-11-25T03:00:09Z", "kind": "ended", "attempt": 1, "state": state, "by": "shim"}
    return {**row, "rc": rc, "signal": signal, "why": why, "oom_kill_delta": oom, "detail": "", "seconds": 9.0}


def by_why(row: dict[str, Any], said: str) -> Verdict:
    begun = {"v": 1, "seq": 1, "at": "2026-11-25T03:00:00Z", "kind": "attempt", "attempt": 1, "oom_kill": 0}
    log = {"rc": 0, "stdout": said, "stderr": ""}
    exited = json.dumps({"rc": row["rc"], "signal": row["signal"]})
    events = "\n".join(json.dumps(one, separators=(",", ":")) for one in (begun, row))
    probes = {
        "events.jsonl": {"rc": 0, "stdout": events, "stderr": ""},
        "exits/1.json": {"rc": 0, "stdout": exited, "stderr": ""},
        "logs/1.log": log,
    }
    document = {"scope": SCOPE, "launch": {"attempt": 1}, "probes": probes}
    return reason(gotchas(), evidence.from_document(document, gotchas()))


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("words", SAID)
def test_the_reason_in_status_and_the_verdict_of_why_never_disagree(words: str) -> None:
    wrong = []
    for (rc, signal), why, oom in itertools.product(EXITS, WHYS, (0, 1)):
        if oom and (rc, signal) not in ((1, None), (None, 9)):
            continue
        row = ended(rc, signal, why, oom)
        state = State(row["state"])
        found = by_why(row, SAID[words])
        best = found.verdict.id if found.verdict else ""
        _, shown = judged(Status(state=state, attempt=1, ends=(row,)), SAID[words], SCOPE)
        case = (rc, signal, why, oom, state.value)
        if state is State.SUCCEEDED and not found.is_healthy:
            wrong.append((*case, "succeeded", best or "undetermined"))
        if state.is_dead and found.is_healthy:
            wrong.append((*case, "healthy"))
        if state.is_dead and shown and best and shown != best:
            wrong.append((*case, shown, best))
    assert wrong == []


def test_what_sojourn_itself_ended_is_called_so() -> None:
    wrong = []
    for why, name in OURS.items():
        for rc, signal in ((None, 15), (None, 9), (1, None), (143, None)):
            found = by_why(ended(rc, signal, why, 0), BEGUN)
            best = found.verdict.id if found.verdict else ""
            if best != name:
                wrong.append((why, rc, signal, best))
    assert wrong == []


def test_a_run_that_ended_with_0_and_printed_nothing_is_healthy() -> None:
    assert by_why(ended(0, None, "", 0), "").is_healthy
