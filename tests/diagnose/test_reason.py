"""Findings: causes before consequences, records before inference, conflicts shown, what is unknown named."""

import json
from typing import Any

import pytest

from sojourn.diagnose import evidence, scan
from sojourn.diagnose.evidence import NotEvidence
from sojourn.diagnose.reason import Verdict, reason
from sojourn.store.gotchas import gotchas

DEAD = {"run.alive": False, "run.exit_signal": 9, "run.exit_record": True}


def judged(facts: dict[str, Any], scope: list[str] | None = None, **more: Any) -> Verdict:
    document = {"schema": "sojourn/evidence/v1", "scope": scope or ["universal"], "facts": facts, **more}
    return reason(gotchas(), evidence.from_document(document, gotchas()))


def best(verdict: Verdict) -> str:
    return verdict.verdict.id if verdict.verdict else "healthy" if verdict.is_healthy else "undetermined"


def status(verdict: Verdict, name: str) -> str:
    return next((f.status for f in verdict.findings if f.id == name), "")


def test_a_killed_process_is_out_of_memory_only_by_the_counter() -> None:
    assert best(judged({**DEAD, "cg.oom_kill_delta": 1, "box.pid1_changed": False})) == "memory-limit-kill"
    by_hand = judged({**DEAD, "cg.oom_kill_delta": 0, "box.pid1_changed": False, "run.stop_requested": False})
    assert best(by_hand) == "killed-unknown"
    assert status(by_hand, "memory-limit-kill") == "ruled-out"


def test_without_the_counter_the_answer_is_open_and_names_the_probe() -> None:
    found = judged(DEAD)
    assert found.verdict is None
    assert status(found, "memory-limit-kill") == "likely"
    said = [e for f in found.findings if f.status == "blind" for e in f.evidence]
    assert any(e.what == "cg.oom_kill_delta" and "cgroup" in e.source for e in said)


def test_the_schedulers_record_stands_before_what_the_box_infers() -> None:
    found = judged(
        {**DEAD, "cg.oom_kill_delta": 1, "box.pid1_changed": False, "sl.state": "TIMEOUT"}, ["universal", "slurm"]
    )
    assert best(found) == "walltime"
    assert status(found, "memory-limit-kill") == "confirmed"


def pod(code: int, phase: str) -> Verdict:
    ended = {"name": "train", "state": {"terminated": {"reason": "OOMKilled", "exitCode": code}}}
    told = {"kind": "Pod", "apiVersion": "v1", "status": {"phase": phase, "containerStatuses": [ended]}}
    return judged({}, ["kubernetes"], probes={"kubectl get pod -o json": {"rc": 0, "stdout": json.dumps(told)}})


def test_a_pods_memory_kill_is_the_cause_only_where_its_first_process_did_not_end_otherwise() -> None:
    assert best(pod(137, "Failed")) == best(pod(1, "Failed")) == "k8s-out-of-memory"
    assert best(pod(143, "Failed")) == "ended-by-term"
    survived = pod(0, "Succeeded")  # a child was killed: nobody knows whether the work is whole
    assert best(survived) == "undetermined" and status(survived, "k8s-out-of-memory") == "likely"


def test_an_error_of_the_driver_at_the_end_of_a_log_is_no_progress() -> None:
    def log(after: str) -> str:
        steps = "".join(f"step {n}/1000 loss 0.5\n" for n in range(200))
        return best(reason(gotchas(), evidence.from_log(scan.scan_log((steps + after).encode(), gotchas()))))

    xid = "[123456.789] NVRM: Xid (PCI:0000:65:00): %d, pid=123, name=python\n"
    assert log("") == "healthy"
    assert [log(xid % code) for code in (79, 31, 154)] == ["gpu-hardware-fault", "gpu-program-fault", "undetermined"]
    assert log(xid % 31 + "step 201/1000\nstep 202/1000\nstep 203/1000\n") == "healthy"


def test_completed_is_not_success() -> None:
    found = judged({"sl.state": "COMPLETED", "run.done_record": False}, ["universal", "slurm"])
    assert best(found) == "completed-but-unfinished"
    assert not found.is_healthy


def test_a_restart_is_seen_by_pid_1_and_not_by_uptime() -> None:
    gone = {"run.alive": False, "run.exit_record": False}
    assert best(judged({**gone, "box.pid1_changed": True})) == "box-restarted"
    assert best(judged({**gone, "box.uptime_s": 60})) != "box-restarted"


def test_evidence_for_and_against_is_a_conflict_on_which_nobody_acts() -> None:
    found = judged({"disk.ro": True, "disk.probe_write": "ok"})
    assert status(found, "file-system-failing") == "conflict"
    assert best(found) == "undetermined"
    assert found.exit_status == 10


def test_a_refused_connection_never_says_dead() -> None:
    found = judged({"ssh.class": "refused", "ssh.rc": 255})
    assert best(found) == "ssh-refused"
    assert "never" in found.verdict.never if found.verdict else False
    assert status(found, "process-vanished") == ""


def test_a_dropped_poll_and_a_loud_neighbour_are_no_trouble() -> None:
    moving = {"run.alive": True, "run.step_advancing": True, "run.ckpt_advancing": True}
    dropped = judged({**moving, "ssh.class": "closed_mid", "ssh.rc": 255})
    loud = judged(
        {**moving, "box.load1": 400, "box.nproc": 64, "cg.psi_cpu": 1, "cg.oom_kill_delta": 0, "cg.mem_frac": 0.5}
    )
    quiet = judged({**moving, "run.log_age_s": 900})
    for found, name in ((dropped, "dropped-poll"), (loud, "neighbour-is-loud"), (quiet, "log-held-back")):
        assert found.is_healthy
        assert found.exit_status == 0
        assert status(found, name) == "confirmed"


