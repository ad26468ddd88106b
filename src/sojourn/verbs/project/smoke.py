"""`smoke`: the job's `smoke` command here, on CPU, in a private copy of what would be pushed; nothing is left behind.

It runs in the caller's own environment: `setup` is not run, the site's `init` is not used.
"""

from __future__ import annotations

import os
import re
import selectors
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sojourn.store import parcel, snapshot
from sojourn.store.job.cells import expand, job_of
from sojourn.store.job.read import find_job, read_job
from sojourn.store.job.values import NOTHING
from sojourn.verbs.project.foresight import foresee
from sojourn.wire.errors import Misuse
from sojourn.wire.quote import join

if TYPE_CHECKING:
    from sojourn.store.job.values import JobFile, Mount

TAIL_BYTES, TAIL_LINES = 1 << 16, 30
GRACE_S = 5.0  # between TERM and KILL when the time is over
TICK_S = 0.2

# No experiment is reported, nothing is uploaded. A tracker that has no off-switch writes into the private copy instead.
# Source (all 2026-11): docs.wandb.ai support/testing_code_turn_off; docs.neptune.ai modes (both clients have offline);
# comet.com python-sdk reference OfflineExperiment (`disabled` defaults to comet.auto_log.disable);
# docs.swanlab.cn cli-swanlab-disabled; clear.ml docs, offline mode; huggingface_hub environment_variables; mlflow docs.
QUIET = {
    "WANDB_MODE": "disabled",
    "WANDB_DISABLED": "true",
    "NEPTUNE_MODE": "offline",
    "COMET_AUTO_LOG_DISABLE": "1",
    "SWANLAB_MODE": "disabled",
    "CLEARML_OFFLINE_MODE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
}
# An empty list shows no GPU to CUDA and ROCm; JAX would otherwise look for one and complain.
NO_GPU = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "ROCR_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}


class NoSmoke(Misuse):
    """{path}: the job has no `smoke` line: a short run of the same script, such as `python train.py --max-steps 2`."""

    code = "no-smoke"
    next_step = "sojourn plan {file}"


# What only a terminal obeys: colours, titles, single controls.
_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True)
class Smoke:
    """How the smoke command ended. `ended`: exit, signal or timeout; `rc`: its exit status, or the signal's number.

    `tail`: its last lines. `remarks`: what is not as it will be on the box.
    """

    path: str
    command: str
    ended: str
    rc: int
    seconds: float
    tail: str
    remarks: tuple[str, ...]
    next: str

    @property
    def ok(self) -> bool:
        """It ended by itself with exit status 0."""
        return self.ended == "exit" and self.rc == 0

    @property
    def exit_status(self) -> int:
        """0 or 1."""
        return 0 if self.ok else 1

    def as_json(self) -> dict[str, Any]:
        """The `smoke` document."""
        return {
            "schema": "sojourn/smoke/v1",
            "ok": self.ok,
            "path": self.path,
            "command": self.command,
            "ended": self.ended,
            "rc": self.rc,
            "seconds": round(self.seconds, 3),
            "tail": self.tail,
            "remarks": list(self.remarks),
            "next": self.next,
        }


def smoke(
    file: str = "",
    *,
    env: Mapping[str, str] = NOTHING,
    timeout_s: float = 300.0,
    say: Callable[[str], None] = lambda line: None,
) -> Smoke:
    """Run the `smoke` line of the job file (default: ./sojourn.yaml) for at most `timeout_s`.

    Its stdin is empty and no terminal controls it; whatever it started is ended with it. `say` gets its newest line.
    Raises: NoJobFile, BadJobFile, NoSmoke, Misuse (the code cannot be a snapshot), OSError (no room for the copy).
    """
    job = read_job(file or find_job(), env)
    if job.sweep is not None:
        job = job_of(job, expand(job)[0])  # the first cell speaks for all
    if not job.smoke:
        raise NoSmoke(path=job.path, file=join([file] if file else []))
    with _private_folder() as root:
        work = os.path.join(root, "attempts", "1")
        say(f"copying {job.workdir}")
        rows = snapshot.take_snapshot(job.workdir).rows
        _copy(job.workdir, rows, work)
        remarks = foresee(job, {row["path"] for row in rows})
        remarks += [remark for mount in job.file_mounts for remark in _mount(mount, work)]
        began_s = time.monotonic()
        argv = ["bash", "-eo", "pipefail", "-c", job.smoke]
        ended, rc, output = _run(argv, work, _environment(root, job, env), timeout_s, say)
        seconds = time.monotonic() - began_s
    text = output.decode("utf-8", "surrogateescape").replace(root, "...").rstrip("\n")
    tail = [_plain(line) for line in text.split("\n")[-TAIL_LINES:]]
    again = join(["sojourn", "smoke" if (ended, rc) != ("exit", 0) else "run", *([file] if file else [])])
    return Smoke(job.path, job.smoke, ended, rc, seconds, "\n".join(tail), tuple(remarks), again)


@contextmanager
def _private_folder() -> Iterator[str]:
    root = os.path.realpath(tempfile.mkdtemp(prefix="sojourn-smoke-"))
    try:
        yield root
    finally:
        shutil.rmtree(root, onerror=_open_and_retry)


