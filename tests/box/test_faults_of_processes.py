"""Real ends and states of processes, and that the raw evidence of a run holds what decides each of them."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

from sojourn.box.system import process
from tests.box import planting
from tests.box.rig import Rig, heard, until
from tests.box.telling import kernel_lines, python, text, tree
from tests.lab import machine_faults

pytestmark = planting.MARKS


def crash(rig: Rig, folder: Path) -> None:
    root = rig.place(python("import ctypes; ctypes.string_at(0)"))
    rig.finish(root)
    evidence = rig.evidence(root)
    assert '"signal":11' in text(evidence, "exits/1.json")
    pid = evidence["launch"]["pid"]
    assert any("segfault at" in line and "[%d]" % pid in line for line in kernel_lines(evidence))


def killed_by_hand(rig: Rig, folder: Path) -> None:
    root = rig.place("exec sleep 300")
    keeper = rig.supervise(root)
    os.kill(heard(root, "started")["pid"], signal.SIGKILL)
    assert keeper.wait(60) == 0
    evidence = rig.evidence(root)
    assert '"signal":9' in text(evidence, "exits/1.json")
    assert '"state":"killed"' in text(evidence, "events.jsonl")
    name = evidence["launch"]["oom_kill_file"]
    counter = evidence["probes"][name]["stdout"]
    assert int(re.findall(r"(?m)^oom_kill (\d+)", counter)[0]) == evidence["launch"]["oom_kill"]


def hung_up(rig: Rig, folder: Path) -> None:
    root = rig.place("exec sleep 300")
    keeper = rig.supervise(root)
    pid = heard(root, "started")["pid"]
    until(lambda: process.command(pid).startswith("sleep"))
    os.kill(pid, signal.SIGHUP)
    assert keeper.wait(60) == 0
    assert '"signal":1,' in text(rig.evidence(root), "exits/1.json")


def stopped(rig: Rig, folder: Path) -> None:
    root = rig.place("sleep 300; true")
    rig.supervise(root)
    pid = heard(root, "started")["pid"]
    child = until(lambda: process.children(pid))[0]
    os.kill(child, signal.SIGSTOP)
    states = [(child, "T"), (pid, "S")]  # the shell may not have come to wait for it yet
    until(lambda: all(getattr(process.read_stat(one), "state", "") == state for one, state in states))
    rows = {row["pid"]: row for row in tree(rig.evidence(root))}
    assert rows[str(child)]["state"] == "T" and rows[str(child)]["cpu_delta_s"] == "0.00"
    assert rows[str(pid)]["state"] == "S"


def silent_log(rig: Rig, folder: Path) -> None:
    """A block-buffered log of a payload that works: empty file, moving CPU, and the variable that is not set."""
    root = rig.place("exec env -u PYTHONUNBUFFERED %s -c 'while True: print(1) if 0 else None'" % sys.executable)
    rig.supervise(root)
    pid = heard(root, "started")["pid"]
    until(lambda: process.command(pid).startswith(sys.executable))
    heard(root, "beat", 2)
    evidence = rig.evidence(root)
    assert evidence["probes"]["logs/1.log"]["size"] == 0
    assert float(tree(evidence)[0]["cpu_delta_s"]) > 0
    assert "PYTHONUNBUFFERED" not in text(evidence, "*/environ").split()


def script_rewritten(rig: Rig, folder: Path) -> None:
    code = rig.snapshot({"train.sh": b"sleep 300\necho end\n"})
    root = rig.place("bash train.sh", code=code)
    rig.supervise(root)
    script = Path(root.attempt(1), "train.sh")
    pid = heard(root, "started")["pid"]
    until(lambda: process.children(pid) and process.children(process.children(pid)[0]))
    now, before, _, path = text(rig.evidence(root), "scripts").split(" ", 3)
    assert now == before and path.endswith("attempts/1/train.sh\n")
    with open(script, "r+b") as f:
        f.write(b"sleep 999\n")
    now, before, _, _ = text(rig.evidence(root), "scripts").split(" ", 3)
    assert now != before


def port_taken(rig: Rig, folder: Path) -> None:
    code = 'import socket, time; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1], flush=True)'
    root = rig.place(python(code + "; time.sleep(300)"))
    rig.supervise(root)
    port = until(lambda: Path(root.log(1)).exists() and Path(root.log(1)).read_text().strip())
    pid = heard(root, "started")["pid"]
    rows = text(rig.evidence(root), "listening").splitlines()
    assert any(row.split()[:2] == [port, str(pid)] for row in rows), rows


def files_run_out(rig: Rig, folder: Path) -> None:
    code = 'import time; kept = [open("/dev/null") for _ in range(50)]; print("up", flush=True); time.sleep(300)'
    root = rig.place("ulimit -n 64; " + python(code))
    rig.supervise(root)
    until(lambda: Path(root.log(1)).exists() and "up" in Path(root.log(1)).read_text())
    evidence = rig.evidence(root)
    assert re.search(r"(?m)^Max open files +64 ", text(evidence, "*/limits"))
    assert 50 <= int(text(evidence, "*/fd")) <= 64


def keeper_gone(rig: Rig, folder: Path) -> None:
    """The payload lives, nobody watches: that is what the evidence says."""
    root = rig.place("exec sleep 300")
    keeper = rig.supervise(root)
    pid = heard(root, "started")["pid"]
    keeper.kill()
    keeper.wait(60)
    evidence = rig.evidence(root)
    assert evidence["probes"]["keeper.json"]["alive"] is False and not evidence["facts"]["box.session_present"]
    assert text(evidence, "/proc/%d/stat" % pid).split()[21] == str(evidence["launch"]["start"])
    assert [row["pid"] for row in tree(evidence)] == [str(pid)]


def container_restarted(rig: Rig, folder: Path) -> None:
    """Everything ended with PID 1, and nobody wrote down how; the machine's boot id stays what it was."""
    machine_faults.need_root()
    rig.within = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", '"$@"; exit $?', "x"]
    root = rig.place("exec sleep 300")
    keeper = rig.supervise(root)
    heard(root, "beat")
    first = process.children(keeper.pid)
    os.kill(until(lambda: first)[0], signal.SIGKILL)
    keeper.wait(60)
    evidence = rig.evidence(root)  # asked inside the next container
    assert evidence["launch"]["boot_id"] == text(evidence, "/proc/sys/kernel/random/boot_id").strip()
    assert int(text(evidence, "/proc/1/stat").rpartition(")")[2].split()[19]) != evidence["launch"]["pid1_start"]
    assert evidence["probes"]["exits/1.json"]["stderr"].startswith("ENOENT")
    assert '"kind":"ended"' not in text(evidence, "events.jsonl") and not tree(evidence)


def windows_line_ends(rig: Rig, folder: Path) -> None:
    code = rig.snapshot({"train.sh": b"\r\ncd .\r\n"})
    root = rig.place("bash train.sh", code=code)
    assert rig.finish(root)["state"] == "failed"
    log = text(rig.evidence(root), "logs/1.log")
    assert "\r" in log or "\\r" in log


TITLE = "Evidence of a process at fault"
ABOUT = """Each end or state is real, and the raw evidence of the run must contain what decides it."""
FAULTS: list[planting.Fault] = [
    crash,
    killed_by_hand,
    hung_up,
    stopped,
    silent_log,
    script_rewritten,
    port_taken,
    files_run_out,
    keeper_gone,
    container_restarted,
    windows_line_ends,
]


test_the_evidence_of_a_real_fault_holds_what_decides_it, test_it_holds_it_twenty_times = planting.tests_of(
    FAULTS, TITLE, ABOUT
)