def test_a_platforms_entry_fires_there_and_nowhere_else() -> None:
    facts = {"disk.mount_kind": "shared", "disk.inodes_pct": 0.995, "disk.bytes_pct": 0.34}
    assert best(judged(facts, ["universal", "autodl"])) == "autodl-inode-cap"
    assert best(judged(facts)) == "inodes-used-up"


def test_the_number_of_a_merged_entry_is_shown_on_its_platform() -> None:
    facts = {"run.alive": False, "run.exit_record": False, "box.boot_id_changed": True}
    assert [judged(facts, ["universal", s]).verdict.was for s in ("ssh", "local")] == ["GEN6", "LOC4"]  # type: ignore[union-attr]


def test_the_more_special_one_stands_before_the_general_one() -> None:
    found = judged({"disk.probe_write": "EDQUOT", "disk.inodes_pct": 0.2, "run.log_text": "Disk quota exceeded"})
    assert [f.id for f in found.findings if f.status == "confirmed"][:2] == ["disk-quota", "disk-full"]


@pytest.mark.parametrize("withheld", ["cg.oom_kill_delta", "box.pid1_changed", "run.exit_signal", "run.stop_requested"])
def test_with_a_fact_withheld_the_verdict_is_right_or_open_never_wrong(withheld: str) -> None:
    facts = {**DEAD, "cg.oom_kill_delta": 1, "box.pid1_changed": False, "run.stop_requested": False}
    del facts[withheld]
    found = judged(facts)
    assert best(found) in ("memory-limit-kill", "undetermined")


def test_raw_text_wins_over_a_given_fact() -> None:
    probes = {
        "/sys/fs/cgroup/memory.events": {"rc": 0, "stdout": "low 0\nhigh 0\nmax 3\noom 1\noom_kill 1\n", "at": "T"}
    }
    found = judged({**DEAD, "box.pid1_changed": False, "cg.oom_kill_delta": 0}, probes=probes, launch={"oom_kill": 0})
    assert best(found) == "memory-limit-kill"
    assert [e.at for e in found.verdict.evidence if e.what == "cg.oom_kill_delta"] == ["T"]  # type: ignore[union-attr]


def test_nothing_known_is_undetermined_and_not_healthy() -> None:
    assert (best(judged({})), judged({}).exit_status) == ("undetermined", 10)


def test_success_needs_its_own_record() -> None:
    assert judged({"run.exit_code": 0, "run.done_record": True, "run.alive": False}).is_healthy
    assert not judged({"run.exit_code": 0, "run.alive": False}).is_healthy


def test_what_is_not_evidence_is_refused() -> None:
    for document in ([], {"schema": "sojourn/run/v1"}, {"facts": []}):
        with pytest.raises(NotEvidence):
            evidence.from_document(document, gotchas())


def test_what_only_follows_is_no_verdict_while_something_speaks_for_and_against_a_cause() -> None:
    log = "Traceback (most recent call last):\n  File x\nOSError: [Errno 28] No space left on device\n"
    probes = {"exits/1.json": {"rc": 0, "stdout": '{"rc":1,"signal":null}'}, "logs/1.log": {"rc": 0, "stdout": log}}
    probes["write probe"] = {"rc": 0, "stdout": "ok"}  # the run's own disk takes files; no table tells of the others
    unseen = judged({}, probes=probes)
    assert (best(unseen), status(unseen, "disk-full")) == ("undetermined", "conflict")
    table = "Filesystem 1024-blocks Used Available Capacity Mounted on\n"
    seen = {
        **probes,
        "df -Pk": {"rc": 0, "stdout": table + "tmpfs 4096 4096 0 100% /dev/shm\n/dev/sda1 900 9 891 1% /\n"},
    }
    assert best(judged({}, probes=seen)) == "shm-too-small"


def test_a_success_of_which_the_log_could_not_be_read_is_not_called_healthy() -> None:
    exits = {"exits/1.json": {"rc": 0, "stdout": '{"rc":0,"signal":null}'}}
    facts = {"run.done_record": True}
    assert best(judged(facts, probes=exits)) == "undetermined"
    logs = {"logs/1.log": {"rc": 0, "stdout": "step 9/9 loss 0.1\ntraining complete\n"}}
    assert best(judged(facts, probes={**exits, **logs})) == "healthy"


def test_what_a_card_shows_after_a_run_has_ended_is_no_cause_of_its_end() -> None:
    """As on an H200 that trained something else by then."""
    shows = {"gpu.mem_used": 110_000_000_000, "gpu.util": 100, "gpu.power_frac": 0.3, "gpu.mem_util": 5}
    ended = {"run.alive": False, "run.exit_code": 1, "run.exit_record": True}
    scope = ["universal", "local"]

    def found(said: str, **facts: object) -> list[str]:
        document = {"scope": scope, "facts": {**shows, **facts}, "probes": {"log": {"stdout": said}}}
        return [one.id for one in reason(gotchas(), evidence.from_document(document, gotchas())).findings]

    gauges = {"desktop-holds-vram", "busy-but-starved"}
    error = "Traceback (most recent call last):\n  File \"t.py\", line 3, in f\nKeyError: 'x'\n"
    assert not gauges & set(found(error, **ended))
    assert not gauges & set(found("done\n", **{**ended, "run.exit_code": 0, "run.done_record": True}))
    full = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 8.00 GiB.\n"
    assert "desktop-holds-vram" in found(full, **ended)
    assert "busy-but-starved" in found("step 1 loss 2\n", **{"run.alive": True})
