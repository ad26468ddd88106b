"""Two looks at one run, and what one probe says of another's."""

from typing import Any

from sojourn.diagnose import evidence
from sojourn.diagnose.reason import reason
from sojourn.store.gotchas import gotchas

HEAD = "pid ppid start state threads cpu_s cpu_delta_s read_delta write_delta rss_kib pss_kib fds wchan comm\n"
LAUNCH = {"pid": 70, "start": 5, "shim": {"pid": 69}}


def tree(cpu_s: float, state: str = "S", pid: int = 70) -> dict[str, Any]:
    row = f"{pid} 69 5 {state} 4 {cpu_s:.2f} 0.00 0 0 2048 1024 9 wait python3\n"
    return {"rc": 0, "stdout": HEAD + row, "stderr": "", "window_s": 0.5}


def progress(step: int) -> dict[str, Any]:
    return {"rc": 0, "stdout": f'{{"step": {step}, "total": 100}}', "stderr": ""}


def case(probes: dict[str, Any], before: dict[str, Any] | None = None, **more: Any) -> Any:
    document = {"launch": LAUNCH, "probes": probes, **more}
    return evidence.from_document({**document, "before": {"probes": before}} if before else document, gotchas())


def test_a_step_that_came_since_the_look_before_is_movement() -> None:
    seen = case({"progress/1.json": progress(8), "process tree": tree(9)}, {"progress/1.json": progress(7)})
    assert seen.value("run.step_advancing") is True
    assert reason(gotchas(), seen).is_healthy


def test_cpu_time_is_counted_between_the_looks_and_of_the_same_processes() -> None:
    seen = case({"process tree": tree(9.5)}, {"process tree": tree(2.0)})
    assert seen.value("run.cpu_delta_s") == 7.5
    assert case({"process tree": tree(9.5)}, {"process tree": tree(2.0, pid=71)}).value("run.cpu_delta_s") is None


def test_a_newer_checkpoint_is_movement_and_the_same_one_is_not() -> None:
    old = {"checkpoints": {"rc": 0, "stdout": "now 90.0\n50.0 10 a.pt\n", "stderr": ""}}
    new = {"checkpoints": {"rc": 0, "stdout": "now 99.0\n95.0 10 b.pt\n50.0 10 a.pt\n", "stderr": ""}}
    assert case(new, old).value("run.ckpt_advancing") is True
    assert case(old, old).value("run.ckpt_advancing") is False


def test_what_a_payload_left_behind_is_not_the_run() -> None:
    assert case({"process tree": tree(1, pid=99)}).value("run.alive") is False
    assert case({"process tree": tree(1)}).value("run.alive") is True


def test_a_process_that_was_stopped_stands_still_and_is_not_dead() -> None:
    found = reason(gotchas(), case({"process tree": tree(1, "T")}))
    assert found.verdict is not None and found.verdict.id == "process-frozen"


def test_a_probe_that_could_not_look_says_nothing() -> None:
    denied = {"rc": 1, "stdout": "", "stderr": "EACCES: Permission denied"}
    names = ("/proc/70/environ", "exits/1.json", "process tree", "progress/1.json", "checkpoints", "logs/1.log")
    assert sorted(case(dict.fromkeys(names, denied)).facts.known) == ["run.detached"]


def test_what_the_box_says_today_fills_gaps_and_overrules_nothing() -> None:
    then = {"/proc/loadavg": {"rc": 0, "stdout": "1.00 1 1 1/9 5\n", "stderr": ""}}
    today = {
        "/proc/loadavg": {"rc": 0, "stdout": "9.00 1 1 1/9 5\n", "stderr": ""},
        "nproc": {"rc": 0, "stdout": "8\n", "stderr": ""},
    }
    seen = case(then, now={"probes": today})
    assert (seen.value("box.load1"), seen.value("box.nproc")) == (1.0, 8)


def test_a_memory_kill_that_the_end_knows_nothing_of_hit_somebody_else() -> None:
    facts = {"cg.oom_kill_delta": 1, "run.exit_code": 1, "box.pid1_changed": False}
    error = "Traceback (most recent call last):\n  File 'a.py', line 1\nKeyError: 'lr'\n"
    worker = (
        "Traceback (most recent call last):\nRuntimeError: DataLoader worker (pid 7) is killed by signal: Killed.\n"
    )
    found = {
        log: reason(gotchas(), evidence.from_document({"facts": facts, "probes": {"log": {"stdout": log}}}, gotchas()))
        for log in (error, worker)
    }
    assert [one.verdict.id for one in found.values() if one.verdict] == ["program-error", "memory-limit-kill"]


def test_the_command_says_where_the_epochs_come_from_and_how_few_workers_are_enough() -> None:
    launch = {**LAUNCH, "argv": ["bash", "-c", "torchrun --nnodes=2:4 train.py --epochs 30"]}
    seen = evidence.from_document({"launch": launch}, gotchas())
    assert (seen.value("cfg.epochs_source"), seen.value("mn.min_np")) == ("cli", 2)
    plain = evidence.from_document({"launch": {**LAUNCH, "argv": ["python", "train.py"]}}, gotchas())
    assert (plain.value("cfg.epochs_source"), plain.value("mn.min_np")) == (None, None)


def test_a_run_that_its_scheduler_holds_or_whose_machine_was_restarted_does_not_go_on() -> None:
    moved = {"run.step_advancing": True}
    assert case({}, facts=moved).goes_on
    for held in ({"sl.state": "SUSPENDED"}, {"sl.state": "REQUEUED"}, {"box.pid1_changed": True}):
        assert not case({}, facts={**moved, **held}).goes_on
    assert case({}, facts={**moved, "box.boot_id_changed": True, "run.alive": True}).goes_on
