"""The batch script of a run: Slurm's options on top, then what starts the keeper and passes on Slurm's signals.

Options come from the job (resources, num_nodes, max_duration, after) and, with precedence, from `[sites.NAME.sbatch]`,
under Slurm's own names.
Source: sbatch(1), srun(1), slurm.conf(5) of Slurm 22.05 (2026-11), and its behaviour in tests/lab/slurm.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sojourn.backends.slurm import choice
from sojourn.core.ports import LaunchRequest
from sojourn.wire import quote
from sojourn.wire.errors import Misuse

_EARLY_S = 60  # Slurm may send the signal this much too early
_SPARE_S = 30  # between the end of the last save and the limit
_WRITE_S = 30.0  # of a save not yet measured
_SETUP_S = 600  # added to the limit of a job with `setup`, which `max_duration` does not count
_GPUS = ("gres", "gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket")
# What the launcher itself relies on.
_OURS = frozenset(
    "array chdir clusters error export export-file input job-name kill-on-invalid-dep no-requeue nodes ntasks"
    " ntasks-per-node open-mode output parsable quiet requeue test-only wait wrap".split()
)

# What srun starts. The keeper must not be a process group leader at its start; Slurm signals this shell alone, or all
# of it. Its output bypasses srun, which would hold back incomplete lines.
_STEP = (
    'exec >>"$0/logs/keeper.log" 2>&1; trap "kill -TERM \\$p" TERM; trap : INT HUP USR1 USR2; "$@" & p=$!; '
    'while wait "$p"; rc=$?; kill -0 "$p" 2>/dev/null; do :; done; wait "$p"'
)

# For a run on several nodes: the keeper and its guard are on the first one, and what it starts goes through _STEP_ALL
# there and _RANK on each node. srun answers SIGTERM by killing its tasks, so it has its own process group and Slurm
# signals the tasks: the first process of each and, with control groups, no other. The first that fails leaves its exit
# status for all to see; the others, which would wait for it for ever, get SIGTERM and half a minute. If all were told
# to end, each may take its time to save. Descriptor 3 is stderr without bash's job messages.
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
# (PET_*, of torch.distributed.run, 2026-11), and, for one process per node without torchrun, what `env://` needs.
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
export SOJOURN_SEAT_NODE="${SLURMD_NODENAME:-}" SOJOURN_SEAT="$me:${SLURM_RESTART_COUNT:-0}" SOJOURN_SEAT_LEAD_S=@lead@
# srun hands cpus on only where it is told so (Slurm 22.05 and newer); for the srun of a run's own script too.
export SRUN_CPUS_PER_TASK="${SLURM_CPUS_PER_TASK:-1}"
say() { echo "$(date -u +%Y-%m-%dT%H:%M:%SZ) sojourn: $*"; }
say "job $me, start ${SLURM_RESTART_COUNT:-0}, on $(hostname)"
refuse() { say "$root $*"; exit 73; }
[ -d "$root/logs" ] || refuse "is not on this node: base must lie on a file system that all nodes share"
case $root/ in "${TMPDIR:-/dev/shm}"/*) refuse "is in TMPDIR, which ends with the job" ;; esac
rm -f "$root/exits/$me.over" "$root/exits/$me.left"
moved() { true >"${root%/runs/*}/slurm.moved"; } 2>/dev/null # who knows how this job stands asks again
moved
trap moved EXIT
command -v @program@ >/dev/null 2>&1 || refuse "would be tended by" @program@", which this node does not have"
wait_s=$(scontrol show config 2>/dev/null | sed -n 's/^KillWait *= *\([0-9][0-9]*\) sec.*/\1/p')
wait_s=${wait_s:-30}
export SOJOURN_SEAT_GRACE_S=$((wait_s > 4 ? wait_s - 3 : 1))
keeper() { grep -q "\"seat\": *\"$SOJOURN_SEAT\"" "$root/keeper.json" 2>/dev/null &&
  sed -n 's/.*"pid": *\([0-9][0-9]*\).*/\1/p' "$root/keeper.json"; }
heard=
# Slurm may warn a minute too soon: what is left is told beside it. Slurm says [DAYS-][[HOURS:]MINUTES:]SECONDS.
left() {
  timeout 10 squeue -h -j "$SLURM_JOB_ID" -o %L 2>/dev/null | tr - : | awk -F: '/^[0-9:]+$/ {
    split("1 60 3600 86400", unit, " "); for (i = 0; i < NF; i++) s += $(NF - i) * unit[i + 1]; print s }'
}
save() {
  heard=1
  s=$(left)
  say "this job ends soon${s:+, in $s s}"
  [ -z "$s" ] || echo "$((s > 15 ? s - 10 : 5))" >"$root/exits/$me.left"
  kill -INT "$(keeper)" 2>/dev/null || kill -TERM "$step"
}
trap save USR1
trap 'heard=1; say "Slurm ends this job"; kill -TERM "$(keeper)" 2>/dev/null' TERM
overlap=$(srun --help 2>/dev/null | grep -o -m 1 -e --overlap)
@spread@
srun --nodes=1 --ntasks=1 --cpus-per-task="$SRUN_CPUS_PER_TASK" @gpus@--export=ALL --mpi=none $overlap \
  bash -c @step@ "$root" @argv@ </dev/null &
step=$!
while wait "$step"; rc=$?; [ -n "$heard" ]; do heard=; done
say "the keeper left with $rc"
asked() { scontrol -o show job "$SLURM_JOB_ID" 2>/dev/null | sed -n "s/.* $1=\([^ (]*\).*/\1/p"; }
# A job whose own nodelist names a node that it should avoid would wait for ever.
if [ "$rc" = 75 ] && [ -e "$root/exits/$me.avoid" ]; then
  for node in $(scontrol show hostnames "$(asked ReqNodeList)" 2>/dev/null); do
    grep -qx "$node" "$root/exits/$me.avoid" && { say "its nodelist names $node, which has a fault"; rc=1; }
  done
fi
# 75: it would get on in another start. Where Slurm ends the job for good (scancel, the limit) it is no longer RUNNING.
if [ "$rc" = 75 ] && [ "$(squeue -h -j "$me" -o %T)" = RUNNING ]; then
  if scontrol requeue "$me"; then
    say "back into the queue"
    avoid=$(paste -s -d , "$root/exits/$me.avoid" 2>/dev/null)
    if [ -n "$avoid" ]; then # Slurm takes this only of a job that waits; this script has until its processes are ended
      say "not on $avoid again"
      exclude=$(asked ExcNodeList)
      for try in 1 2 3 4 5 6 7 8; do
        scontrol update "job=$me" "excnodelist=$avoid${exclude:+,$exclude}" && break
        sleep 0.5
      done
    fi
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

# For the job of one root. In a task of an array, $1 is a folder with a link per task: NUMBER -> .../RUN/logs. The same
# script submitted by hand in a run's own folder `logs` is for that run alone.
_ONE = "root=@one@\nme=$SLURM_JOB_ID"
_TASK = r"""
at=$PWD me=$SLURM_JOB_ID
if [ -n "${SLURM_ARRAY_TASK_ID:-}" ] && [ -n "${1:-}" ]; then
  at=$(readlink "$1/$SLURM_ARRAY_TASK_ID") me=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