def _open_and_retry(function: Callable[..., Any], path: str, error: object) -> None:
    """A folder that the command made read-only is opened and removed all the same."""
    os.chmod(os.path.dirname(path), stat.S_IRWXU)
    os.chmod(path, stat.S_IRWXU)
    shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)


def _copy(workdir: str, rows: Sequence[Mapping[str, Any]], work: str) -> None:
    os.makedirs(work)
    for row in rows:
        source, goal = os.path.join(workdir, row["path"]), os.path.join(work, row["path"])
        os.makedirs(os.path.dirname(goal), exist_ok=True)
        if row["role"] == "l":
            os.symlink(os.readlink(source), goal)
        else:
            shutil.copyfile(source, goal)
            os.chmod(goal, 0o755 if row["role"] == "x" else 0o644)


def _mount(mount: Mount, work: str) -> Iterator[str]:
    """The mounted data, as links to its files: too large to copy for a smoke. New files land in the private copy."""
    if os.path.isabs(mount.target):
        if not os.path.exists(mount.target):
            yield f"the mount {mount.target} is not made here, and there is nothing of that name"
        return
    goal = os.path.join(work, mount.target)
    if os.path.isdir(mount.source):
        for folder, _, files in os.walk(mount.source):
            here = os.path.normpath(os.path.join(goal, os.path.relpath(folder, mount.source)))
            os.makedirs(here, exist_ok=True)
            for name in files:
                os.symlink(os.path.join(folder, name), os.path.join(here, name))
    else:
        os.makedirs(os.path.dirname(goal), exist_ok=True)
        os.symlink(mount.source, goal)


def _environment(root: str, job: JobFile, env: Mapping[str, str]) -> dict[str, str]:
    name, code = parcel.train_bytes()
    train = os.path.join(root, name)
    with open(train, "wb") as f:
        f.write(code)
    folders = {key: os.path.join(root, key) for key in ("checkpoints", "scratch", "progress")}
    for folder in folders.values():
        os.makedirs(folder)
    ours = {
        "SOJOURN_RUN_ID": "smoke",
        "SOJOURN_ATTEMPT": "1",
        "SOJOURN_TOKEN": "1",
        "SOJOURN_RUN_DIR": root,
        "SOJOURN_CHECKPOINT_DIR": folders["checkpoints"],
        "SOJOURN_SCRATCH_DIR": folders["scratch"],
        "SOJOURN_PROGRESS": os.path.join(folders["progress"], "1.json"),
        "SOJOURN_NODE_RANK": "0",
        "SOJOURN_NODE_IPS": "127.0.0.1",
        "MLFLOW_TRACKING_URI": "file:" + os.path.join(root, "mlruns"),
        "PYTHONUNBUFFERED": "1",
    }
    merged = {**os.environ, **job.envs, **env, **QUIET, **NO_GPU, **ours}
    merged["PYTHONPATH"] = os.pathsep.join(path for path in (train, merged.get("PYTHONPATH", "")) if path)
    return merged


def _run(
    argv: Sequence[str], cwd: str, env: Mapping[str, str], timeout_s: float, say: Callable[[str], None]
) -> tuple[str, int, bytes]:
    """("exit" | "signal" | "timeout", number, last bytes of stdout and stderr). The whole process group is ended."""
    process = subprocess.Popen(
        argv,
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    output = b""
    deadline_s = time.monotonic() + timeout_s
    is_late = False
    try:
        with process.stdout, selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while process.poll() is None:
                output = _more(selector, process.stdout.fileno(), output, TICK_S, say)
                if time.monotonic() > deadline_s:
                    if is_late:
                        break
                    is_late, deadline_s = True, time.monotonic() + GRACE_S
                    os.killpg(process.pid, signal.SIGTERM)
            output = _more(selector, process.stdout.fileno(), output, 0, say)
    finally:
        _end(process)
    if is_late:
        return "timeout", process.returncode, output
    return ("exit", process.returncode, output) if process.returncode >= 0 else ("signal", -process.returncode, output)


def _more(selector: selectors.BaseSelector, fd: int, output: bytes, wait_s: float, say: Callable[[str], None]) -> bytes:
    """What is there to read, at most for one tick; only the last TAIL_BYTES are kept."""
    until_s = time.monotonic() + TICK_S
    while selector.select(wait_s):
        data = os.read(fd, 1 << 16)
        if not data:
            selector.unregister(fd)  # it closed its output; it may go on all the same
            break
        output = (output + data)[-TAIL_BYTES:]
        if time.monotonic() > until_s:
            break
    last = output.rstrip().rsplit(b"\n", 1)[-1].decode("utf-8", "replace")
    say(f"smoke: {last}" if last else "smoke: no output yet")
    return output


def _end(process: subprocess.Popen[bytes]) -> None:
    """KILL what is left of the process group, also what outlived its leader, and reap the leader."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # all of it has ended
    process.wait()


def _plain(line: str) -> str:
    """A line as it stands in the end: of a bar its last drawing, and nothing that only a terminal obeys."""
    return _CONTROLS.sub("", next((part for part in reversed(line.split("\r")) if part.strip()), ""))
