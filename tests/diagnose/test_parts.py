"""A file that several jobs wrote into: the last one decides, what came before is history."""

from sojourn.diagnose import evidence, scan
from sojourn.diagnose.reason import Verdict, reason
from sojourn.store.gotchas import gotchas
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
