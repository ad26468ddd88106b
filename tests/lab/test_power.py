"""A box with a kernel of its own loses its power while it saves: what was said to be saved is there, and loads."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.lab import FOLDER, HERE, SJ
from tests.train.killing import SCRIPTS, SOURCE

pytest_plugins = ["tests.lab.fixtures"]
pytestmark = [
    pytest.mark.lab,
    pytest.mark.campaign,
    pytest.mark.trials(campaign=6, soak=20),
    pytest.mark.timeout(6 * 3600),
    pytest.mark.skipif(not shutil.which("linux.uml"), reason="missing Debian package: user-mode-linux"),
]
WAIT_S = 240.0
TITLE = "Power is cut while training saves"
WHAT = """\
A box with its own kernel and ext4 disk (User Mode Linux) saves 2 MiB again and again, inside `step` or by the writer
process, and reports each save that it calls durable to its client. The kernel is killed at a random moment and
rebooted. Held: no reported save is missing, every file with a checkpoint's name is whole, and the next start resumes
from the newest of them."""


SSH = [
    "ip",
    "netns",
    "exec",
    f"{SJ}-cli",
    "ssh",
    "-q",
    "-i",
    str(FOLDER / "boxes/key"),
    "-o",
    "StrictHostKeyChecking=no",
]
SSH += ["-o", "UserKnownHostsFile=/dev/null", "-o", "ConnectTimeout=30", "root@10.213.0.101"]


def kbox(*words: str) -> bool:
    """Run the script `kbox`; whether it went well, which on a busy machine may take another time."""
    env = dict(os.environ, LAB=str(FOLDER), KBOX_VOL_MB="128")
    return (
        subprocess.run([str(HERE / "kbox"), *words], env=env, stdin=subprocess.DEVNULL, timeout=WAIT_S).returncode == 0
    )


def boot() -> None:
    """Switch it on, if it is off, and wait until it answers."""
    deadline_s = time.monotonic() + WAIT_S
    while not kbox("up", "1"):
        assert time.monotonic() < deadline_s, (FOLDER / "kbox/1/console").read_text()[-2000:]


@pytest.fixture
def box(lab: object, tmp_path: Path) -> Iterator[None]:
    """The box, with our package on its disk."""
    kbox("down")
    rooms = (SOURCE / "sojourn" / room for room in ("train", "wire"))
    names = [str(path.relative_to(SOURCE)) for room in rooms for path in sorted(room.glob("*.py"))]
    packed = str(tmp_path / "packed")
    subprocess.run(["tar", "-C", str(SOURCE), "-cf", packed, "sojourn/__init__.py", *names], check=True)
    subprocess.run(["tar", "-C", str(SCRIPTS), "-rf", packed, "power.py"], check=True)
    boot()
    unpack = [*SSH, "mkdir -p /workspace/src && tar -C /workspace/src -xf - && sync"]
    subprocess.run(unpack, input=Path(packed).read_bytes(), check=True, timeout=WAIT_S)
    yield
    kbox("down")


def save_until_dark(way: str, saves: int, part: float) -> tuple[dict[str, Any], int]:
    """(what the last cut left, last step told) until the power goes: `part` of the time of a save after so many."""
    boot()
    argv = [*SSH, f"cd /workspace/src && exec python3 power.py /workspace/{way} {way}"]
    process = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    heard = [process.stdout.readline()]
    while not heard[-1].startswith("found "):  # the Checkpointer says where it goes on before
        assert heard[-1], heard
        heard.append(process.stdout.readline())

    def cut() -> None:
        kbox("power-off", "1")
        process.kill()  # it would wait for ever

    timer, said, at_s = threading.Timer(0.0, cut), 0, time.monotonic()
    if not saves:
        timer.start()
    for line in process.stdout:
        if line.startswith("said ") and line.endswith("\n"):
            said, took_s, at_s, saves = int(line.split()[1]), time.monotonic() - at_s, time.monotonic(), saves - 1
            if saves == 0:
                timer = threading.Timer(part * took_s, cut)
                timer.start()
    timer.join() if timer.ident else cut()
    process.wait(timeout=WAIT_S)
    return json.loads(heard[-1].partition(" ")[2]), said


def test_a_box_that_loses_its_power_while_it_saves_has_all_that_was_said_to_be_saved(
    trial_count: int, box: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Writes docs/reliability.md. `trial_count`: how many times the power goes."""
    from tests import reliability

    began_s, dice = time.monotonic(), random.Random(7)
    told = {"here": 0, "there": 0}  # the last one
    facts = {"power cuts": 0, "saves reported": 0, "resumed from the last reported": 0, "resumed from a later one": 0}
    for trial in range(trial_count + len(told)):  # the last two only look
        way, saves = ("here", "there")[trial % 2], dice.randint(1, 4) if trial < trial_count else 0
        found, said = save_until_dark(way, saves, dice.uniform(0.0, 1.5))
        with capsys.disabled():  # a silent hour would be a bug
            print(f"{way}: found {found} where {told[way]} was told; told up to {said}", flush=True)
        assert found["newest"] >= told[way], (trial, found, told)
        if trial >= len(told):
            facts["power cuts"] += 1
            facts["resumed from the last reported"] += found["newest"] == told[way]
            facts["resumed from a later one"] += found["newest"] > told[way]
        facts["saves reported"] += max(0, said - found["newest"])
        told[way] = max(said, found["newest"])
    reliability.put(TITLE, [WHAT, "", *reliability.table("measured", facts)], time.monotonic() - began_s)
