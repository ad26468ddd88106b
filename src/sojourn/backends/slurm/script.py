"""The batch script of a run: Slurm's options on top, below them what starts the keeper and hands on what Slurm tells.

Options come from the job (resources, num_nodes, max_duration, after) and, under Slurm's own names, from
`[sites.NAME.sbatch]`, which win.
Source: sbatch(1), srun(1), slurm.conf(5) of Slurm 22.05 (2026-11), and what it did in tests/lab/slurm.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from sojourn.core.ports import LaunchRequest
from sojourn.wire import quote
from sojourn.wire.errors import Misuse

_EARLY_S = 60  # Slurm may send the signal as much too early
_SPARE_S = 30  # between the end of the last save and the limit
_WRITE_S = 30.0  # a save's time until one was measured
_SETUP_S = 600  # added to the limit of a job with `setup`, which `max_duration` does not count
_GPUS = ("gres", "gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket")
# What the launcher itself relies on.
_OURS = frozenset(
    "array chdir clusters error export export-file input job-name kill-on-invalid-dep no-requeue nodes ntasks"
    " ntasks-per-node open-mode output parsable quiet requeue test-only wait wrap".split()
)

# What srun starts. The keeper must lead no process group when it begins; Slurm signals this shell alone, or all of it.
# Its output does not go through srun, which would keep back what is no whole line.
_STEP = (
    'exec >>"$0/logs/keeper.log" 2>&1; trap "kill -TERM \\$p" TERM; trap : INT HUP USR1 USR2; "$@" & p=$!; '
    'while wait "$p"; rc=$?; kill -0 "$p" 2>/dev/null; do :; done; wait "$p"'
)

# Of a run on several nodes: the keeper and its guard are on the first one, and what it starts goes through _STEP_ALL
# there and _RANK on each node. srun answers SIGTERM by killing its tasks, so it has a process group of its own and they
# are told by Slurm, which tells the first process of each and, with control groups, no other. The first that fails
# leaves its exit status for all to see; the others, which would wait for it for ever, get SIGTERM and half a minute.
# Were all told to end, each may take its time to save. Descriptor 3 is stderr without what bash has to say of jobs.
_SPREAD = r"""
hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
ips=$(for host in $hosts; do getent ahostsv4 "$host" | sed -n '1s/ .*//p'; done | paste -s -d ,)
SOJOURN_SEAT_STEP="bash -c "@all@
SOJOURN_SEAT_STEP="$SOJOURN_SEAT_STEP sojourn srun --nodes=@nodes@ --ntasks=@nodes@ --ntasks-per-node=1 \
  --cpus-per-task=$SRUN_CPUS_PER_TASK @gpus@--export=ALL --mpi=none $overlap --kill-on-bad-exit=1 --unbuffered \
  --job-name=ranks-$SOJOURN_SEAT bash -c "@rank@
