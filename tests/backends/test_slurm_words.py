"""What Slurm prints, read without a Slurm: recorded from 22.05 in tests/lab/slurm, and the forms of older ones."""

import os
import subprocess
from pathlib import Path

import pytest

from sojourn.backends.slurm import output as slurm_output
from sojourn.backends.slurm import script as slurm_script
from sojourn.backends.slurm import share as slurm_share
from sojourn.backends.slurm.choice import CHOOSE
from sojourn.backends.slurm.states import hint, word
from sojourn.core.ports import LaunchRequest, SchedulerStatus
from sojourn.core.values import Pulse, State

OOM = """sojourn:squeue 0
8|FAILED|NonZeroExitCode|2026-11-21T17:54:31|n1|365-00:00:00
sojourn:sacct 0
8|FAILED|1:0|00:00:02|UNLIMITED|n1||150M
8.batch|FAILED|1:0|00:00:02||n1|4100K|
8.0|OUT_OF_MEMORY|0:125|00:00:02||n1|149.5M|
"""
REQUEUED = """sojourn:squeue 0
sojourn:sacct 0
1|REQUEUED|0:0|00:00:15|00:18:00|n1||900M
1.batch|FAILED|75:0|00:00:15||n1|5M|
1.0|FAILED|75:0|00:00:15||n1|61234K|
1|TIMEOUT|0:0|00:18:20|00:18:00|n2||900M
1.batch|CANCELLED|0:15|00:18:21||n2|5M|
"""
NO_ACCOUNTING = """sojourn:squeue 0
5|CANCELLED|None|2026-11-21T17:54:31|n1|18:00
sojourn:sacct 1
Slurm accounting storage is disabled
sojourn:scontrol
JobId=5 JobName=sojourn-runs UserId=me(1000) JobState=CANCELLED Reason=None Dependency=(null) Requeue=1 Restarts=0 \
ExitCode=0:15 TimeLimit=00:18:00 NodeList=n1 TRES=cpu=1,mem=300M,node=1
"""


def said(text: str, job: str) -> SchedulerStatus:
    return word(job, slurm_output.parse_answer(text))


def test_memory_is_seen_in_a_step_though_the_job_merely_failed() -> None:
    found = said(OOM, "8")
    assert found.pulse is Pulse.GONE and found.state is State.OOM
    assert "the 150M it requested (peak seen: 150M): request --mem=180M" in found.reason


def test_what_a_row_does_not_tell_yet_scontrol_does() -> None:
    text = OOM.replace("n1||150M", "n1||16?") + "sojourn:scontrol\nJobId=8 JobState=FAILED TRES=cpu=1,mem=150M,node=1\n"
    found = said(text, "8")
    assert found.state is State.OOM and "request --mem=180M (Slurm job 8: FAILED 1:0)" in found.reason


def test_of_a_job_that_ran_several_times_the_last_one_counts() -> None:
    found = said(REQUEUED, "1")
    assert found.state is State.TIMEOUT and "time limit of 00:18:00" in found.reason


def test_without_accounting_scontrol_tells_as_long_as_it_remembers() -> None:
    found = said(NO_ACCOUNTING, "5")
    assert found.state is State.CANCELLED and "Slurm job 5: CANCELLED 0:15" in found.reason
    forgotten = said("sojourn:squeue 1\nslurm_load_jobs error: Invalid job id specified\nsojourn:sacct 1\n"
                     "Slurm accounting storage is disabled\nsojourn:scontrol\n", "5")  # fmt: skip
    assert forgotten.pulse is Pulse.GONE and forgotten.state is None and "keeps no accounting" in forgotten.reason


def test_completed_without_a_record_of_our_own_is_no_success() -> None:
    found = said("sojourn:squeue 0\nsojourn:sacct 0\n5|COMPLETED|0:0|00:01:00|UNLIMITED|n1||300M\n", "5")
    assert found.pulse is Pulse.GONE and found.state is None and "counts as lost" in found.reason


def test_accounting_that_lags_behind_is_waited_for() -> None:
    late = "sojourn:squeue 0\n5|COMPLETED|None|2026-11-21T17:54:31|n1|18:00\nsojourn:sacct 0\n"
    for more in ("", "5|RUNNING|0:0|00:01:00|UNLIMITED|n1||300M\n"):
        found = said(late + more, "5")
        assert found.pulse is Pulse.GONE and found.is_late


