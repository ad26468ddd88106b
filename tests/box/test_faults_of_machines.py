"""Real faults of a machine, and that the raw evidence of a run holds what decides each of them."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from sojourn.box.system import process
from tests.box import planting
from tests.box.rig import Rig, found, heard, kill, until
from tests.box.telling import kernel_lines, python, row_of, text, tree
from tests.lab import machine_faults

pytestmark = planting.MARKS
MIB = 1 << 20


def out_of_memory(rig: Rig, folder: Path) -> None:
    with machine_faults.group(memory__limit_in_bytes=str(80 * MIB)) as group:
        rig.within = group.within
        root = rig.place(python("b = bytearray(300 << 20)"))
        assert rig.finish(root)["state"] == "oom"
        rig.within = []  # who asks later is in another group, and must still be told of the run's own
        evidence = rig.evidence(root)
    own = str(group.folders["memory"])
    counted = evidence["probes"][own + "/memory.oom_control"]["stdout"]
    assert int(re.findall(r"(?m)^oom_kill (\d+)", counted)[0]) > evidence["launch"]["oom_kill"] == 0
    assert evidence["probes"][own + "/memory.limit_in_bytes"]["stdout"].strip() == str(80 * MIB)
    memcg = evidence["launch"]["cgroup"]
    assert memcg == "/" + group.folders["memory"].name
    killed = [line for line in kernel_lines(evidence) if "oom-kill:" in line and "task_memcg=%s," % memcg in line]
    assert killed and "pid=%d," % evidence["launch"]["pid"] in killed[-1], killed


def out_of_memory_in_a_child(rig: Rig, folder: Path) -> None:
    """The payload lives on and ends with status 1: only the counter tells."""
    with machine_faults.group(memory__limit_in_bytes=str(80 * MIB)) as group:
        rig.within = group.within
        root = rig.place("%s -c 'b = bytearray(300 << 20)' || exit 1" % sys.executable)
        end = rig.finish(root)
        assert (end["state"], end["rc"]) == ("failed", 1)
        evidence = rig.evidence(root)
    assert "oom_kill 1" in text(evidence, "*/memory.oom_control")
    assert any("Killed process" in line for line in kernel_lines(evidence))


def disk_full(rig: Rig, folder: Path) -> None:
    with machine_faults.disk(folder, 48) as point:
        box = Rig(point, rig.python)
        try:
            root = box.place("for i in 1 2 3 4; do cat /dev/zero > fill$i || sync; done; exit 1")
            box.supervise(root)
            # Nobody can write there any more, but the room for this was taken when there was some.
            until(lambda: os.path.exists(root.evidence(1)), 60)
            evidence = box.evidence(root)
            assert evidence["why"] == "call" and evidence["now"]["probes"]
            assert row_of(evidence, "df -Pk", point)[4] == "100%"
            hogs = text(evidence, "du -xk").splitlines()
            assert any(line.endswith("attempts/1") for line in hogs[:5]), hogs
            assert int(hogs[0].split()[0]) < 48 << 10  # nothing is counted twice
            for number in range(1, 5):
                os.unlink(Path(root.attempt(1), "fill%d" % number))
            heard(root, "ended")
            assert row_of(box.evidence(root), "df -Pk", point)[4] == "100%"  # as it was at the end, not as it is
        finally:
            box.close()


def inodes_gone(rig: Rig, folder: Path) -> None:
    with machine_faults.disk(folder, 48, inodes=128) as point:
        box = Rig(point, rig.python)
        try:
            script = "mkdir many; for i in $(seq 200); do : > many/$i || exit 1; done"
            root = box.place(script)
            box.supervise(root)
            until(lambda: os.path.exists(root.evidence(1)), 60)
            evidence = box.evidence(root)
            assert row_of(evidence, "df -Pi", point)[3] == "0"
            assert int(row_of(evidence, "df -Pk", point)[3]) > 1000
            assert "ENOSPC" in evidence["probes"]["write probe"]["stderr"]
            assert any(line.endswith("/many") for line in text(evidence, "du -x --inodes").splitlines()[:6])
            shutil.rmtree(Path(root.attempt(1), "many"))
            heard(root, "ended")
        finally:
            box.close()


def read_only(rig: Rig, folder: Path) -> None:
    with machine_faults.disk(folder, 48) as point:
        box = Rig(point, rig.python)
        try:
            root = box.place("sleep 300")
            box.supervise(root)
            heard(root, "beat")
            machine_faults.abort(point)
            until(lambda: not machine_faults.takes_a_file(point))
            evidence = box.evidence(root)
            assert "EROFS" in evidence["probes"]["write probe"]["stderr"]
            line = next(line for line in text(evidence, "mountinfo").splitlines() if " %s " % point in line)
            # Until 6.16 the kernel said `ro` of the file system; since then `emergency_ro` beside an `rw`.
            assert {"ro", "emergency_ro"} & set(line.rpartition(" ")[2].split(",")), line
            assert any("EXT4-fs" in line and "abort" in line.lower() for line in kernel_lines(evidence))
        finally:
            box.close()


def frozen_in_the_kernel(rig: Rig, folder: Path) -> None:
    """A stand-in for a wedged driver or file server: what not even SIGKILL ends."""
    with machine_faults.group(freezer__state="THAWED") as group:
        rig.within = group.within
        root = rig.place("sleep 300; true")
        rig.supervise(root)
        payload = heard(root, "started")["pid"]
        until(lambda: [pid for pid in process.children(payload) or () if process.command(pid).startswith("sleep")])
        keeper = heard(root, "attempt")["keeper"]["pid"]
        (group.folders["freezer"].parent / "cgroup.procs").write_text(str(keeper))  # it must not freeze as well
        rig.within = []
        (group.folders["freezer"] / "freezer.state").write_text("FROZEN")
        try:
            until(lambda: "FROZEN" in (group.folders["freezer"] / "freezer.state").read_text())
            states = {row["comm"]: row["state"] for row in tree(rig.evidence(root))}
            assert states["sleep"] == "D", states
        finally:
            (group.folders["freezer"] / "freezer.state").write_text("THAWED")
            rig.close()


# Work that holds no lock of Python's, so that every thread takes all the CPU it is given.
STORM = b"""import hashlib, threading, time
def spin():
    hashlib.pbkdf2_hmac("sha256", b"a", b"b", 1 << 30)
