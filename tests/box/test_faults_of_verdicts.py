"""Real faults, and that the verdict on the evidence of the run, as `why RUN` asks for it, is that fault's own."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sojourn.box.run.root import Root
from sojourn.box.system import process
from sojourn.core.values import Finding
from sojourn.diagnose import evidence
from sojourn.diagnose.reason import reason
from sojourn.store.gotchas import gotchas
from tests.box import planting
from tests.box.rig import Rig, heard, until
from tests.box.telling import python
from tests.lab import machine_faults

pytestmark = planting.MARKS


def verdict(rig: Rig, root: Root) -> tuple[str, dict[str, Any]]:
    """(id of the verdict, "healthy" or "open"; what it saw, by name)."""
    judged = reason(gotchas(), evidence.from_document(rig.evidence(root), gotchas()))
    best: Finding | None = judged.verdict
    if best is None:
        return "healthy" if judged.is_healthy else "open", {}
    return best.id, {one.what: one.value for one in best.evidence}


def said(root: Root, word: str) -> None:
    """Wait until the run has said it."""
    until(lambda: Path(root.log(1)).exists() and word in Path(root.log(1)).read_text(), 60)


LISTEN = """
import os, socket, time
server = socket.create_server(("127.0.0.1", int(os.environ["MASTER_PORT"])))
time.sleep(300)
"""


def port_of_another_run(rig: Rig, folder: Path) -> None:
    """The second run cannot listen, and who does is named with its run."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    code = rig.snapshot({"listen.py": LISTEN.encode()})
    envs = {"MASTER_PORT": str(port)}
    first = rig.place("exec %s listen.py" % sys.executable, run="first", envs=envs, code=code)
    rig.supervise(first)
    pid = heard(first, "started")["pid"]

    def listens() -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", port)) == 0

    until(listens, 60)
    second = rig.place("exec %s listen.py" % sys.executable, run="second", envs=envs, code=code)
    rig.finish(second)
    name, seen = verdict(rig, second)
    assert (name, seen.get("net.port_wanted")) == ("port-in-use", port), (name, seen)
    assert seen["net.port_holder"].startswith("pid %d (" % pid) and seen["net.port_holder"].endswith("of the run first")


def port_that_the_log_names(rig: Rig, folder: Path) -> None:
    """As torch's store says it; the holder is no run's."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = (
            "The server socket has failed to listen on any local network address. port: %d, code: -98, name: EADDRINUSE"
        )
        root = rig.place("echo '%s, message: address already in use'; exit 1" % (line % port))
        rig.finish(root)
        name, seen = verdict(rig, root)
        assert (name, seen.get("net.port_wanted")) == ("port-in-use", port), (name, seen)
        assert seen["net.port_holder"].startswith("pid %d (" % os.getpid())


HOARD = b"""
import resource, time
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
kept = []
try:
    while True: kept.append(open("/dev/null"))
except OSError:
    print("up", flush=True)
time.sleep(300)
"""


def files_run_out_and_it_waits(rig: Rig, folder: Path) -> None:
    """It lives, catches the error and says nothing: only the table of open files tells. A child's own limit counts."""
    root = rig.place("%s hoard.py; true" % sys.executable, code=rig.snapshot({"hoard.py": HOARD}))
    rig.supervise(root)
    said(root, "up")
    name, seen = verdict(rig, root)
    assert (name, seen.get("run.open_files")) == ("too-many-open-files", 64), (name, seen)


def files_run_out_and_it_ends(rig: Rig, folder: Path) -> None:
    root = rig.place("ulimit -n 64; " + python('kept = [open("/dev/null") for _ in range(100)]'))
    rig.finish(root)
    assert verdict(rig, root)[0] == "too-many-open-files"


def stopped_by_a_signal(rig: Rig, folder: Path) -> None:
    root = rig.place("sleep 300; true")
    rig.supervise(root)
    child = until(lambda: process.children(heard(root, "started")["pid"]))[0]
    os.kill(child, signal.SIGSTOP)
    until(lambda: getattr(process.read_stat(child), "state", "") == "T")
    name, seen = verdict(rig, root)
    assert (name, seen.get("run.state")) == ("process-frozen", "T")


