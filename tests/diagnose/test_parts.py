"""A file that several jobs wrote into: the last one decides, what came before is history."""

from pathlib import Path

import pytest

from sojourn.diagnose import evidence, scan
from sojourn.diagnose.reason import Verdict, reason
from sojourn.store.gotchas import gotchas
from sojourn.verbs.explain.why import of_log
from tests.diagnose.test_logs import answer

RULE = "-" * 60


def report(words: str, *, is_above: bool = True, output: str = "") -> str:
    """LSF's report of a job: after its output, or before it as in a mail."""
    head = (
        f"{RULE}\nSender: LSF System <lsf@node-2>\nSubject: Job 7: <train> in cluster <c>\n\nYour job looked like:\n\n"
    )
    usage = f"{RULE}\n\n{words}\n\nResource usage summary:\n\n    CPU time : 100 sec.\n\n"
    if is_above:
        return f"{output}\n{head}{usage}The output (if any) is above this job summary.\n\n"
    return f"{head}{usage}The output (if any) follows:\n\n{output}\n"


KILLED = "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.\nExited with exit code 137."
WELL = "Successfully completed."
ERROR = "Traceback (most recent call last):\n  File \"t.py\", line 3, in f\nKeyError: 'x'"


def judged(log: str) -> Verdict:
    return reason(gotchas(), evidence.from_log(scan.scan_log(log.encode(), gotchas())))


def test_a_job_that_was_sent_again_and_ended_well_is_finished() -> None:
    for is_above in (True, False):
        log = report(KILLED, is_above=is_above, output="games 100\nKilled")
        log += report(WELL, is_above=is_above, output="games 4000 of 4000")
        assert answer(judged(log)) == "healthy", is_above


def test_the_last_job_decides_also_where_it_is_the_one_that_failed() -> None:
    for is_above in (True, False):
        log = report(WELL, is_above=is_above, output="games 4000 of 4000")
        log += report(KILLED, is_above=is_above, output="games 100\nKilled")
        assert answer(judged(log)) == "memory-limit-kill", is_above


def test_the_error_of_an_earlier_job_is_not_the_last_ones() -> None:
    log = report("Exited with exit code 1.", output=ERROR) + report(KILLED, output="games 100\nKilled")
    assert answer(judged(log)) == "memory-limit-kill"
    log = report(KILLED, output="games 100\nKilled") + report("Exited with exit code 1.", output=ERROR)
    assert answer(judged(log)) == "program-error"


def test_what_a_shell_said_before_the_program_ran_is_no_cause() -> None:
    log = "Lmod has detected the following error: The following module(s) are unknown:\n\n" + ERROR + "\n"
    assert answer(judged(log)) == "program-error"


LIMIT = "slurmstepd: error: *** STEP 12.0 ON n3 CANCELLED AT 2026-05-01T10:00:00 DUE TO TIME LIMIT ***\n"


@pytest.mark.parametrize(
    ("log", "outcome", "rc"),
    [
        ("step 5 loss 1.2\n[rank: 0] Received SIGUSR1: 10\nRequeued SLURM job: 12\n" + LIMIT, "requeued", 0),
        ("step 5 loss 1.2\nsubmitit INFO (2026-05-01) - Requeued job 12_0 (3 remaining timeouts)\n", "requeued", 0),
        ("step 5 loss 1.2\n" + LIMIT, None, 1),
        (report(WELL, output="games 4000 of 4000"), "finished", 0),
        ("step 5 loss 1.2\nRequeued SLURM job: 12\n" + "".join(f"step {n} loss 1\n" for n in range(9)), None, 0),
    ],
)
def test_the_outcome_is_told_and_what_waits_is_not_sent_again(
    tmp_path: Path, log: str, outcome: str | None, rc: int
) -> None:
    (tmp_path / "log").write_text(log)
    answer = of_log(str(tmp_path / "log"))
    assert (answer.outcome, answer.exit_status) == (outcome, rc)
    if outcome == "requeued":
        advice = [finding.fix for finding in answer.judged.findings]
        assert advice and not any("ubmit it again" in fix or "ubmit the same job again" in fix for fix in advice)