@pytest.mark.parametrize(
    ("row", "state", "words"),
    [
        ("NODE_FAIL|1:0", State.LOST, "its node n1 failed"),
        ("PREEMPTED|0:0", State.PREEMPTED, "to a job with a higher priority"),
        ("CANCELLED by 1000|0:0", State.CANCELLED, "scancel) by 1000"),
        ("DEADLINE|0:0", State.TIMEOUT, "deadline"),
        ("BOOT_FAIL|0:0", State.LOST, "did not boot"),
        ("OUT_OF_MEMORY|0:125", State.OOM, "request --mem=360M"),
        ("FAILED|125:0", State.OOM, "request --mem=360M"),
        ("FAILED|0:9", State.KILLED, "signal 9"),
        ("FAILED|73:0", State.FAILED, "TMPDIR"),
        ("FAILED|3:0", None, "left no record of how it ended"),
        ("FAILED|75:0", State.PREEMPTED, "reclaimed its node"),
        ("FAILED|0:53", State.LOST, "could not open logs/ in its root"),
    ],
)
def test_each_end_in_slurm_is_a_state_of_ours_with_what_to_do(row: str, state: State | None, words: str) -> None:
    status, _, code = row.partition("|")
    found = said(f"sojourn:squeue 0\nsojourn:sacct 0\n5|{status}|{code}|00:01:00|UNLIMITED|n1||300Mn\n", "5")
    assert found.state is state and words in found.reason and f"Slurm job 5: {status.partition(' ')[0]}" in found.reason


def test_a_launch_failure_by_signal_9_is_memory_where_there_are_no_control_groups() -> None:
    text = "sojourn:squeue 0\n5|FAILED|JobLaunchFailure|2026-11-21T17:54:31|n1|18:00\nsojourn:sacct 0\n"
    found = said(text + "5|FAILED|0:9|00:01:00|UNLIMITED|n1|310M|300M\n", "5")
    assert found.state is State.OOM and "--mem=372M" in found.reason
    found = said(text + "5|FAILED|1:0|00:01:00|UNLIMITED|n1||300M\n", "5")
    assert found.state is State.LOST and "could not start it" in found.reason


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("(Resources)", "it is next in line"),
        ("Priority", "jobs with a higher priority come first; expected at 2026-11-22 08:00:00"),
        ("BeginTime", "Slurm holds it until 2026-11-22 08:00:00"),
        ("QOSMaxGRESPerUser", "its quality of service has reached its limit of GPUs (gres) per user; it starts when"),
        ("AssocGrpCpuLimit", "its account has reached its limit of CPUs"),
        ("AssocGrpCPUMinutesLimit", "its account has used up its minutes of CPUs"),
        ("QOSMaxWallDurationPerJobLimit", "it will never start: request less (Slurm"),
        ("QOSMinGRES", "accepts only larger requests (GPUs"),
        ("job requeued in held state", "it was requeued and is held (scontrol release 5) (Slurm"),
        ("launch failed requeued held", "it failed to start, so Slurm holds it (scontrol release 5) (Slurm"),
        ("DependencyNeverSatisfied", "it will never start"),
        ("ReqNodeNotAvail, UnavailableNodes:n2", "not available"),
        ("SomethingNew", "it is waiting (Slurm job 5: SomethingNew)"),
    ],
)
def test_a_reason_to_wait_is_said_in_words_with_slurms_own_beside_it(reason: str, words: str) -> None:
    found = said(f"sojourn:squeue 0\n5|PENDING|{reason}|2026-11-22T08:00:00||18:00\n", "5")
    assert found.pulse is Pulse.ALIVE and found.is_waiting and words in found.reason


def test_every_reason_that_slurm_knows_is_said_in_words() -> None:
    known = (Path(__file__).parent / "slurm_reasons.txt").read_text().split()
    assert len(known) > 180
    for reason in known:
        text = said(f"sojourn:squeue 0\n5|PENDING|{reason}|N/A||18:00\n", "5").reason
        assert f"(Slurm job 5: {reason})" in text and not text.startswith("it is waiting ("), text


@pytest.mark.parametrize("state", ["REQUEUE_HOLD", "SPECIAL_EXIT", "PENDING"])
def test_a_run_that_was_put_back_and_is_held_waits_for_its_release_and_for_no_time(state: str) -> None:
    found = said(f"sojourn:squeue 0\n5|{state}|job requeued in held state|2026-11-22T08:00:00||18:00\n", "5")
    assert found.pulse is Pulse.ALIVE and found.is_waiting
    assert "scontrol release 5" in found.reason and "expected" not in found.reason