for _ in range(40): threading.Thread(target=spin, daemon=True).start()
time.sleep(300)
"""


def throttled(stat: str) -> int:
    """How often a group was held up, by its cpu.stat."""
    return int(dict(line.split() for line in stat.splitlines())["nr_throttled"])


def thread_storm(rig: Rig, folder: Path) -> None:
    # Its shares let it come to the quota also beside others that are busy.
    with machine_faults.group(cpu__cfs_quota_us="50000", cpu__shares="32768") as group:
        code = rig.snapshot({"storm.py": STORM})
        root = rig.place("exec %s storm.py" % sys.executable, code=code)
        rig.within = group.within
        keeper = rig.supervise(root)
        rig.within = []
        own = str(group.folders["cpu"])
        storm = until(lambda: [e["pid"] for e in found(root, "started")], 120)[0]
        until(lambda: getattr(process.read_stat(storm), "threads", 0) > 40, 120)
        begun = throttled(found(root, "attempt")[0]["cpu_stat"])  # its keeper's start may have been held up already
        until(lambda: throttled(Path(own, "cpu.stat").read_text()) > begun, 60)
        evidence = rig.evidence(root)
        kill({keeper.pid, storm})
    assert evidence["probes"][own + "/cpu.cfs_quota_us"]["stdout"].strip() == "50000"
    assert throttled(evidence["probes"][own + "/cpu.stat"]["stdout"]) > throttled(evidence["launch"]["cpu.stat"])
    assert int(tree(evidence)[0]["threads"]) > 40
    assert evidence["probes"]["nproc"]["stdout"].strip() == str(os.cpu_count())


# As many processes as may be, for as long as anybody looks: a shell gives up when it may not fork.
BREED = """
kept = []
while True:
    try:
        kept.append(subprocess.Popen(["sleep", "300"]))
    except OSError:
        time.sleep(0.05)
