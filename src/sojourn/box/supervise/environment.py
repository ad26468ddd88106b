"""The payload's environment variables and argv, and the `setup` environment, made once for all runs that share it."""

from __future__ import annotations

import fcntl
import os
import shlex
import sys

from sojourn.box.run import secrets
from sojourn.box.run.history import History
from sojourn.box.run.root import Root, read_fields
from sojourn.box.supervise import prepare
from sojourn.box.system import bounded
from sojourn.wire import atomic, names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Mapping, Sequence

    from sojourn.wire.documents import Spec

_SEAT = "SOJOURN_SEAT"  # the keeper's own; keepers started by the payload get none
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
# Unless the job says otherwise. Without a separate store torchrun may give the addresses of dead processes to those it
# restarts, which wait for them; a fixed PyTorch no longer needs it (pytorch issue 135712, 2.4 to 2.13, 2026-11).
_DEFAULTS = {"PYTHONUNBUFFERED": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
# What shows that a cache is in its usual place already, perhaps filled for work without a network: it stays in use.
_USUAL = {"HF_HOME": "huggingface/hub", "TORCH_HOME": "torch/hub"}
# Beside ours and the job's: what `apptainer exec --cleanenv` passes on, under its own names (APPTAINERENV_...).
_INTO_CONTAINERS = (*_THREADS, *_DEFAULTS, "PYTHONPATH", "CUDA_VISIBLE_DEVICES")

# Makes the environment $1 from the python that `init` left in PATH ($2 if none), then runs the setup text $3.
# `--without-pip` with a wrapper is 10 times faster than ensurepip, and works where Debian left ensurepip out; the
# wrapper installs into the environment, whatever pip it borrows. $4 prints the packages of an outer venv, to be added:
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
_DISKS_S = 10.0  # so long the disks that a platform's variables are about are asked for
_HOOK = ("sojourn", "train", "hook")  # inside the parcel of sojourn.train, from which Python imports directly
_OUTER = """import sys, sysconfig
if sys.prefix != getattr(sys, "base_prefix", sys.prefix):
    print(sysconfig.get_path("purelib"))
"""


def variables(root: Root, spec: Spec, attempt: int, cpu_quota: float | None, history: History) -> Dict[str, str]:
    """The environment of attempt N: the keeper's own, the job's `envs`, the requester's (the GPUs of a queue's slot),
    its secrets, what its platform wants and nobody has set, and ours on top; variables for containers also under
    Apptainer's names.

    Raises: OSError (scratch), Unprepared (a secret is not here).
    """
    named = spec.get("secrets") or ()
    env = {name: value for name, value in os.environ.items() if name not in named and not name.startswith(_SEAT)}
    env.update((str(name), str(value)) for name, value in (spec.get("envs") or {}).items())
    env.update((str(name), str(value)) for name, value in (read_fields(root.want).get("envs") or {}).items())
    env.update(_secrets(root, named))
    env.update(_suited(env, spec))
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
    suited = (spec.get("platform_env") or {}).get("set") or ()
    for name in [*ours, *_INTO_CONTAINERS, *(spec.get("envs") or ()), *named, *suited]:
        if name in env:
            env.setdefault("APPTAINERENV_" + name, env[name])
    return env


def _suited(env: Mapping[str, str], spec: Spec) -> Dict[str, str]:
    """What the platform wants (`platform_env` of run.json: "set" and "needs") and nobody has set in `env`; nothing if
    the disks that it is about do not answer.

    Raises: OSError.
    """
    wanted: Mapping[str, Any] = spec.get("platform_env") or {}
    if not wanted.get("set"):
        return {}
    question = bounded.Question("platform", lambda: _wanted(env, wanted["set"], wanted.get("needs") or {}), _DISKS_S)
    return bounded.ask([question])["platform"].value or {}


def _wanted(env: Mapping[str, str], wanted: Mapping[str, Any], needs: Mapping[str, str]) -> Dict[str, str]:
    """Of the variables `wanted`, those to set.

    A cache folder only where the disk that it needs is here. A mirror of Hugging Face belongs to a third party, and
    the library would send it the user's token: it is left out where the run has one. A token that was saved by a login
    stays known where the cache moves.
    """
    found: Dict[str, str] = {}
    usual = env.get("XDG_CACHE_HOME") or os.path.join(env.get("HOME") or os.path.expanduser("~"), ".cache")
    token = env.get("HF_TOKEN_PATH") or os.path.join(env.get("HF_HOME") or os.path.join(usual, "huggingface"), "token")
    has_token = os.path.exists(token) or any(env.get(name) for name in _TOKENS)
    for name, value in sorted(wanted.items()):
        if name in env or (name == "HF_ENDPOINT" and has_token):
            continue
        if name in needs and not (os.path.isdir(needs[name]) and os.access(needs[name], os.W_OK)):
            continue
        if name in _USUAL and os.path.isdir(os.path.join(usual, _USUAL[name])):
            continue
        found[name] = str(value)
        if name == "HF_HOME" and os.path.exists(token) and "HF_TOKEN_PATH" not in env:
            found["HF_TOKEN_PATH"] = token
    return found


def _hook(spec: Spec) -> str:
    """The platform's own network hook, as shell lines before the site's `init`; "" where it has none.

    Where anything is said of `http_proxy`, be it "", it is not run. What the platform serves inside its country does
    not pass its proxy (gotcha proxy-breaks-domestic).
    """
    wanted: Mapping[str, Any] = spec.get("platform_env") or {}
    if not wanted.get("hook"):
        return ""
    lines = ['if [ -z "${http_proxy+x}${https_proxy+x}" ]; then', "  %s" % wanted["hook"]]
    if wanted.get("no_proxy"):
        lines += [
            '  if [ -n "${http_proxy-}${https_proxy-}" ]; then',
            '    export no_proxy="${no_proxy:+$no_proxy,}"%s' % shlex.quote(str(wanted["no_proxy"])),
            '    export NO_PROXY="$no_proxy"',
            "  fi",
        ]
    return "\n".join([*lines, "fi"])


def _passing(root: Root) -> List[str]:
    """Folders that end with a scheduler's job, unless the run itself is there."""
    those = (os.environ.get("TMPDIR", ""), "/tmp", "/dev/shm")
    real = os.path.realpath(root.path)
    return [one for one in those if one and not real.startswith(os.path.realpath(one) + os.sep)]


def _secrets(root: Root, named: Sequence[str]) -> Dict[str, str]:
    values = secrets.read_secrets(root) if named else {}
    lacking = [name for name in named if name not in values]
    if lacking:
        raise prepare.Unprepared("the secret %s is no longer on the box: `resume` sends it again" % lacking[0])
    return {name: values[name] for name in named}


def payload_argv(spec: Spec, env_folder: str, is_resumed: bool = False) -> List[str]:
    """The argv of the payload (the job's `resume` if `is_resumed` and it has one), after the site's `init` line and the
    setup environment's PATH.

    A bash script gets a trap first: without one, bash dies of SIGTERM at once and abandons its child, which is just
    writing its last checkpoint; with one, it waits for the child and passes on its exit status. Traps are not
    inherited, so the training process gets its SIGTERM as always.
    """
    argv = [str(word) for word in (is_resumed and spec.get("resume_argv")) or spec["argv"]]
    if len(argv) == 5 and argv[:4] == ["bash", "-eo", "pipefail", "-c"]:
        argv[4] = "trap : TERM; " + argv[4]
    step = shlex.split(os.environ.get(_SEAT + "_STEP", ""))  # starts it on every machine of the seat
    lines = [line for line in (_hook(spec), str(spec.get("init") or "")) if line]
    if env_folder:
        lines.append('export VIRTUAL_ENV="$0" PATH="$0/bin:$PATH"; unset PYTHONHOME')
    if not lines:
        return step + argv
    lines.append('exec "$@"')
    return step + ["bash", "-eo", "pipefail", "-c", "\n".join(lines), env_folder or "sojourn"] + argv


def setup_argv(spec: Spec, folder: str) -> List[str]:
    """The argv that makes the environment `folder` and runs the job's `setup` in it."""
    script = "\n".join(part for part in (_hook(spec), str(spec.get("init") or ""), _MAKE.lstrip("\n")) if part)
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
    """The folder of this job's `setup` environment on this kind of machine; "" for a job without `setup`.

    Its name covers what must be equal for sharing: the setup text and files (setup_digest), `init`, the machine's
    architecture and the keeper's own Python, since boxes of one cluster may share BASE.
    """
    if not spec.get("setup"):
        return ""
    digest = spec.get("setup_digest") or names.digest(spec["setup"])
    kind = names.digest([spec.get("init") or "", os.uname().machine, os.path.realpath(sys.executable)])
    return os.path.join(base, "envs", "%s-%s" % (digest[:32], kind[:8]))


def is_ready(folder: str) -> bool:
    """Whether the environment was completed."""
    return os.path.exists(os.path.join(folder, ".ready"))


def lock(folder: str) -> int:
    """Try to take an environment's lock: a descriptor, or -1 while somebody else makes it. Raises: OSError.

    The maker inherits the descriptor, so the lock is held while any part of it lives.
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
    """Mark the environment as complete, durably. Raises: OSError."""
    atomic.write_json(os.path.join(folder, ".ready"), {"python": sys.version.split()[0], "seconds": round(seconds, 3)})