def test_a_controller_that_is_away_makes_everything_unknown() -> None:
    text = "sojourn:squeue 1\nslurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"
    found = said(text, "5")
    assert found.pulse is Pulse.UNKNOWN and "Unable to contact" in found.reason


ARRAY = """sojourn:squeue 0
9_1|PENDING|JobArrayTaskLimit|N/A||UNLIMITED
9_0|RUNNING|None|2026-11-21T20:40:37|n1|18:00
sojourn:sacct 0
9_2|COMPLETED|0:0|00:00:02|UNLIMITED|n1||300M
9_2.batch|COMPLETED|0:0|00:00:02||n1|4100K|
9_[3,5-6%2]|CANCELLED by 0|0:0|00:00:00|UNLIMITED|None assigned||300M
"""


def test_each_task_of_an_array_is_told_apart() -> None:
    found = {number: said(ARRAY, f"9_{number}") for number in range(8)}
    assert found[0].pulse is Pulse.ALIVE and not found[0].is_waiting
    assert found[1].is_waiting and "as many cells as it may" in found[1].reason
    assert found[2].pulse is Pulse.GONE and found[2].state is None
    assert [found[n].state for n in (3, 5, 6)] == [State.CANCELLED] * 3
    assert found[4].state is None and "before it began" in found[4].if_unbegun, "no record: it never had one"
    assert said(ARRAY, "10_4").if_unbegun == ""


def test_without_accounting_the_tasks_that_never_began_are_in_one_line_of_scontrol() -> None:
    text = ARRAY.partition("sojourn:sacct")[0] + (
        "sojourn:sacct 1\nSlurm accounting storage is disabled\nsojourn:scontrol\n"
        "JobId=9 ArrayJobId=9 ArrayTaskId=3,5-6%2 JobState=CANCELLED Reason=JobArrayTaskLimit ExitCode=0:0\n"
        "JobId=11 ArrayJobId=9 ArrayTaskId=2 JobState=OUT_OF_MEMORY Reason=OutOfMemory ExitCode=0:125\n"
    )
    assert [said(text, f"9_{n}").state for n in (2, 3, 6)] == [State.OOM, State.CANCELLED, State.CANCELLED]


def test_what_waited_for_something_that_failed_says_so() -> None:
    text = "sojourn:squeue 0\n5|CANCELLED|DependencyNeverSatisfied|N/A||18:00\nsojourn:sacct 0\n"
    found = said(text + "5|CANCELLED|0:0|00:00:00|UNLIMITED|None assigned||300M\n", "5")
    assert found.state is State.CANCELLED and "`after`" in found.reason


@pytest.mark.parametrize(
    ("text", "size"),
    [("612K", 612 << 10), ("1.5G", 3 << 29), ("500Mn", 500 << 20), ("2Gc", 2 << 30), ("", 0), ("?", 0)],
)
def test_sizes_are_read_in_the_forms_of_old_and_new_versions(text: str, size: int) -> None:
    assert slurm_output.size_bytes(text) == size


@pytest.mark.parametrize(
    ("time", "seconds"),
    [("90", 5400), ("1:30", 90), ("2:00:00", 7200), ("1-12", 129600), ("1-0:30:5", 88205), ("x", 0)],
)
def test_a_time_limit_is_read_as_slurm_writes_it(time: str, seconds: int) -> None:
    assert slurm_script.seconds(time) == seconds


def script(settings: "dict[str, object] | None" = None, write_s: float = 0.0, **spec: object) -> str:
    return slurm_script.render(["keeper"], "/b/runs/r", LaunchRequest(spec, write_s), settings or {}, "hpc")


def test_the_signal_comes_a_measured_write_and_more_than_a_minute_before_the_limit() -> None:
    assert "--signal=B:USR1@150\n" in script()
    assert "--signal=B:USR1@290\n" in script(write_s=100.0)
    assert "--signal=B:USR1@60\n" in script({"time": 2}), "of a short limit at most half"
    assert "--signal=B:USR1@45\n" in script({"signal": "B:USR1@45"})
    with pytest.raises(slurm_script.BadOption):
        script({"signal": "TERM@45"})


