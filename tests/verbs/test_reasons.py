"""`status` says in one line why a run ended badly, from what came with its events."""

import json
from pathlib import Path
from typing import Any

from sojourn.core.fold import Status, fold
from sojourn.core.values import Site, State
from sojourn.verbs.observe.reasons import LINE, alike, cause_of, judged, line_of, with_cause
from sojourn.verbs.observe.status import status
from tests.verbs.conftest import World

ENDED: dict[str, Any] = {"seq": 2, "attempt": 1, "kind": "ended", "at": "2026-11-21T10:00:00Z", "by": "shim"}


def ended(**fields: Any) -> Status:
    begun = {"seq": 1, "attempt": 1, "kind": "attempt", "at": "2026-11-21T09:00:00Z"}
    row = {**ENDED, "state": "failed", "rc": 1, "signal": None, "oom_kill_delta": 0, "why": "", **fields}
    return fold([begun, row], Status())


def cause(said: str, **fields: Any) -> str:
    return cause_of(ended(**fields), said, ["universal"])


def test_a_failed_run_tells_its_cause_without_another_question(world: World) -> None:
    world.ended("echo step 1/10; echo 'OSError: [Errno 28] No space left on device' >&2; exit 1")
    (row,) = status(world.ctx).rows
    assert row.reason == "exit status 1: The disk is full (OSError: [Errno 28] No space left on device)"
    assert row.next == "sojourn why digits"
    world.transport.is_cut = True
    assert status(world.ctx).rows[0].reason == row.reason


def test_the_own_error_of_a_program_is_told_as_it_stands(world: World) -> None:
    script = "python3 -c 'raise KeyError(\"optimiser\")'"
    world.ended(script)
    assert status(world.ctx).rows[0].reason == "exit status 1: KeyError: 'optimiser'"


def test_what_others_say_after_it_does_not_hide_the_error() -> None:
    spam = "".join(
        f"W1104 02:17:52.{i:06d} 8812 api.py:900] Sending process {i} closing signal SIGTERM\n" for i in range(9)
    )
    said = "Traceback (most recent call last):\n  File 'a.py', line 3\nValueError: lr must be positive\n" + spam
    assert cause(said) == "ValueError: lr must be positive"


def test_a_memory_kill_is_told_by_the_counter_and_a_bare_sigkill_is_not() -> None:
    killed = {"rc": None, "signal": 9, "detail": "ended by signal 9"}
    assert cause("step 4/10", state="oom", oom_kill_delta=1, **killed) == "The kernel killed it at the memory limit"
    assert cause("step 4/10", state="killed", **killed) == "It was killed (SIGKILL), but not by the memory limit"
    assert cause("step 4/10", state="killed", **{**killed, "oom_kill_delta": None}) == ""


def test_a_restart_is_the_cause_of_a_loss() -> None:
    lost = ended(state="lost", rc=None, by="unknown", detail="the machine was restarted")
    assert "restart" in line_of(lost)
    assert "emory" not in cause_of(lost, "step 5/10", ["universal"])


def test_what_lacked_on_the_disk_is_told_by_what_was_left_of_it() -> None:
    event = {"kind": "said", "attempt": 1, "text": "OSError: [Errno 28] No space left on device: 'many/9'"}
    room = {"free_bytes": 9_000, "total_bytes": 10_000, "free_inodes": 0, "total_inodes": 500}
    assert with_cause(ended(), [{**event, "room": room}], Site("local")).cause_id == "inodes-used-up"
    room = {"free_bytes": 0, "total_bytes": 10_000, "free_inodes": 100, "total_inodes": 0}
    assert with_cause(ended(), [{**event, "room": room}], Site("local")).cause_id == "disk-full"
    assert with_cause(ended(), [{**event, "room": None}], Site("local")).cause_id == "disk-full"


def test_a_success_and_a_stop_have_no_cause() -> None:
    event = {"kind": "said", "attempt": 1, "text": "CUDA out of memory"}
    for state in (State.SUCCEEDED, State.CANCELLED):
        assert with_cause(ended(state=state.value, rc=0), [event], Site("local")).cause == ""


def test_the_next_attempt_forgets_the_cause() -> None:
    failed = with_cause(
        ended(), [{"kind": "said", "attempt": 1, "text": "OSError: [Errno 28] No space left on device"}], Site("local")
    )
    assert failed.cause
    assert fold([{"seq": 9, "attempt": 2, "kind": "attempt", "at": "2026-11-21T11:00:00Z"}], failed).cause == ""


def test_a_reason_is_one_short_line() -> None:
    assert len(cause("Traceback (most recent call last):\nValueError: " + "very " * 400)) <= LINE
    assert "\n" not in cause("Traceback (most recent call last):\nValueError: a\n  b\n")


def test_last_words_hide_secrets_and_keep_the_error_above_the_noise(world: World) -> None:
    world.ctx.environ = {**world.ctx.environ, "API_TOKEN": "hunter2-hunter2"}
    noise = "for i in $(seq 500); do echo tick $i; done"
    world.ended(f'echo "RuntimeError: bad key $API_TOKEN"; {noise}; exit 3', secrets=["API_TOKEN"])
    root = Path(world.site.base) / "runs/digits"
    rows = [json.loads(line) for line in (root / "events.jsonl").read_text().splitlines()]
    (said,) = [row["text"] for row in rows if row["kind"] == "said"]
    assert said.startswith("RuntimeError: bad key ***API_TOKEN***")
    assert "hunter2" not in said and said.endswith("tick 500") and len(said) < 8192


def test_runs_of_one_cause_are_alike_though_their_numbers_differ() -> None:
    first, known = judged(ended(), "OSError: [Errno 28] No space left on device: ckpt-12", ["universal"])
    other, same = judged(ended(), "tar: write error: No space left on device", ["universal"])
    assert known == same == "disk-full" and alike("failed", known, first) == alike("failed", same, other)
    lines = ["exit status 1: ValueError: bad value 0.25 at 0x7f", "exit status 1: ValueError: bad value 3e-4 at 0xa0"]
    assert judged(ended(), lines[0], ["universal"])[1] == ""
    assert len({alike("failed", "", line) for line in lines}) == 1
    assert alike("failed", "", "exit status 1") != alike("failed", "", "exit status 2")
    assert alike("failed", "", "ended by signal 9") != alike("failed", "", "ended by signal 11")
