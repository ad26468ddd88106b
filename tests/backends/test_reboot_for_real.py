"""A box with a kernel and a cron of its own is restarted under a run: the run goes on by itself, and the hook goes."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sojourn.core.values import State
from sojourn.store.home import Store
from sojourn.verbs.answers import Launch
from sojourn.verbs.context import Context
from sojourn.verbs.launch.request import RunRequest
from sojourn.verbs.launch.run import run
from sojourn.verbs.observe.status import status
from sojourn.wire.errors import Unreachable
from tests.lab.lab import FOLDER, HERE, Lab

pytest_plugins = ["tests.lab.fixtures"]
_ABSENT = [
    package
    for command, package in (("linux.uml", "user-mode-linux"), ("crontab", "cron"), ("cron", "cron"))
    if not shutil.which(command)
]
pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(bool(_ABSENT), reason=f"missing Debian packages: {' '.join(_ABSENT)}"),
]
USERS = "0 3 * * * /usr/bin/backup\n"
RUNS = "/workspace/sj/runs/steps"
# Counts to 24, one step a quarter second, on from where the last attempt stood; every step is on the disk. The first
# attempt stays at 20 until the machine is restarted, however slow that is.
STEPS = """
at=$SOJOURN_CHECKPOINT_DIR/step; n=$(cat "$at" 2>/dev/null || echo 0)
while [ "$n" -lt 24 ]; do
  while [ "$SOJOURN_ATTEMPT-$n" = 1-20 ]; do sleep 1; done
  n=$((n + 1)); echo "$n" > "$at.new"; sync "$at.new"; mv "$at.new" "$at"; sync "$SOJOURN_CHECKPOINT_DIR"; sleep 0.25
done
echo "{\\"steps\\": $n}" > result.json
"""


def kbox(*words: str, timeout_s: float = 500.0) -> str:
    done = subprocess.run(
        [str(HERE / "kbox"), *words],
        env={**os.environ, "LAB": str(FOLDER), "KBOX_KEEP": "1", "KBOX_VOL_MB": "128"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def site(inside: Lab, ssh_config: Path, private_home: Path) -> Iterator[str]:
    """A site whose runs are on a disk that outlives a restart, with the hook asked for."""
    kbox("down")
    kbox("up", "1")
    with open(ssh_config, "a") as f:
        f.write(
            f"\nHost kbox1\n HostName 10.213.0.101\n User root\n IdentityFile {inside.folder}/key\n"
            f" IdentitiesOnly yes\n StrictHostKeyChecking no\n UserKnownHostsFile {private_home}/known\n"
        )
    settings = Path(os.environ["XDG_CONFIG_HOME"]) / "sojourn" / "settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(
        '[sites.rented]\ntransport = "ssh"\naddress = "kbox1"\nbase = "/workspace/sj"\nreboot_hook = "cron"\n'
    )
    yield "rented"
    kbox("down")


def far(script: str) -> str:
    """What a shell line says there, by a way of our own; "" while it does not answer."""
    try:
        return kbox("ssh", "1", script)
    except AssertionError:
        return ""


def told(script: str) -> str:
    """The same, asked again until the box answers: for what must be seen there, and for what must not."""
    deadline_s = time.monotonic() + 240
    while True:
        try:
            return kbox("ssh", "1", f"{script}; true")
        except AssertionError:
            assert time.monotonic() < deadline_s, "the box does not answer any more"
            time.sleep(1)


def until(holds: Callable[[], object], within_s: float) -> None:
    deadline_s = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline_s, far(f"tail -n 20 {RUNS}/logs/*.log {RUNS}/events.jsonl; crontab -l; date")
        time.sleep(0.5)


def begun(ctx: Context, job: str) -> Launch:
    """The identical command again where the link broke: such a box is slow enough for ssh to give a copy up."""
    for _ in range(3):
        try:
            return run(ctx, RunRequest(job))
        except Unreachable:
            time.sleep(2)
    return run(ctx, RunRequest(job))


def step() -> int:
    return int(far(f"cat {RUNS}/checkpoints/step 2>/dev/null") or 0)


@pytest.mark.campaign
@pytest.mark.parametrize("how", ["reboot", "power-off"])
def test_a_run_goes_on_by_itself_after_a_restart_and_its_line_is_gone_at_the_end(
    site: str, how: str, tmp_path: Path
) -> None:
    told(f"printf '{USERS}' | crontab -; sync")
    job = tmp_path / "project" / "sojourn.yaml"
    job.parent.mkdir()
    lines = "".join(f"  {line}\n" for line in STEPS.strip().splitlines())
    job.write_text(f"name: steps\nsite: {site}\noutputs: [result.json]\nrun: |\n{lines}")
    with Context(Store()) as ctx:
        answer = begun(ctx, str(job))
        assert (answer.state, answer.remarks) == (State.RUNNING, ())
        until(lambda: step() >= 6, 300)
        assert "# sojourn:steps:" in told("crontab -l")
        boot, stood = told("cat /proc/sys/kernel/random/boot_id"), int(told(f"cat {RUNS}/checkpoints/step"))
        if how == "reboot":
            kbox("reboot", "1")
        else:
            kbox("power-off", "1")
            kbox("up", "1")
        assert told("cat /proc/sys/kernel/random/boot_id") != boot
        # No client has a part in this.
        until(lambda: "0" in far(f"ls {RUNS}/exits/2.json >/dev/null 2>&1 && echo 0"), 400)
        until(lambda: far("crontab -l") == USERS, 200)
        (row,) = status(ctx, ["steps"]).rows
    assert (row.state, row.attempt) == (State.SUCCEEDED, 2)
    said = told(f"cat {RUNS}/events.jsonl")
    assert said.count('"kind":"started"') == 2 and told(f"ls {RUNS}/reboot.* 2>/dev/null") == ""
    assert stood >= 6 and told(f"cat {RUNS}/attempts/2/result.json") == '{"steps": 24}\n'
