"""Faults of a box behind an ssh line: the line is cut under a healthy run, a box with a kernel of its own reboots."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from sojourn.core.values import State
from sojourn.verbs.explain import why
from sojourn.wire.errors import Unreachable
from tests.verdicts.stage import STEPS, Stage

SITE = '[sites.rented]\ntransport = "ssh"\naddress = "{alias}"\nbase = "/workspace/sj"\n'
EVENTS = "/workspace/sj/runs/job/events.jsonl"


@contextlib.contextmanager
def _laboratory(stage: Stage, alias: str) -> Iterator[Path]:
    """One box of the laboratory, seen by this thread alone, as the site `rented`; the folder with its ssh settings."""
    from tests.lab import lab

    assert not lab.missing(), lab.missing()
    with lab.locked():
        lab.boxes("down")
        lab.boxes("up", "1")
        folder = lab.FOLDER / "boxes"
        config = stage.folder / "ssh_config"
        text = (folder / "ssh_config").read_text()
        for name, address in (("box1", "10.213.0.11"), ("kbox1", "10.213.0.101")):
            text += (
                f"\nHost {name} {address}\n HostName {address}\n User root\n IdentityFile {folder}/key\n"
                " IdentitiesOnly yes\n StrictHostKeyChecking no\n UserKnownHostsFile /dev/null\n"
            )
        config.write_text(text)
        sockets = Path("/tmp") / f"sj-verdict-{os.getpid()}"  # a socket's path is limited
        sockets.mkdir()
        os.environ.update(SOJOURN_SSH_CONFIG=str(config), XDG_RUNTIME_DIR=str(sockets))
        settings = Path(os.environ["XDG_CONFIG_HOME"]) / "sojourn/settings.toml"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(SITE.format(alias=alias))
        try:
            with lab.client_namespace():
                stage.from_settings()
                yield folder
        finally:
            from sojourn.backends.ssh import share as ssh_share

            ssh_share.hang_up_all()
            shutil.rmtree(sockets, ignore_errors=True)
            lab.boxes("down")


def _launch(stage: Stage, code: str = "train()\n") -> None:
    """The identical command again where the link broke: such a box is slow enough for ssh to give a copy up."""
    files: dict[str, str | bytes] = {"train.py": STEPS + code}
    for left in (2, 1, 0):
        try:
            stage.launch("exec python3 train.py", files, site="rented")
            return
        except Unreachable:
            assert left, "the box does not answer"


def _beats(text: str) -> int:
    rows = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
    return len({str(row.get("progress")) for row in rows if row.get("kind") == "beat"})


def line_cut(stage: Stage) -> Iterator[None]:
    """While it is cut nothing is concluded; when it is mended the run is as healthy as it was all the time."""
    from tests.lab.lab import Box

    with _laboratory(stage, "box1"):
        box = Box(1)
        _launch(stage)
        stage.until(lambda: _beats(box.sh(f"cat {EVENTS}")) > 3, pause_s=1.0)
        box.fault(stage.dice.choice(["cut", "blackhole", "refuse"]))
        answer = why.of_run(stage.ctx, "job")
        assert answer.judged.verdict is None and not answer.judged.is_healthy, answer.judged
        assert answer.row is not None and answer.row.state is State.RUNNING and answer.row.reach.ok is False
        box.heal()
        yield


def _kbox(*words: str) -> str:
    """The script of the box with a kernel of its own; "" where it did not go well."""
    from tests.lab import lab

    env = {**os.environ, "LAB": str(lab.FOLDER), "KBOX_KEEP": "1", "KBOX_VOL_MB": "128"}
    argv = [str(lab.HERE / "kbox"), *words]
    done = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    return done.stdout if done.returncode == 0 else ""


def _boot_id() -> str:
    return _kbox("ssh", "1", "cat /proc/sys/kernel/random/boot_id").strip()


def reboot(stage: Stage) -> Iterator[None]:
    """A box with a kernel of its own restarts, or loses its power, under a run whose root is on its disk."""
    with _laboratory(stage, "kbox1"):
        try:
            stage.until(lambda: _kbox("up", "1") or _boot_id(), pause_s=1.0)
            before = _boot_id()
            _launch(stage)
            stage.until(lambda: _beats(_kbox("ssh", "1", f"cat {EVENTS}; sync")) > 1, pause_s=1.0)
            if stage.dice.random() < 0.5:
                _kbox("reboot", "1")
            else:
                _kbox("power-off", "1")
            stage.until(lambda: _kbox("up", "1") or _boot_id() not in ("", before), pause_s=1.0)
            yield
        finally:
            _kbox("down")


EATS = """kept = []
for n in range(1, 101): kept.append(bytearray(20 << 20)); p(n, 100); print("step", n, flush=True)
"""
CHILD_EATS = """import subprocess
for n in range(1, 4): p(n, 100); print("step", n, flush=True)
more = "kept = []\\nwhile True: kept.append(bytearray(20 << 20))"
print("worker ended with", subprocess.call([sys.executable, "-c", more]), flush=True)
sys.exit(1)
"""
# All that comes over ssh from then on is in a group of version 2.
LIMITED = """set -e; cd /sys/fs/cgroup; grep -qw memory cgroup.controllers; mkdir -p box
echo +memory > cgroup.subtree_control; echo %dM > box/memory.max
for pid in $(pgrep -x sshd); do echo $pid > box/cgroup.procs; done; cat box/memory.max"""


def memory_on_version_2(stage: Stage) -> Iterator[None]:
    """memory.max of a control group of version 2: of this machine where it has that controller, as a CI may, else of a
    box with a kernel of its own."""
    limit_mib, code = stage.dice.randint(90, 160), stage.dice.choice([EATS, CHILD_EATS])
    with _group_here(limit_mib) as within:
        if within:
            stage.within(within)
            stage.launch("exec python3 train.py", {"train.py": STEPS + code})
            stage.end()
            stage.within([])
            yield
            return
    with _laboratory(stage, "kbox1"):
        try:
            stage.until(lambda: _kbox("up", "1") or _boot_id(), pause_s=1.0)
            stage.until(lambda: _kbox("ssh", "1", LIMITED % limit_mib), pause_s=1.0)
            _launch(stage, code)
            stage.end()
            yield
        finally:
            _kbox("down")


@contextlib.contextmanager
def _group_here(limit_mib: int) -> Iterator[list[str]]:
    """What starts a program in a group of version 2 of this machine; [] where that has no memory controller to give."""
    top = Path("/sys/fs/cgroup")
    has_it = (top / "cgroup.controllers").exists() and "memory" in (top / "cgroup.controllers").read_text().split()
    folder = top / f"sojourn-fault-{os.getpid()}"
    try:
        if has_it:
            (top / "cgroup.subtree_control").write_text("+memory")
            folder.mkdir()
            (folder / "memory.max").write_text(f"{limit_mib}M")
    except OSError:  # a container that was given no group of its own to divide
        has_it = False
    try:
        yield ["sh", "-c", f'echo $$ > "{folder}/cgroup.procs"; exec "$@"', "x"] if has_it else []
    finally:
        deadline_s = time.monotonic() + 30
        while folder.exists() and time.monotonic() < deadline_s:
            for pid in (folder / "cgroup.procs").read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            with contextlib.suppress(OSError):
                folder.rmdir()
            time.sleep(0.02)


FAULTS: dict[Callable[[Stage], Iterator[None]], tuple[str, ...]] = {
    line_cut: ("healthy",),
    reboot: ("box-restarted",),
    memory_on_version_2: ("memory-limit-kill",),
}
