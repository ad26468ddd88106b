"""The evidence of an attempt: what is told, what is kept, what hangs and what is hidden."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sojourn.box.evidence import KEPT_BYTES, PROBES
from sojourn.box.probes import room
from sojourn.box.run import masking
from sojourn.box.run.attempt_context import AttemptContext
from sojourn.box.run.root import Root
from sojourn.box.supervise.snapshots import ROOM_BYTES
from sojourn.box.system import bounded, cgroup, members, raw
from sojourn.wire import atomic
from tests.box.rig import Rig, found, heard, until
from tests.lab import machine_faults

# What every machine with /proc can tell of a payload that lives.
ALWAYS = {
    "/proc/sys/kernel/random/boot_id",
    "/proc/1/stat",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/uptime",
    "affinity",
    "checkpoints",
    "clock",
    "df -Pi",
    "df -Pk",
    "dmesg",
    "events.jsonl",
    "exits/1.begun.json",
    "exits/1.json",
    "hostname",
    "interfaces",
    "keeper.json",
    "leftovers",
    "listening",
    "logs/1.log",
    "mountinfo",
    "nproc",
    "process tree",
    "ps -eo pid,ppid,stat,etimes,rss,args",
    "resolve",
    "write probe",
}


def said(root: Root, word: str) -> bool:
    """Whether the payload's log holds a word by now."""
    return os.path.exists(root.log(1)) and word in Path(root.log(1)).read_text(errors="replace")


def test_a_living_run_is_told_with_what_was_kept_at_its_launch(rig: Rig) -> None:
    root = rig.place("echo hello; sleep 300 & wait")
    rig.supervise(root)
    begun, started = heard(root, "attempt"), heard(root, "started")
    until(lambda: said(root, "hello") and len(members.below(started["pid"])) == 2)
    evidence = rig.evidence(root)
    assert (evidence["schema"], evidence["run"], evidence["attempt"]) == ("sojourn/evidence/v1", "r", 1)
    assert evidence["here"] is True and "now" not in evidence
    probes = evidence["probes"]
    assert set(probes) >= ALWAYS
    for name, entry in probes.items():
        assert isinstance(entry["rc"], int) and isinstance(entry["stdout"], str) and entry["at"].endswith("Z"), name
    launch = evidence["launch"]
    assert {key: launch[key] for key in ("boot_id", "pid1_start", "oom_kill", "groups", "room", "uptime_s")} == {
        key: begun[key] for key in ("boot_id", "pid1_start", "oom_kill", "groups", "room", "uptime_s")
    }
    assert (launch["pid"], launch["start"], launch["root"]) == (started["pid"], started["start"], root.path)
    assert probes["logs/1.log"]["stdout"] == "hello\n" and probes["logs/1.log"]["size"] == 6
    assert probes["/proc/%d/stat" % launch["pid"]]["stdout"].split()[21] == str(launch["start"])
    assert probes["exits/1.json"]["stdout"] == "" and probes["exits/1.json"]["stderr"].startswith("ENOENT")
    assert probes["write probe"]["stdout"] == "ok\n"
    assert not [name for name in os.listdir(root.exits) if name.startswith(".write-probe")]
    own = {row.split()[0] for row in probes["process tree"]["stdout"].splitlines()[1:]}
    assert own == {str(pid) for pid in members.below(launch["pid"])} and len(own) == 2


def test_an_end_that_was_bad_is_kept_with_the_machine_as_it_was_then(rig: Rig) -> None:
    root = rig.place("sleep 300 & until grep -q sleep /proc/$!/comm; do sleep 0.05; done; exit 3")
    assert rig.finish(root)["state"] == "failed"
    kept = json.loads(Path(root.evidence(1)).read_text(encoding="utf-8"))
    assert kept["why"] == "end" and "sleep" in kept["probes"]["process tree"]["stdout"]  # before it was tidied away
    assert os.listdir(os.path.dirname(root.evidence(1))) == ["1.json"]
    evidence = rig.evidence(root)
    assert evidence["taken"] == kept["taken"]
    assert evidence["probes"]["process tree"] == kept["probes"]["process tree"]
    assert "sleep" not in evidence["now"]["probes"]["process tree"]["stdout"]
    assert '"kind":"sealed"' in evidence["probes"]["events.jsonl"]["stdout"]  # records are as they are now
    assert '"rc":3' in evidence["probes"]["exits/1.json"]["stdout"]


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("script, state", [("true", "succeeded"), ("exit 75", "preempted")])
def test_of_a_good_end_nothing_is_kept(rig: Rig, script: str, state: str) -> None:
    root = rig.place(script)
    assert rig.finish(root)["state"] == state
    assert os.listdir(os.path.dirname(root.evidence(1))) == []


