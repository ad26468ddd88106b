"""The payload's environment variables and argv, and the `setup` environment made once for all runs that share it."""

from __future__ import annotations

import fcntl
import os
import shlex
import sys

from sojourn.box.run import secrets
from sojourn.box.run.history import History
from sojourn.box.run.root import Root, read_fields
from sojourn.box.supervise import prepare
from sojourn.wire import atomic, names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Sequence

    from sojourn.wire.documents import Spec

_SEAT = "SOJOURN_SEAT"  # the keeper's own; a keeper that the payload starts has none
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
# Unless the job says otherwise. Without its own store torchrun may hand the addresses of the dead to those it starts
# again, which wait for them; a PyTorch that is mended needs it no more (pytorch issue 135712, 2.4 to 2.13, 2026-11).
_DEFAULTS = {"PYTHONUNBUFFERED": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
# Beside ours and the job's: what `apptainer exec --cleanenv` takes along, by its own names for them (APPTAINERENV_...).
_INTO_CONTAINERS = (*_THREADS, *_DEFAULTS, "PYTHONPATH", "CUDA_VISIBLE_DEVICES")

# Makes the environment $1 from the python that `init` left in PATH ($2 where there is none), then runs the setup text
# $3. `--without-pip` with a wrapper is 10 times faster than ensurepip, and works where Debian left ensurepip out; the
# wrapper installs into the environment, whatever pip it borrows. $4 tells the packages of an outer venv, to be added:
# the system packages of a venv made from a venv are those of its base (CPython's venv page, 2026-11).
_MAKE = r"""
sj_python=$(command -v python3 || command -v python || true); : "${sj_python:=$2}"
"$sj_python" -m venv --system-site-packages --without-pip "$1"
sj_outer=$("$sj_python" -c "$4")
sj_inner=$("$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
if [ -n "$sj_outer" ]; then printf '%s\n' "$sj_outer" > "$sj_inner/outer.pth"; fi
if "$1/bin/python" -c 'import pip' 2>/dev/null; then
  for sj_name in pip pip3; do
    printf '#!/bin/sh\nexec "${0%%/*}/python" -m pip "$@"\n' > "$1/bin/$sj_name"
    chmod 755 "$1/bin/$sj_name"
  done
else
  "$1/bin/python" -m ensurepip --default-pip >/dev/null
fi
unset sj_python sj_outer sj_inner sj_name PYTHONHOME
export VIRTUAL_ENV="$1" PATH="$1/bin:$PATH"
eval "$3"
"""
_HOOK = ("sojourn", "train", "hook")  # inside the parcel of sojourn.train, which Python imports from as it is
_OUTER = """import sys, sysconfig
if sys.prefix != getattr(sys, "base_prefix", sys.prefix):
    print(sysconfig.get_path("purelib"))
"""


def variables(root: Root, spec: Spec, attempt: int, cpu_quota: float | None, history: History) -> Dict[str, str]:
    """The environment of attempt N: the keeper's own, the job's `envs`, those of who asked for it (the GPUs of a
    queue's slot), its secrets, and ours on top; what a container is to know also by the name that Apptainer wants.

    Raises: OSError (scratch), Unprepared (a secret is not here).
    """
    named = spec.get("secrets") or ()
    env = {name: value for name, value in os.environ.items() if name not in named and not name.startswith(_SEAT)}
    env.update((str(name), str(value)) for name, value in (spec.get("envs") or {}).items())
    env.update((str(name), str(value)) for name, value in (read_fields(root.want).get("envs") or {}).items())
    env.update(_secrets(root, named))
    if cpu_quota:
        for name in _THREADS:
            env.setdefault(name, str(max(1, int(-(-cpu_quota // 1)))))
    paths = [os.path.join(root.base, "train", spec["train"])] if spec.get("train") else []
    if paths and spec.get("protect") == "saves":
        paths.insert(0, os.path.join(paths[0], *_HOOK))
    if env.get("PYTHONPATH"):
        paths.append(env["PYTHONPATH"])
    if paths:
        env["PYTHONPATH"] = os.pathsep.join(paths)
    for name, value in _DEFAULTS.items():
        env.setdefault(name, value)
    env.update(
        SOJOURN_RUN_ID=root.id,
        SOJOURN_ATTEMPT=str(attempt),
        SOJOURN_TOKEN=str(attempt),
        SOJOURN_RUN_DIR=root.path,
        SOJOURN_CHECKPOINT_DIR=root.checkpoints,
        SOJOURN_SCRATCH_DIR=prepare.scratch(root),
        SOJOURN_PROGRESS=root.progress(attempt),
        SOJOURN_RAN_S="%.1f" % history.spent_s,
        SOJOURN_INTERRUPTIONS=str(history.cut_off),
        SOJOURN_NODE_RANK="0",
        SOJOURN_NODE_IPS="127.0.0.1",
    )
    if root.seat:
        env["SOJOURN_PASSING"] = os.pathsep.join(_passing(root))
    ours = [name for name in env if name.startswith("SOJOURN_")]
    for name in [*ours, *_INTO_CONTAINERS, *(spec.get("envs") or ()), *named]:
        if name in env:
            env.setdefault("APPTAINERENV_" + name, env[name])
    return env


def _passing(root: Root) -> List[str]:
    """Folders that end with a scheduler's job, as far as the run itself is not there."""
    those = (os.environ.get("TMPDIR", ""), "/tmp", "/dev/shm")
    real = os.path.realpath(root.path)
    return [one for one in those if one and not real.startswith(os.path.realpath(one) + os.sep)]


def _secrets(root: Root, named: Sequence[str]) -> Dict[str, str]:
    values = secrets.read_secrets(root) if named else {}
    lacking = [name for name in named if name not in values]
    if lacking:
        raise prepare.Unprepared("the secret %s is not on the box any more: `resume` brings it" % lacking[0])
    return {name: values[name] for name in named}


def payload_argv(spec: Spec, env_folder: str, is_resumed: bool = False) -> List[str]:
    """The argv of the payload (the job's `resume` where `is_resumed` and it has one), behind the site's `init` line and
    the setup environment's PATH.

    A bash script gets a trap first: bash without one dies of SIGTERM at once and leaves its child, which is just
    writing its last checkpoint, behind; with one it waits for the child and passes its exit status on. Traps are not
    inherited, so the training process gets its SIGTERM as always.
    """
    argv = [str(word) for word in (is_resumed and spec.get("resume_argv")) or spec["argv"]]
    if len(argv) == 5 and argv[:4] == ["bash", "-eo", "pipefail", "-c"]:
        argv[4] = "trap : TERM; " + argv[4]
    step = shlex.split(os.environ.get(_SEAT + "_STEP", ""))  # starts it on every machine of the seat
    lines = []
    if spec.get("init"):
        lines.append(str(spec["init"]))
    if env_folder:
        lines.append('export VIRTUAL_ENV="$0" PATH="$0/bin:$PATH"; unset PYTHONHOME')
    if not lines:
        return step + argv
    lines.append('exec "$@"')
    return step + ["bash", "-eo", "pipefail", "-c", "\n".join(lines), env_folder or "sojourn"] + argv


def setup_argv(spec: Spec, folder: str) -> List[str]:
    """The argv that makes the environment `folder` and runs the job's `setup` in it."""
    script = (str(spec.get("init") or "") + "\n" + _MAKE).lstrip("\n")
    return [
        "bash",
        "-eo",
        "pipefail",
        "-c",
        script,
        "sojourn-setup",
        folder,
        sys.executable,
        str(spec["setup"]),
        _OUTER,
    ]


def setup_folder(base: str, spec: Spec) -> str:
    """Where the `setup` environment of this job lies on this kind of machine; "" for a job without `setup`.

    Its name holds what it must not be shared across: the setup text and files (setup_digest), `init`, the machine's
    architecture and the keeper's own Python, since boxes of one cluster may share BASE.
    """
    if not spec.get("setup"):
        return ""
    digest = spec.get("setup_digest") or names.digest(spec["setup"])
    kind = names.digest([spec.get("init") or "", os.uname().machine, os.path.realpath(sys.executable)])
    return os.path.join(base, "envs", "%s-%s" % (digest[:32], kind[:8]))


def is_ready(folder: str) -> bool:
    """Whether the environment was made to its end."""
    return os.path.exists(os.path.join(folder, ".ready"))


def lock(folder: str) -> int:
    """Try to take the lock of an environment: a descriptor, or -1 while somebody else makes it. Raises: OSError.

    Who makes it inherits the descriptor, so the lock is held for as long as anything of it lives.
    """
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    fd = os.open(folder + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return -1
    return fd


def seal(folder: str, seconds: float) -> None:
    """Mark the environment as made to its end, durably. Raises: OSError."""
    atomic.write_json(os.path.join(folder, ".ready"), {"python": sys.version.split()[0], "seconds": round(seconds, 3)})