SOJOURN_SEAT_STEP="$SOJOURN_SEAT_STEP sojourn @nodes@ $((20000 + SLURM_JOB_ID % 12000)) $ips"
export SOJOURN_SEAT_STEP SOJOURN_RANKS="ranks-$SOJOURN_SEAT"
"""
_STEP_ALL = r"""
tell() { scancel --signal=TERM $(squeue -h -s -j "$SLURM_JOB_ID" -o '%i %j' | sed -n "s/ $SOJOURN_RANKS\$//p"); }
first=$SOJOURN_RUN_DIR/exits/$SOJOURN_ATTEMPT.rank
set -m
exec 3>&2 2>/dev/null
"$@" </dev/null 2>&3 3>&- & p=$!
trap tell TERM
while wait "$p"; rc=$?; kill -0 "$p" 2>/dev/null; do :; done; wait "$p"; rc=$?
[ ! -e "$first" ] || read -r rc <"$first"
exit "$rc"
""".strip()
# What each node's process finds beside our own variables: torchrun's options as it reads them from its environment
# (PET_*, of torch.distributed.run, 2026-11), and for one process a node without torchrun what `env://` wants.
_RANK = r"""
export SOJOURN_NUM_NODES=$1 SOJOURN_NODE_RANK=$SLURM_PROCID SOJOURN_NODE_IPS=${3//,/$'\n'}
export MASTER_ADDR=${3%%,*} MASTER_PORT=$2 WORLD_SIZE=$1 RANK=$SLURM_PROCID LOCAL_RANK=0
export PET_NNODES=$1 PET_NODE_RANK=$SLURM_PROCID PET_MASTER_ADDR=$MASTER_ADDR PET_MASTER_PORT=$2
for name in ${!SOJOURN_N@} ${!MASTER_@} ${!PET_@} WORLD_SIZE RANK LOCAL_RANK; do
  export "APPTAINERENV_$name=${!name}" # what goes into a container also with --cleanenv
done
shift 3
[ -d "$SOJOURN_RUN_DIR" ] || { echo "sojourn: node $RANK does not see $SOJOURN_RUN_DIR" >&2; exit 73; }
first=$SOJOURN_RUN_DIR/exits/$SOJOURN_ATTEMPT.rank told=
watch() { until [ -e "$first" ]; do sleep 2; done; kill -TERM -- "-$1"; sleep 30; kill -KILL -- "-$1"; }
set -m
exec 3>&2 2>/dev/null
"$@" </dev/null 2>&3 3>&- & p=$!
watch "$p" 3>&- & w=$!
trap 'told=1; kill -- "-$w" "-$p"' TERM
while wait "$p"; rc=$?; kill -0 "$p" 2>/dev/null; do :; done; wait "$p"; rc=$?
if [ "$rc" != 0 ] && (set -C; echo "$rc" >"$first") && [ -z "$told" ]; then
  echo "sojourn: on node $RANK it ended with $rc; the others are told to end" >&3
fi
kill -- "-$w"
[ ! -e "$first" ] || exit 0
exit "$rc"
""".strip()

_BODY = r"""
# `module` is a function that login shells alone have, and `init` may call it.
if ! type module >/dev/null 2>&1; then
  for file in /etc/profile.d/*modules.sh /etc/profile.d/*lmod.sh; do [ ! -r "$file" ] || . "$file"; done
fi
[ "$(type -t module)" != function ] || export -f module
set -u
@root@
export SOJOURN_SEAT="$me:${SLURM_RESTART_COUNT:-0}" SOJOURN_SEAT_LEAD_S=@lead@
# srun hands cpus on only where it is told so (Slurm 22.05 and newer); for the srun of a run's own script too.
export SRUN_CPUS_PER_TASK="${SLURM_CPUS_PER_TASK:-1}"
say() { echo "$(date -u +%Y-%m-%dT%H:%M:%SZ) sojourn: $*"; }
say "job $me, start ${SLURM_RESTART_COUNT:-0}, on $(hostname)"
refuse() { say "$root $*"; exit 73; }
[ -d "$root/logs" ] || refuse "is not on this node: base must lie on a file system that all nodes share"
case $root/ in "${TMPDIR:-/dev/shm}"/*) refuse "is in TMPDIR, which ends with the job" ;; esac
rm -f "$root/exits/$me.over"
command -v @program@ >/dev/null 2>&1 || refuse "would be tended by" @program@", which this node does not have"
wait_s=$(scontrol show config 2>/dev/null | sed -n 's/^KillWait *= *\([0-9][0-9]*\) sec.*/\1/p')
wait_s=${wait_s:-30}
export SOJOURN_SEAT_GRACE_S=$((wait_s > 4 ? wait_s - 3 : 1))
keeper() { grep -q "\"seat\": *\"$SOJOURN_SEAT\"" "$root/keeper.json" 2>/dev/null &&
  sed -n 's/.*"pid": *\([0-9][0-9]*\).*/\1/p' "$root/keeper.json"; }
heard=
save() { heard=1; say "this job ends soon"; kill -INT "$(keeper)" 2>/dev/null || kill -TERM "$step"; }
trap save USR1
trap 'heard=1; say "Slurm ends this job"; kill -TERM "$(keeper)" 2>/dev/null' TERM
overlap=$(srun --help 2>/dev/null | grep -o -m 1 -e --overlap)
@spread@
srun --nodes=1 --ntasks=1 --cpus-per-task="$SRUN_CPUS_PER_TASK" @gpus@--export=ALL --mpi=none $overlap \
  bash -c @step@ "$root" @argv@ </dev/null &
step=$!
while wait "$step"; rc=$?; [ -n "$heard" ]; do heard=; done
say "the keeper left with $rc"
# 75: it would get on in another start. Where Slurm ends the job for good (scancel, the limit) it is no longer RUNNING.
if [ "$rc" = 75 ] && [ "$(squeue -h -j "$me" -o %T)" = RUNNING ]; then
  if scontrol requeue "$me"; then
    say "back into the queue"
    sleep 600 & wait $!  # Slurm ends this
    exit 75
  fi
  say "Slurm does not put this job back into the queue"
fi
: >"$root/exits/$me.over"
# Without control groups Slurm kills for memory, says so here alone, and writes down a mere 9.
[ "$rc" != 137 ] || ! grep -qs 'xceeded .*memory limit' "$root/logs/slurm-$me.out" || rc=125
# For Slurm (`afterok`, sacct) a run that did not succeed is a job that failed.
ended=$(grep '"kind": *"ended"' "$root/events.jsonl" 2>/dev/null | tail -n 1)
case $rc$ended in 0*'"state":'*'"succeeded"'*) ;; 0*) rc=1 ;; esac
exit "$rc"
"""

# Of the job of one root. In a task of an array $1 is a folder with a link for each task: NUMBER -> .../RUN/logs. The
# same script submitted by hand in a run's own folder `logs` is for that run alone.
_ONE = "root=@one@\nme=$SLURM_JOB_ID"
_TASK = r"""
at=$PWD me=$SLURM_JOB_ID
if [ -n "${SLURM_ARRAY_TASK_ID:-}" ] && [ -n "${1:-}" ]; then
  at=$(readlink "$1/$SLURM_ARRAY_TASK_ID") me=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