def frozen_by_its_group(rig: Rig, folder: Path) -> None:
    with machine_faults.group(freezer__state="THAWED") as group:
        freezer = group.folders["freezer"]
        rig.within = group.within
        root = rig.place("sleep 300; true")
        rig.supervise(root)
        payload = heard(root, "started")["pid"]
        until(lambda: process.children(payload))
        keeper = heard(root, "attempt")["keeper"]["pid"]
        (freezer.parent / "cgroup.procs").write_text(str(keeper))  # it must not freeze as well
        rig.within = []
        (freezer / "freezer.state").write_text("FROZEN")
        try:
            until(lambda: "FROZEN" in (freezer / "freezer.state").read_text())
            name, seen = verdict(rig, root)
            assert (name, seen.get("cg.frozen")) == ("process-frozen", True), (name, seen)
        finally:
            (freezer / "freezer.state").write_text("THAWED")
            rig.close()


# A node that stands in for a card, seen by what is started below alone.
HIDE = (
    'mount -t tmpfs tmpfs "$1"; mknod "$1/nvidia0" c 1 3; for n in null zero urandom random kmsg; do'
    ' cp -a /dev/$n "$1/"; done; mkdir "$1/shm"; mount --bind "$1" /dev; touch "$1/ready"; exec sleep 600'
)


@contextlib.contextmanager
def a_card(folder: Path) -> Iterator[list[str]]:
    """What starts a program where /dev/nvidia0 is a stand-in."""
    import subprocess

    machine_faults.need_root()
    devices = folder / "dev"
    devices.mkdir()
    argv = ["unshare", "-m", "--propagation", "private", "sh", "-ec", HIDE, "x", str(devices)]
    holder = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
    try:
        until(lambda: Path("/proc/%d/root%s/ready" % (holder.pid, devices)).exists(), 60)
        yield ["nsenter", "-m", "-t", str(holder.pid), "--"]
    finally:
        holder.kill()
        holder.wait(60)


def leftover_of_an_ended_run_holds_the_card(rig: Rig, folder: Path) -> None:
    """The first run is over and sealed, and a process of it lives on with the card open; the second finds it busy."""
    import subprocess

    with a_card(folder) as within:
        rig.within = within
        first = rig.place("true", run="first")
        rig.finish(first)
        env = dict(rig.env, SOJOURN_RUN_DIR=first.path, SOJOURN_ATTEMPT="1", SOJOURN_RUN_ID="first")
        argv = [*within, "sh", "-c", "exec sleep 300 < /dev/nvidia0"]
        left = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL)
        try:
            until(lambda: process.command(left.pid).startswith("sleep"), 60)
            line = "torch.AcceleratorError: CUDA error: CUDA-capable device(s) is/are busy or unavailable"
            second = rig.place("echo '%s'; exit 1" % line, run="second")
            rig.finish(second)
            name, seen = verdict(rig, second)
            assert (name, seen.get("gpu.holders_orphaned")) == ("orphan-holds-vram", [left.pid]), (name, seen)
            third = rig.place("echo 'KeyError: lr'; exit 1", run="third")  # ended for a reason of its own
            rig.finish(third)
            assert verdict(rig, third)[0] != "orphan-holds-vram"
        finally:
            left.kill()
            left.wait(60)


def a_living_run_holds_the_card(rig: Rig, folder: Path) -> None:
    """Nobody is called an orphan who is not."""
    with a_card(folder) as within:
        rig.within = within
        first = rig.place("exec sleep 300 < /dev/nvidia0", run="first")
        rig.supervise(first)
        pid = heard(first, "started")["pid"]
        until(lambda: process.command(pid).startswith("sleep"), 60)
        line = "torch.AcceleratorError: CUDA error: CUDA-capable device(s) is/are busy or unavailable"
        second = rig.place("echo '%s'; exit 1" % line, run="second")
        rig.finish(second)
        assert verdict(rig, second)[0] != "orphan-holds-vram"
        probe = rig.evidence(second)["probes"]["device holders"]["stdout"].splitlines()
        # Another test beside this one may hold such a node too.
        assert [line.split()[9] for line in probe[1:] if line.split()[0] == str(pid)] == ["run"], probe


TITLE = "Verdicts on real faults"
ABOUT = """Each real fault is planted on a separate run, and the evidence behind `why RUN` is judged: any verdict but
the fault's own is wrong. In the last row the process on the GPU is healthy, and calling it an orphan is wrong."""
FAULTS: list[planting.Fault] = [
    port_of_another_run,
    port_that_the_log_names,
    files_run_out_and_it_waits,
    files_run_out_and_it_ends,
    stopped_by_a_signal,
    frozen_by_its_group,
    leftover_of_an_ended_run_holds_the_card,
    a_living_run_holds_the_card,
]
test_a_real_fault_gives_its_own_verdict, test_it_gives_it_twenty_times = planting.tests_of(FAULTS, TITLE, ABOUT)