def test_the_limit_follows_from_max_duration_with_room_for_setup_and_the_last_save() -> None:
    assert "--time=63\n" in script(max_duration_s=3600.0)
    assert "--time=73\n" in script(max_duration_s=3600.0, setup="pip install x")
    assert "--time=1-0\n" in script({"time": "1-0"}, max_duration_s=3600.0)


def test_srun_is_told_of_cpus_gpus_and_the_environment() -> None:
    text = script({"gpus_per_node": "a100:2", "cpus-per-task": 8})
    assert "#SBATCH --gpus-per-node=a100:2\n" in text and "--gpus-per-node=a100:2 --export=ALL" in text
    assert '--cpus-per-task="$SRUN_CPUS_PER_TASK"' in text


@pytest.mark.parametrize("bad", [{"mem": 'a"b'}, {"comment": "x\n#SBATCH --uid=0"}, {"mem": 1.5}, {"output": "x"}])
def test_a_value_that_would_break_out_of_its_line_is_refused(bad: "dict[str, object]") -> None:
    with pytest.raises(slurm_script.BadOption):
        script(bad)


def test_what_must_come_first_is_waited_for_and_the_job_is_taken_away_where_it_cannot() -> None:
    text = slurm_script.render(
        ["k"], "/b/runs/r", LaunchRequest({}, after=("3", "4_1")), {"dependency": "after:9"}, "hpc"
    )
    assert "#SBATCH --dependency=singleton,afterok:3:4_1,after:9\n" in text
    assert "#SBATCH --kill-on-invalid-dep=yes\n" in text and "kill-on-invalid-dep" not in script()
    with pytest.raises(slurm_script.BadOption):
        script({"dependency": "afterok:3?afterok:4"})


def test_several_nodes_are_one_task_each() -> None:
    text = script({"gres": "gpu:2"}, num_nodes=3)
    assert "#SBATCH --nodes=3\n#SBATCH --ntasks=3\n#SBATCH --ntasks-per-node=1\n" in text
    assert "--nodes=3 --ntasks=3 --ntasks-per-node=1" in text and "SOJOURN_SEAT_STEP" not in script()


SHARE = """1|7200|3600|billing=2,cpu=2,gres/gpu=2,mem=1G,node=1
1|3600|1800|billing=2,cpu=2,mem=1G,node=1
sojourn:sacct
 lab|me|1234|0.100000|0.731000
"""


def test_what_was_used_is_said_in_hours_and_as_a_share() -> None:
    assert slurm_share.line(SHARE) == (
        "its jobs used 3.00 CPU hours and 2.00 GPU hours; "
        "fair share of me in account lab: 0.731000 (1 is unused, 0 is used up)"
    )
    assert "keeps no accounting" in slurm_share.line("")


def test_a_hint_names_the_site() -> None:
    assert "[sites.hpc.sbatch]" in hint("sbatch: error: invalid partition specified: x", "hpc")


def test_no_json_is_asked_of_slurm() -> None:
    assert "json" not in Path(slurm_output.__file__).read_text().partition('"""')[2].partition('"""')[2].lower()


@pytest.mark.parametrize(
    ("kinds", "features", "lines"),
    [
        ("gpu:a100:4,gpu:h100:8(S:0-1)", "ib,A100,h100", ["--gres=gpu:2", "--constraint=A100|h100"]),
        ("gpu:a100:4,gpu:h100:8", "ib,a100", ["--gres=gpu:a100:2"]),
        ("gpu:h100:8", "(null)", ["--gres=gpu:h100:2"]),
        ("gpu:8", "(null)", ["--gres=gpu:a100:2"]),
    ],
)
def test_any_of_several_gpus_is_asked_for_as_far_as_the_cluster_can_tell_them_apart(
    tmp_path: Path, kinds: str, features: str, lines: list[str]
) -> None:
    (tmp_path / "sinfo").write_text(f"#!/bin/sh\ncase $* in *%G*) echo '{kinds}' ;; *) echo '{features}' ;; esac\n")
    (tmp_path / "sinfo").chmod(0o755)
    text = script(resources={"accelerators": ["A100:2", "H100:2"]})
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-c", CHOOSE + 'choose "$1"', "sh", text], env=env, capture_output=True, text=True)
    chosen = [line for line in done.stdout.splitlines() if "gres" in line[:20] or "constraint" in line[:24]]
    assert chosen == [f"#SBATCH {line}" for line in lines], done
