"""A log is events in order: what the run got over is no cause, and words about something are no event."""

import random
import tomllib
from pathlib import Path
from typing import Any

import pytest

from sojourn.diagnose import evidence, grammar, scan
from sojourn.diagnose.case import BARE_LOG_SCOPE, Case
from sojourn.diagnose.events import events_of, last_error
from sojourn.diagnose.reason import Verdict, reason
from sojourn.store.gotchas import gotchas

FILES = sorted((Path(__file__).parent / "specimens/logs").glob("*.toml"))
CATALOG = {gotcha.id: gotcha for gotcha in gotchas()}
OOM = (
    'Traceback (most recent call last):\n  File "train.py", line 9, in step\n    loss.backward()\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
)
ON = "".join(f"step {n}/40 loss 0.5{n % 10}\n" for n in range(20, 41))
ALIVE: dict[str, Any] = {"run.alive": True, "run.step_advancing": True, "cg.oom_kill_delta": 0}
DONE: dict[str, Any] = {"run.exit_code": 0, "run.done_record": True, "run.alive": False, "cg.oom_kill_delta": 0}
FAILED: dict[str, Any] = {"run.exit_code": 1, "run.exit_signal": None, "run.alive": False, "run.exit_record": True}


def alone(log: str) -> Case:
    return evidence.from_log(scan.scan_log(log.encode(), gotchas()))


def beside(facts: dict[str, Any], log: str) -> Case:
    probes = {"logs/1.log": {"rc": 0, "stdout": log}}
    document = {"scope": sorted(BARE_LOG_SCOPE), "facts": facts, "probes": probes}
    return evidence.from_document(document, gotchas())


def judged(case: Case) -> Verdict:
    return reason(gotchas(), case)


def name_of(verdict: Verdict) -> str:
    return verdict.verdict.id if verdict.verdict else "healthy" if verdict.is_healthy else "undetermined"


def blockers(verdict: Verdict) -> list[str]:
    return [one.id for one in verdict.findings if one.status == "confirmed" and one.severity == "blocker"]


@pytest.mark.parametrize("facts", [{}, ALIVE, DONE], ids=["log alone", "alive", "done"])
def test_an_out_of_memory_that_a_search_for_the_batch_size_caught_is_no_cause(facts: dict[str, Any]) -> None:
    log = "trying batch size 64\n" + OOM + "trying batch size 32\n" + ON
    found = judged(beside(facts, log) if facts else alone(log))
    assert (name_of(found), blockers(found)) == ("healthy", [])


def test_an_error_that_the_run_got_over_is_not_what_ended_it_later() -> None:
    log = OOM + ON + "Traceback (most recent call last):\n  File \"train.py\", line 99, in end\nKeyError: 'best'\n"
    for case in (beside(FAILED, log), alone(log)):
        assert name_of(judged(case)) == "program-error"
        assert last_error(case) == "KeyError: 'best'"


def test_an_event_has_its_place_its_time_its_rank_its_kind_and_what_came_after() -> None:
    log = (
        "step 1/9 loss 0.5\n2026-11-21 10:00:07 [rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB\n"
        + ON
        + "[rank5]: OSError: [Errno 28] No space left on device\n"
    )
    events = {one.gotcha: one for one in events_of(alone(log))}
    first, last = events["gpu-out-of-memory"], events["disk-full"]
    assert (first.line, first.at, first.rank, first.kind) == (2, "2026-11-21 10:00:07", 3, "error")
    assert (first.after, first.is_recovered) == (21, True)
    assert (last.line, last.rank, last.kind, last.after, last.is_recovered) == (24, 5, "terminal", 0, False)
    assert [alone(log).value(name) for name in ("log.rank", "log.first_of")] == [
        5,
        "OSError: [Errno 28] No space left on device",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "+ grep -c 'CUDA out of memory' logs/1.log",
        "user@box:~/run$ grep 'CUDA out of memory' logs/1.log",
        "  --retry-oom BOOL    halve the batch after CUDA out of memory",
        "TrainArgs(lr=0.1, patterns=['CUDA out of memory', 'No space left on device'])",
        "config: {'stop_on': ['CUDA out of memory'], 'retry': 3}",
        "train.py:7: UserWarning: this batch may end in CUDA out of memory",
        "2026-11-21 10:00:00 WARNING: CUDA out of memory, the batch is skipped",
    ],
)
def test_words_about_an_error_are_no_error(line: str) -> None:
    found = judged(alone(f"loading\n{line}\n"))
    assert "gpu-out-of-memory" not in [one.id for one in found.findings if one.status == "confirmed"]
    came = judged(alone(f"loading\n{line}\n{OOM}"))
    assert name_of(came) == "gpu-out-of-memory"


@pytest.mark.parametrize("line", ["rank 0 | NCCL WARN Call to ibv_reg_mr failed", '{"level": "error", "msg": "x"}'])
def test_what_a_library_says_before_it_ends_is_an_event(line: str) -> None:
    assert line.split("|")[-1].strip() in alone(f"loading\n{line}\n").value("log.ended_by")


def test_conditions_of_blockers_never_rest_on_what_a_log_states_beside_its_events() -> None:
    said = [
        gotcha.id
        for gotcha in CATALOG.values()
        if gotcha.severity == "blocker" and gotcha.role != "advice"
        for condition in gotcha.confirm
        if {one.what for one in grammar.parse(condition)} <= {"log.said", "log.recovered"}
    ]
    assert said == []


def _survived(files: list[Path]) -> list[str]:
    wrong = []
    for file in files:
        case = tomllib.loads(file.read_text(encoding="utf-8"))
        log = case["log"].rstrip("\n") + "\n" + ON
        for facts in (ALIVE, DONE):
            if found := blockers(judged(beside(facts, log))):
                wrong.append(f"{file.stem}: {found}")
        bare = alone(log)
        records = {hit.gotcha for hit in bare.seen["log"].hits if hit.pattern.final}
        if found := sorted(set(blockers(judged(bare))) - records):  # who wrote a record ended the run, or nobody did
            wrong.append(f"{file.stem}, its log alone: {found}")
    return wrong


def test_the_last_lines_of_the_ranks_tell_which_one_stopped_first() -> None:
    late = "".join(f"2026-11-25 01:0{n}:00 [rank0]: step {n} loss 0.5\n" for n in range(9))
    found = alone("2026-11-25 01:00:10 [rank1]: step 0 loss 0.5\n" + late)
    assert found.value("mn.last_line_spread_s") == 470.0
    assert alone(late).value("mn.last_line_spread_s") is None


def test_no_real_error_that_a_run_got_over_is_a_confirmed_blocker() -> None:
    assert _survived(random.Random(19).sample(FILES, len(FILES) // 10)) == []


@pytest.mark.campaign
def test_no_real_error_at_all_that_a_run_got_over_is_a_confirmed_blocker() -> None:
    assert _survived(FILES) == []
