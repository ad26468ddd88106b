"""Faults of a box behind an ssh line: the line is cut under a healthy run, a box with a kernel of its own reboots."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from sojourn.core.values import State
from sojourn.verbs import why
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
            from sojourn.backends.client import ssh_share

            ssh_share.hang_up_all()
            shutil.rmtree(sockets, ignore_errors=True)
            lab.boxes("down")


def _launch(stage: Stage) -> None:
    """The identical command again where the link broke: such a box is slow enough for ssh to give a copy up."""
    files: dict[str, str | bytes] = {"train.py": STEPS + "train()\n"}
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


def reboot(stage: Stage) -> Iterator[None]:
    """A box with a kernel of its own restarts, or loses its power, under a run whose root is on its disk."""
    from tests.lab import lab

    def kbox(*words: str) -> str:
        env = {**os.environ, "LAB": str(lab.FOLDER), "KBOX_KEEP": "1", "KBOX_VOL_MB": "128"}
        argv = [str(lab.HERE / "kbox"), *words]
        done = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        return done.stdout if done.returncode == 0 else ""

    def boot_id() -> str:
        return kbox("ssh", "1", "cat /proc/sys/kernel/random/boot_id").strip()

    with _laboratory(stage, "kbox1"):
        try:
            stage.until(lambda: kbox("up", "1") or boot_id(), pause_s=1.0)
            before = boot_id()
            _launch(stage)
            stage.until(lambda: _beats(kbox("ssh", "1", f"cat {EVENTS}; sync")) > 1, pause_s=1.0)
            if stage.dice.random() < 0.5:
                kbox("reboot", "1")
            else:
                kbox("power-off", "1")
            stage.until(lambda: kbox("up", "1") or boot_id() not in ("", before), pause_s=1.0)
            yield
        finally:
            kbox("down")


FAULTS: dict[Callable[[Stage], Iterator[None]], tuple[str, ...]] = {
    line_cut: ("healthy",),
    reboot: ("box-restarted",),
}