def test_room_for_the_last_look_is_taken_before_the_payload_begins(rig: Rig) -> None:
    root = rig.place("sleep 300")
    rig.supervise(root)
    heard(root, "beat")
    taken = os.stat(root.evidence(1) + ".room")
    assert taken.st_size == ROOM_BYTES > KEPT_BYTES and taken.st_mtime_ns < os.stat(root.begun(1)).st_mtime_ns


def test_an_end_that_a_killed_keeper_recorded_is_looked_at_by_the_next(rig: Rig) -> None:
    root = rig.place("exec sleep 300")
    keeper = rig.supervise(root)
    pid = heard(root, "started")["pid"]
    keeper.kill()
    keeper.wait(60)
    os.kill(pid, signal.SIGKILL)
    until(lambda: os.path.exists(root.exit(1)))
    assert rig.finish(root)["state"] == "killed"
    assert json.loads(Path(root.evidence(1)).read_text(encoding="utf-8"))["why"] == "end"


@pytest.mark.campaign
def test_what_ran_on_another_machine_is_told_by_its_root_alone(rig: Rig) -> None:
    root = rig.place("exit 3")
    rig.finish(root)
    lines = Path(root.events).read_text().replace('"host":"%s"' % os.uname().nodename, '"host":"elsewhere"')
    Path(root.events).write_text(lines)
    kept = atomic.read_json(root.evidence(1))
    evidence = rig.evidence(root)
    assert evidence["here"] is False and "now" not in evidence  # what was kept is of this machine: not of that run's
    assert {"events.jsonl", "logs/1.log", "write probe", "df -Pk"} <= set(evidence["probes"])
    assert not {"dmesg", "/proc/1/stat", "hostname", "process tree"} & set(evidence["probes"])
    atomic.write_json(root.evidence(1), dict(kept, host="elsewhere"))
    evidence = rig.evidence(root)
    assert evidence["probes"]["/proc/1/stat"] == kept["probes"]["/proc/1/stat"]
    assert "dmesg" not in evidence["now"]["probes"]


@pytest.mark.campaign
def test_an_earlier_attempt_is_told_when_it_is_asked_for(rig: Rig) -> None:
    root = rig.place('test "$SOJOURN_ATTEMPT" = 2')
    rig.finish(root)
    rig.call("want", run="r", attempt=2, by="resume", token="t")
    rig.finish(root)
    first, last = rig.evidence(root, attempt=1), rig.evidence(root)
    assert (first["attempt"], last["attempt"]) == (1, 2)
    assert '"rc":1' in first["probes"]["exits/1.json"]["stdout"] and first["launch"]["attempt"] == 1
    assert '"rc":0' in last["probes"]["exits/2.json"]["stdout"]
    assert '"kind":"ended","attempt":1' in last["probes"]["events.jsonl"]["stdout"]


@pytest.mark.campaign
def test_a_run_that_never_began_has_evidence_too(rig: Rig) -> None:
    root = rig.place("true")
    evidence = rig.evidence(root)
    assert evidence["attempt"] == 0 and evidence["probes"]["events.jsonl"]["stdout"] == ""
    assert rig.call("bundle", run="nobody")["code"] == "no-such-run"


@pytest.mark.campaign
def test_secrets_are_in_none_of_it(rig: Rig) -> None:
    secret = "hunter2-very-secret"
    script = "echo $MY_TOKEN; python3 -c 'import time; time.sleep(300)' --api-key=abcdefgh & sleep 300"
    root = rig.place(script + " # " + "password: qwertyuiop", secrets=["MY_TOKEN"], envs={"OTHER_SECRET": "zxcvbnm123"})
    rig.call("want", run="r", attempt=1, by="run", token="t", secrets={"MY_TOKEN": secret})
    rig.supervise(root)
    until(lambda: said(root, secret))
    evidence = rig.evidence(root)
    told = json.dumps(evidence)
    for hidden in (secret, "abcdefgh", "zxcvbnm123", "qwertyuiop"):
        assert hidden not in told, hidden
    environ = evidence["probes"]["/proc/%d/environ" % evidence["launch"]["pid"]]["stdout"].split("\n")
    assert {"MY_TOKEN", "OTHER_SECRET", "PYTHONUNBUFFERED=1", "SOJOURN_TOKEN=1"} <= set(environ)