"""


def no_more_processes(rig: Rig, folder: Path) -> None:
    with machine_faults.group(pids__max="40") as group:
        rig.within = group.within
        root = rig.place(python("import subprocess, time%s" % BREED))
        rig.supervise(root)
        heard(root, "started")
        rig.within = []
        until(lambda: int((group.folders["pids"] / "pids.current").read_text()) >= 40)
        evidence = rig.evidence(root)
        rig.close()
    assert text(evidence, "*/pids.max").strip() == "40"
    assert int(text(evidence, "*/pids.current")) >= 39


def shared_memory_full(rig: Rig, folder: Path) -> None:
    machine_faults.need_root()
    small = 'mount -t tmpfs -o size=4m tmpfs /dev/shm && exec "$@"'
    rig.within = ["unshare", "-m", "--propagation", "private", "sh", "-c", small, "x"]
    root = rig.place("cat /dev/zero > /dev/shm/psm_batch || exit 1")
    rig.finish(root)
    rig.within = []
    evidence = rig.evidence(root)
    assert row_of(evidence, "df -Pk", Path("/dev/shm"))[1:4] == ["4096", "4096", "0"]
    assert text(evidence, "ls /dev/shm").split()[0::2] == [str(4 * MIB), "psm_batch"]


def leftover_holds_a_card(rig: Rig, folder: Path) -> None:
    """A stand-in device node, a real holder that the run left behind."""
    machine_faults.need_root()
    devices = folder / "dev"
    devices.mkdir()
    hide = (
        'mount -t tmpfs tmpfs "$1"; mknod "$1/nvidia0" c 1 3; for n in null zero urandom random kmsg; do'
        ' cp -a /dev/$n "$1/"; done; mkdir "$1/shm"; mount --bind "$1" /dev; shift; exec "$@"'
    )
    rig.within = ["unshare", "-m", "--propagation", "private", "sh", "-ec", hide, "x", str(devices)]
    held = 'echo $! > "$SOJOURN_RUN_DIR/left"; until grep -q sleep /proc/$!/comm; do sleep 0.05; done'
    root = rig.place("sleep 300 < /dev/nvidia0 > /dev/null & %s; exit 1" % held)
    rig.finish(root)
    rig.within = []
    holders = text(rig.evidence(root), "device holders").splitlines()
    assert holders[0].split()[:5] == ["pid", "start", "uid", "state", "cpu_s"]
    left = Path(root.path, "left").read_text().strip()  # another test beside this one may hold such a node too
    assert [row.split()[5:7] for row in holders[1:] if row.split()[0] == left] == [["sleep", "/dev/nvidia0"]]


def told_to_nobody(rig: Rig, folder: Path) -> None:
    """Without the right to read the kernel's log, that it may not be read is what is told."""
    machine_faults.need_root()
    if not shutil.which("setpriv") or Path("/proc/sys/kernel/dmesg_restrict").read_text().strip() != "1":
        pytest.skip("missing: setpriv, or a kernel whose log not everybody may read")
    rig.within = ["setpriv", "--bounding-set", "-syslog,-sys_admin", "--inh-caps", "-all"]
    root = rig.place("exit 1")
    rig.finish(root)
    evidence = rig.evidence(root)
    said = evidence["probes"]["dmesg"]
    assert (said["rc"], said["stdout"]) == (1, "") and "not permitted" in said["stderr"]
    assert "kmsg_s" not in evidence["launch"]


TITLE = "Evidence of a machine at fault"
ABOUT = """Each planted fault is real, and the raw evidence of the affected run must contain what decides it."""
FAULTS: list[planting.Fault] = [
    out_of_memory,
    out_of_memory_in_a_child,
    disk_full,
    inodes_gone,
    read_only,
    frozen_in_the_kernel,
    thread_storm,
    no_more_processes,
    shared_memory_full,
    leftover_holds_a_card,
    told_to_nobody,
]


test_the_evidence_of_a_real_fault_holds_what_decides_it, test_it_holds_it_twenty_times = planting.tests_of(
    FAULTS, TITLE, ABOUT
)
