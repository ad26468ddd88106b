"""Real faults on a real GPU: `why` names them, and `status` says the same from the log's last words alone."""

import tomllib
from pathlib import Path

import pytest

from sojourn.box.run import lastwords
from sojourn.core.fold import Status
from sojourn.core.values import State
from sojourn.verbs.observe.reasons import judged
from tests.diagnose.test_logs import answer, some
from tests.diagnose.test_status_agrees import SCOPE, by_why, ended

LOGS = Path(__file__).parent / "specimens/cards"
FAULTS = {  # what went wrong, and the program's own words in `status` where no known cause stands
    "oom": ("gpu-out-of-memory", "CUDA out of memory"),
    "ctx-oom": ("gpu-out-of-memory", ""),
    "assert": ("gpu-assert", ""),
    "target": ("gpu-assert", ""),
    "illegal": ("gpu-illegal-access", ""),
    "nogpu": ("no-gpu-in-container", ""),
    "ordinal": ("gpu-number-not-there", ""),
    "mixed": ("program-error", "Expected all tensors to be on the same device"),
    "fork": ("cuda-in-forked-process", "Cannot re-initialize CUDA in forked subprocess"),
    "shm": ("shm-too-small", ""),
    "nccl-dup": ("ranks-share-a-card", ""),
    "nccl-rank-dies": ("program-error", "sample 1234 of shard 7 is corrupt"),
    "nan": ("loss-not-finite", ""),
    "sdpa": ("program-error", "No available kernel"),
    "segv": ("segfault", ""),
    "triton-smem": ("program-error", "out of resource: shared memory"),
    "cupy-oom": ("gpu-out-of-memory", ""),
    "cudnn": ("program-error", "expected input[1, 3, 8, 8] to have 5 channels"),
    "grad-none": ("loss-cut-from-graph", ""),
    "inplace": ("program-error", "modified by an inplace operation"),
    "pickle-worker": ("worker-cannot-be-pickled", ""),
    "worker-killed": ("program-error", "is killed by signal: Killed"),
    "ckpt-mismatch": ("checkpoint-does-not-fit", ""),
    "weights-only": ("unsafe-checkpoint", ""),
    "compile": ("program-error", "Failed to trace builtin operator"),
    "fp8": ("program-error", "not implemented for 'Float8_e4m3fn'"),
    "timeout-gloo": ("collective-timeout", ""),
}


def shown(log: str, rc: int = 1) -> tuple[str, str]:
    """(the reason in `status`, its id), as the keeper's record of the end gives it."""
    row = ended(rc, None, "", 0)
    return judged(Status(state=State.FAILED, attempt=1, ends=(row,)), lastwords.worth_keeping(log.encode()), SCOPE)


def test_each_fault_is_named_and_status_says_the_same() -> None:
    wrong = []
    for name, (cause, words) in FAULTS.items():
        log = (LOGS / f"{name}.log").read_text()
        best = by_why(ended(1, None, "", 0), log).verdict
        line, known = shown(log)
        if not best or best.id != cause or known != (cause if cause != "program-error" else ""):
            wrong.append((name, best and best.id, known))
        if cause == "program-error" and words not in line:
            wrong.append((name, line))
    assert wrong == []


@pytest.mark.parametrize("name", ["oom-caught", "busy"])
def test_what_went_well_is_healthy(name: str) -> None:
    assert by_why(ended(0, None, "", 0), (LOGS / f"{name}.log").read_text()).is_healthy


@pytest.mark.trials(test=40, campaign=100_000, soak=100_000)
def test_the_last_words_of_any_log_tell_what_the_whole_log_tells(trial_count: int) -> None:
    logs = [tomllib.loads(file.read_text("utf-8"))["log"] for file in some(trial_count)]
    differ = []
    for log in logs:
        best = answer(by_why(ended(1, None, "", 0), log))
        known = shown(log)[1]
        if known and known != best:
            differ.append((log[:200], best, known))
    assert len(differ) <= len(logs) // 300, differ