@pytest.mark.campaign
def test_what_is_kept_hides_them_as_well(rig: Rig) -> None:
    root = rig.place("echo $MY_TOKEN; sleep 300 & exit 1", secrets=["MY_TOKEN"])
    rig.call("want", run="r", attempt=1, by="run", token="t", secrets={"MY_TOKEN": "hunter2-very-secret"})
    rig.finish(root)
    kept = Path(root.evidence(1)).read_text(encoding="utf-8")
    assert "hunter2" not in kept and "***MY_TOKEN***" in kept


@pytest.mark.parametrize(
    "words, shown",
    [
        (["x", "--token", "abc", "y"], "x --token *** y"),
        (["x", "--token", "--other"], "x --token --other"),
        (["x", "--hf-token=abc"], "x --hf-token=***"),
        (["WANDB_API_KEY=abc", "x"], "WANDB_API_KEY=*** x"),
        (["curl", "-H", "Authorization: Bearer abc"], "curl -H Authorization: ***"),
        (["git", "clone", "https://me:abc@host/x"], "git clone https://***@host/x"),
        (["bash", "-c", "export PASSWORD='a b c'; run"], "bash -c export PASSWORD=***; run"),
        (["x", "--max-tokens", "512", "--tokenizer", "bert"], "x --max-tokens 512 --tokenizer bert"),
    ],
)
def test_what_looks_like_a_password_is_not_shown_of_a_command(words: Any, shown: str, tmp_path: Path) -> None:
    assert masking.Words(Root(str(tmp_path))).argv(words) == shown


@pytest.mark.campaign
@pytest.mark.lab
def test_a_mount_that_never_answers_costs_its_own_row_and_nothing_else(rig: Rig, tmp_path: Path) -> None:
    with machine_faults.dead_mount(tmp_path) as dead:
        where, wanted = {"HF_HOME": f"{dead}/cache", "TMPDIR": str(dead)}, {"set": {"HF_ENDPOINT": "https://m.example"}}
        root = rig.place("exec sleep 300", envs=where, platform_env=wanted)
        rig.supervise(root)
        heard(root, "beat")
        evidence = rig.evidence(root)  # comes at all: the mount never answers
        df = evidence["probes"]["df -Pk"]
        assert df["rc"] == 1 and "%s: no answer" % dead in df["stderr"] and len(df["stdout"].splitlines()) > 1
        assert evidence["probes"]["write probe"]["stdout"] == "ok\n" and set(evidence["probes"]) >= ALWAYS
        assert not [name for name, entry in evidence["probes"].items() if entry["stderr"].startswith("no answer")]
        rig.close()


@pytest.mark.campaign
@pytest.mark.lab
def test_a_root_on_a_dead_mount_is_an_answer_in_time(rig: Rig, tmp_path: Path) -> None:
    with machine_faults.dead_mount(tmp_path) as dead:
        root = rig.place("true")
        about = AttemptContext(root, 0, 1024)
        about.root = Root(str(dead / "base/runs/r"))
        asked = [bounded.Question("room", lambda: room.collect(about), 20.0)]
        assert bounded.ask(asked)["room"].value["df -Pk"]["rc"] == 1


def test_no_deadline_is_longer_than_what_a_call_may_take() -> None:
    assert max(probe.deadline_s for probe in PROBES) < 2.0
    assert next(probe.deadline_s for probe in PROBES if probe.module == "room") > room.DEADLINE_S


@pytest.mark.campaign
def test_a_huge_log_is_told_by_its_ends_in_whole_lines(rig: Rig) -> None:
    root = rig.place("for i in $(seq 60000); do echo line $i; done; exit 1")
    rig.finish(root)
    evidence = rig.evidence(root, log_bytes=10000)
    tail = evidence["probes"]["logs/1.log"]
    assert tail["stdout"].startswith("line ") and tail["stdout"].endswith("line 60000\n")
    assert 9900 < len(tail["stdout"]) <= 10000 and tail["offset"] + len(tail["stdout"]) == tail["size"]
    assert evidence["probes"]["logs/1.log head"]["stdout"].startswith("line 1\nline 2\n")
    assert os.path.getsize(root.evidence(1)) <= KEPT_BYTES