fi
at=${at%/logs}
root=@runs@/${at##*/}
""".strip()


class BadOption(Misuse):
    """{site}: sbatch's {name} cannot be set here: {why}."""

    code = "bad-sbatch-option"


def render(argv: Sequence[str], root: str, order: LaunchRequest, settings: Mapping[str, Any], site: str = "") -> str:
    """The whole script for one root. Raises: BadOption."""
    heads = {"job-name": job_name(root), "output": "slurm-%j.out"}
    where = _ONE.replace("@one@", quote.join([root]))
    return _filled(heads, "singleton", where, argv, "", order, _checked(settings, site), site)


def render_array(
    argv: Sequence[str], runs: str, order: LaunchRequest, settings: Mapping[str, Any], site: str = ""
) -> str:
    """The script of an array, each task of which starts argv with a root below the folder `runs`. Raises: BadOption."""
    where = _TASK.replace("@runs@", quote.join([runs]))
    return _filled({}, "", where, argv, ' "$root"', order, _checked(settings, site), site)


def _filled(
    heads: Mapping[str, Any],
    dependency: str,
    where: str,
    argv: Sequence[str],
    more: str,
    order: LaunchRequest,
    settings: dict[str, Any],
    site: str,
) -> str:
    options = job_options(order) | settings
    lead_s = lead(options, order.write_s, site)
    options["signal"] = f"B:USR1@{lead_s}"
    first = ":".join(["afterok", *order.after]) if order.after else ""
    waits = ",".join(part for part in (dependency, first, str(options.pop("dependency", ""))) if part)
    heads = {**heads, "open-mode": "append", "requeue": True}
    if waits:
        heads["dependency"] = waits
    if waits not in ("", "singleton"):
        heads["kill-on-invalid-dep"] = "yes"
    nodes = int(order.spec.get("num_nodes") or 1)
    heads |= {"nodes": nodes, "ntasks": nodes, **({"ntasks-per-node": 1} if nodes > 1 else {}), **options}
    gpus = "".join(f"--{name}={quote.join([str(options[name])])} " for name in _GPUS if name in options)
    marks = {
        "root": where,
        "lead": str(max(5, lead_s - 10)),
        "gpus": gpus,
        "step": quote.join([_STEP]),
        "argv": quote.join(argv) + more,
        "program": quote.join(argv[:1]),
        "nodes": str(nodes),
        "all": quote.join([quote.join([_STEP_ALL])]),
        "rank": quote.join([quote.join([_RANK])]),
    }
    body = re.sub(r"@(\w+)@", lambda mark: marks[mark[1]], _BODY.replace("@spread@\n", _SPREAD if nodes > 1 else ""))
    return "#!/bin/bash\n" + "".join(_line(name, value) for name, value in heads.items()) + body


def job_options(order: LaunchRequest) -> dict[str, Any]:
    """What the job itself says, in Slurm's words."""
    spec, out = order.spec, dict[str, Any]()
    need = spec.get("resources") or {}
    if need.get("cpus"):
        out["cpus-per-task"] = math.ceil(float(str(need["cpus"]).rstrip("+")))
    if need.get("memory"):
        out["mem"] = f"{math.ceil(float(str(need['memory']).rstrip('+')) * 1024)}M"
    if need.get("accelerators"):
        name, _, count = str(need["accelerators"][0]).partition(":")
        out["gres"] = f"gpu:{count or 1}" if name.lower() == "gpu" else f"gpu:{name.lower()}:{count or 1}"
    max_s = spec.get("max_duration_s")
    if max_s:
        limit_s = float(max_s) + (_SETUP_S if spec.get("setup") else 0)
        out["time"] = math.ceil((limit_s + _lead_s(order.write_s)) / 60)
    return out


def lead(options: Mapping[str, Any], write_s: float, site: str = "") -> int:
    """Seconds before the limit at which the run is told to save. Raises: BadOption."""
    if "signal" in options:
        told = re.fullmatch(r"B:(?:SIG)?USR1@(\d+)", str(options["signal"]))
        if not told:
            raise BadOption(
                site=site, name="signal", why="write B:USR1@SECONDS, which is what the batch script listens to"
            )
        return int(told[1])
    limit_s = seconds(str(options.get("time", "")))
    return min(_lead_s(write_s), int(limit_s / 2)) if limit_s else _lead_s(write_s)


def job_name(root: str) -> str:
    """Names the run's job: its id, and a digest of the root, since two bases may hold one id."""
    digest = hashlib.sha256(root.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"sojourn-{root.rstrip('/').rpartition('/')[2]}-{digest}"


def seconds(time: str) -> float:
    """A time limit as Slurm writes it: M, M:S, H:M:S, D-H, D-H:M, D-H:M:S; 0 for none or what is no number."""
    found = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", time)
    if not found:
        return 0.0
    days, *rest = found.groups()
    a, b, c = (int(part or 0) for part in rest)
    if days is not None:
        return int(days) * 86400 + a * 3600 + b * 60 + c
    if rest[2] is not None:
        return a * 3600 + b * 60 + c
    return a * 60 + b


def _lead_s(write_s: float) -> int:
    return _EARLY_S + _SPARE_S + math.ceil(2 * (write_s or _WRITE_S))


def _checked(settings: Mapping[str, Any], site: str) -> dict[str, Any]:
    out = {}
    for key, value in settings.items():
        name = str(key).replace("_", "-")
        if name in _OURS:
            raise BadOption(
                site=site, name=name, why="the launcher sets it itself, or it would break what it relies on"
            )
        if not re.fullmatch(r"[a-z][a-z0-9-]+", name):
            raise BadOption(site=site, name=name, why="write its long name, without the two dashes")
        if not isinstance(value, (str, int, bool)) or re.search(r'["\'\\\n\r#]', str(value)):
            raise BadOption(site=site, name=name, why=f"{value!r} is no value for one line of a script")
        if name == "dependency" and not re.fullmatch(r"after\w*:[\w:+]+(,after\w*:[\w:+]+)*", str(value)):
            raise BadOption(site=site, name=name, why="write afterok:JOB and the like, with commas between several")
        out[name] = value
    return out


def _line(name: str, value: Any) -> str:
    if value is False:
        return ""
    if value is True:
        return f"#SBATCH --{name}\n"
    text = str(value)
    return f'#SBATCH --{name}="{text}"\n' if re.search(r"\s", text) else f"#SBATCH --{name}={text}\n"