fi
at=${at%/logs}
root=@runs@/${at##*/}
""".strip()


@dataclass(frozen=True)
class _Start:
    """What a script for one root and one for the tasks of an array do not share. `where`: its lines that set `root`;
    `more`: what follows argv in them; `heads` and `dependency`: their options of sbatch.
    """

    where: str
    more: str = ""
    heads: Mapping[str, Any] = field(default_factory=dict)
    dependency: str = ""


class BadOption(Misuse):
    """{site}: sbatch's {name} cannot be set here: {why}."""

    code = "bad-sbatch-option"


def render(argv: Sequence[str], root: str, order: LaunchRequest, settings: Mapping[str, Any], site: str = "") -> str:
    """The whole script for one root. Raises: BadOption."""
    heads = {"job-name": job_name(root), "output": "slurm-%j.out"}
    start = _Start(_ONE.replace("@one@", quote.join([root])), heads=heads, dependency="singleton")
    return _filled(start, argv, order, _chosen(order, settings, site), site)


def render_array(
    argv: Sequence[str], runs: str, order: LaunchRequest, settings: Mapping[str, Any], site: str = ""
) -> str:
    """The script of an array whose tasks each start argv with a root below the folder `runs`. Raises: BadOption."""
    start = _Start(_TASK.replace("@runs@", quote.join([runs])), more=' "$root"')
    return _filled(start, argv, order, _chosen(order, settings, site), site)


def _filled(start: _Start, argv: Sequence[str], order: LaunchRequest, settings: dict[str, Any], site: str) -> str:
    options = job_options(order) | settings
    lead_s = lead(options, order.write_s, site, str(order.spec.get("signal") or ""))
    options["signal"] = f"B:USR1@{lead_s}"
    first = ":".join(["afterok", *order.after]) if order.after else ""
    waits = ",".join(part for part in (start.dependency, first, str(options.pop("dependency", ""))) if part)
    heads = {**start.heads, "open-mode": "append", "requeue": True}
    if waits:
        heads["dependency"] = waits
    if waits not in ("", "singleton"):
        heads["kill-on-invalid-dep"] = "yes"
    nodes = int(order.spec.get("num_nodes") or 1)
    heads |= {"nodes": nodes, "ntasks": nodes, **({"ntasks-per-node": 1} if nodes > 1 else {}), **options}
    gpus = "".join(f"--{name}={quote.join([str(options[name])])} " for name in _GPUS if name in options)
    marks = {
        "root": start.where,
        "lead": str(max(5, lead_s - 10)),
        "gpus": gpus,
        "step": quote.join([_STEP]),
        "argv": quote.join(argv) + start.more,
        "program": quote.join(argv[:1]),
        "nodes": str(nodes),
        "all": quote.join([quote.join([_STEP_ALL])]),
        "rank": quote.join([quote.join([_RANK])]),
    }
    body = re.sub(r"@(\w+)@", lambda mark: marks[mark[1]], _BODY.replace("@spread@\n", _SPREAD if nodes > 1 else ""))
    lines = "".join(_line(name, value) for name, value in heads.items())
    return "#!/bin/bash\n" + lines + choice.comment(any_of(order, settings)) + body


def job_options(order: LaunchRequest) -> dict[str, Any]:
    """The job's own options, in Slurm's words."""
    spec, out = order.spec, dict[str, Any]()
    need = spec.get("resources") or {}
    if need.get("cpus"):
        out["cpus-per-task"] = math.ceil(float(str(need["cpus"]).rstrip("+")))
    if need.get("memory"):
        out["mem"] = f"{math.ceil(float(str(need['memory']).rstrip('+')) * 1024)}M"
    if need.get("accelerators"):
        out["gres"] = _gres(str(need["accelerators"][0]))
    max_s = spec.get("max_duration_s")
    if max_s:
        limit_s = float(max_s) + (_SETUP_S if spec.get("setup") else 0)
        out["time"] = math.ceil((limit_s + _lead_s(order.write_s)) / 60)
    return out


def any_of(order: LaunchRequest, settings: Mapping[str, Any]) -> list[str]:
    """The requests that satisfy the job's list of accelerators, in order; [] if there is no choice."""
    asked = [_gres(str(one)) for one in (order.spec.get("resources") or {}).get("accelerators") or ()]
    return asked if len(asked) > 1 and not settings.keys() & {*_GPUS, "constraint"} else []


def _gres(accelerator: str) -> str:
    name, _, count = accelerator.replace(" ", "_").partition(":")
    return f"gpu:{count or 1}" if name.lower() == "gpu" else f"gpu:{name.lower()}:{count or 1}"


def lead(options: Mapping[str, Any], write_s: float, site: str = "", asked: str = "") -> int:
    """Seconds before the limit at which the keeper is warned; it then waits as long as the run can still save.

    `asked`: the job file's own `signal`, NAME@SECONDS. Raises: BadOption.
    """
    if "signal" in options:
        told = re.fullmatch(r"B:(?:SIG)?USR1@(\d+)", str(options["signal"]))
        if not told:
            raise BadOption(
                site=site, name="signal", why="write B:USR1@SECONDS, the signal that the batch script handles"
            )
        return int(told[1])
    limit_s = seconds(str(options.get("time", "")))
    lead_s = int(asked.partition("@")[2]) + _EARLY_S if asked else _lead_s(write_s)
    return min(lead_s, int(limit_s / 2)) if limit_s else lead_s


def job_name(root: str) -> str:
    """The name of the run's job: its id, and a digest of the root, since two bases may hold one id."""
    digest = hashlib.sha256(root.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"sojourn-{root.rstrip('/').rpartition('/')[2]}-{digest}"


def seconds(time: str) -> float:
    """A time limit as Slurm writes it: M, M:S, H:M:S, D-H, D-H:M, D-H:M:S; 0 for none or anything else."""
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


def _chosen(order: LaunchRequest, settings: Mapping[str, Any], site: str) -> dict[str, Any]:
    """The site's options overridden by the job's own. A job's own `gres` or `gpus...` replaces the site's, whichever of
    these names that has. Raises: BadOption."""
    ours, own = _checked(settings, site), _checked(order.spec.get("scheduling") or {}, "the job's `slurm`")
    if any(name in own for name in _GPUS):
        ours = {name: value for name, value in ours.items() if name not in _GPUS}
    return ours | own


def _checked(settings: Mapping[str, Any], site: str) -> dict[str, Any]:
    out = {}
    for key, value in settings.items():
        name = str(key).replace("_", "-")
        if name in _OURS:
            raise BadOption(site=site, name=name, why="the launcher sets it itself, or depends on its default")
        if not re.fullmatch(r"[a-z][a-z0-9-]+", name):
            raise BadOption(site=site, name=name, why="write the long name, without the two dashes")
        if not isinstance(value, (str, int, bool)) or re.search(r'["\'\\\n\r#]', str(value)):
            raise BadOption(site=site, name=name, why=f"{value!r} is not a one-line value")
        if name == "dependency" and not re.fullmatch(r"after\w*:[\w:+]+(,after\w*:[\w:+]+)*", str(value)):
            raise BadOption(site=site, name=name, why="write afterok:JOB and the like, separated by commas")
        out[name] = value
    return out


def _line(name: str, value: Any) -> str:
    if value is False:
        return ""
    if value is True:
        return f"#SBATCH --{name}\n"
    text = str(value)
    return f'#SBATCH --{name}="{text}"\n' if re.search(r"\s", text) else f"#SBATCH --{name}={text}\n"