@pytest.mark.campaign
def test_what_is_kept_stays_within_the_room_that_was_taken(rig: Rig) -> None:
    root = rig.place("mkdir x; for i in $(seq 400); do : > x/$(printf '%0180d' $i).tmp; done; exit 1")
    Path(root.checkpoints, "x" * 200).write_bytes(b"")
    rig.finish(root)
    with open(root.events, "ab") as f:
        f.write(b'{"v":1,"seq":900,"kind":"signal","attempt":1,"why":"%s"}\n' % (b"y" * 300000))
    argv = [sys.executable, "-I", "-S", str(rig.keeper), "bundle", "--keep", "look", root.path, "1"]
    assert subprocess.run(argv, timeout=60).returncode == 0
    assert os.path.getsize(root.evidence(1, is_last=False)) <= KEPT_BYTES
    kept = atomic.read_json(root.evidence(1, is_last=False))
    assert kept["probes"]["events.jsonl"]["cut"] is True
    assert rig.evidence(root)["before"]["taken"] == kept["taken"]


@pytest.mark.campaign
def test_a_person_on_the_box_gets_the_same_document(rig: Rig) -> None:
    root = rig.place("exit 1")
    rig.finish(root)
    argv = [sys.executable, "-I", "-S", str(rig.keeper), "bundle", root.path]
    done = subprocess.run(argv, capture_output=True, timeout=60)
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["schema"] == "sojourn/evidence/v1" and document["probes"]["exits/1.json"]["rc"] == 0
    bare = subprocess.run(argv[:-1], capture_output=True, timeout=60)
    assert bare.returncode == 2 and b"usage" in bare.stderr


def test_the_groups_of_one_who_has_ended_are_found_again_by_their_folders(tmp_path: Path) -> None:
    top = tmp_path / "sys/fs/cgroup"
    (top / "job/step").mkdir(parents=True)
    for folder, limit in (("job", "1000"), ("job/step", "max")):
        (top / folder / "memory.max").write_text(limit + "\n")
        (top / folder / "memory.current").write_text("7\n")
        (top / folder / "memory.events").write_text("oom_kill 2\n")
    (tmp_path / "cgroup").write_text("0::/\n")
    point = str(top).replace(" ", "\\040")
    (tmp_path / "mountinfo").write_text("30 23 0:26 / %s rw - cgroup2 cgroup2 rw\n" % point)
    groups = cgroup.Groups(str(tmp_path), {"v2": str(top / "job/step")})
    assert groups.binding_memory() == str(top / "job") and groups.at("memory") == (2, str(top / "job/step"))
    assert groups.oom_kill_file() == str(top / "job/step/memory.events")
    assert cgroup.Groups(str(tmp_path), {"v2": str(top / "gone")}).v2 == ""


def test_a_text_is_cut_at_a_line_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"aaaa\nbbbb\ncc\xffc\n")
    assert raw.read_entry(str(path), 12) == {"rc": 0, "stdout": "aaaa\nbbbb\n", "stderr": "", "cut": True}
    assert raw.read_entry(str(path))["stdout"] == "aaaa\nbbbb\ncc\\xffc\n"
    assert raw.read_entry(str(tmp_path / "y"))["stderr"].startswith("ENOENT: ")
    assert raw.run(["sh", "-c", "sleep 60"], 0.2)["rc"] == raw.NO_ANSWER
    assert raw.run(["no-such-program"], 1)["rc"] == raw.NO_PROGRAM


@pytest.mark.campaign
def test_looks_are_kept_while_the_payload_runs(rig: Rig, tmp_path: Path) -> None:
    """The interval is minutes: a keeper whose own is shortened stands in for a long run."""
    import zipfile

    patched = tmp_path / "patched.pyz"
    with zipfile.ZipFile(rig.keeper) as old, zipfile.ZipFile(patched, "w") as new:
        for entry in old.infolist():
            data = old.read(entry)
            if entry.filename.endswith("box/supervise/snapshots.py"):
                data = data.replace(b"_FIRST_S = 60.0", b"_FIRST_S = 0.3").replace(
                    b"_EVERY_S = 600.0", b"_EVERY_S = 0.5"
                )
            new.writestr(entry, data)
    rig.keeper = rig.keeper.with_name(patched.name)
    patched.rename(rig.keeper)
    root = rig.place("sleep 300")
    rig.supervise(root)
    first = until(lambda: os.path.exists(root.evidence(1, is_last=False)) and rig.evidence(root), 60)["before"]["taken"]
    until(lambda: rig.evidence(root)["before"]["taken"] != first, 60)
    rig.call("stop", run="r", attempt=1, grace_s=1)
    heard(root, "sealed")
    assert found(root, "ended")[0]["state"] == "cancelled"
    assert os.listdir(os.path.dirname(root.evidence(1))) == []
