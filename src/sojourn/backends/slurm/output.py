"""The output of squeue, sacct and scontrol, parsed. Only what every Slurm of the last ten years prints: no JSON.

Source: squeue(1), sacct(1), scontrol(1) of Slurm 22.05 (2026-11) and recordings in tests/backends/slurm_texts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

ACTIVE = frozenset(
    "PENDING RUNNING SUSPENDED CONFIGURING COMPLETING REQUEUED REQUEUE_FED REQUEUE_HOLD RESIZING RESV_DEL_HOLD"
    " SIGNALING SPECIAL_EXIT STAGE_OUT STOPPED".split()
)
_MARK = "sojourn:"

# Defines listed REST [BASE]: squeue's output for all jobs of this user, after its exit status. The controller is asked
# once in REST seconds for all sites, runs and clients on this login node: an answer is kept, and counts until REST is
# over or a job of BASE started, ended or was submitted (whoever does that touches BASE/slurm.moved). Nobody waits
# longer than 4 seconds: a late answer serves the next caller, and a caller without one says so. After FAILS
# failures in a row the next question waits 10, 20, 40 ... seconds, up to REST: a controller in trouble is never asked
# more often than one that answers. The first line of what is kept: when, FAILS, squeue's exit status.
KEPT = r"""
folder=${XDG_CACHE_HOME:-$HOME/.cache}/sojourn
mkdir -p "$folder" 2>/dev/null && [ -w "$folder" ] || folder=${TMPDIR:-/tmp}
kept=$folder/squeue-$(id -u)-$(printf '%s' "${SLURM_CONF:-}" | cksum | tr ' ' -)
"""
LISTED = (
    KEPT
    + r"""
listed() {
  is_younger() { read -r at fails rc <"$kept" && age=$(($(date +%s) - at)) && [ "$age" -lt "$1" ]; } 2>/dev/null
  pause() {
    for_s=10 n=1
    while [ "$n" -lt "$1" ] && [ "$for_s" -lt 3600 ]; do for_s=$((for_s * 2)) n=$((n + 1)); done
    echo "$for_s"
  }
  counts() {
    is_younger "$1" && { [ "$rc" = 0 ] || [ "$age" -lt "$(pause "$fails")" ]; } || return 1
    [ -z "$(find "$2/slurm.moved" -newer "$kept.asked" 2>/dev/null)" ]
  }
  if ! counts "$1" "$2"; then
    if ! { read -r one <"$kept.by" && kill -0 "$one"; } 2>/dev/null; then
      : >"$kept.by"
      (
        : >"$kept.asked"
        said=$(timeout 120 squeue -h -a -r -t all -u "$(id -u)" -o '%i|%T|%r|%S|%N|%l' 2>&1)
        rc=$?
        read -r _ fails _ 2>/dev/null <"$kept" || fails=0
        if [ "$rc" = 0 ]; then fails=0; else fails=$((fails + 1)); fi
        { echo "$(date +%s) $fails $rc"; printf '%s\n' "$said"; } >"$kept.new"
        mv "$kept.new" "$kept"; rm -f "$kept.by"
      ) </dev/null >/dev/null 2>&1 &
      [ ! -e "$kept.by" ] || echo $! >"$kept.by"
    fi
    left=40
    while [ "$left" -gt 0 ] && [ -e "$kept.by" ]; do sleep 0.1 2>/dev/null || sleep 1; left=$((left - 1)); done
    if [ -e "$kept.by" ] || ! is_younger 60; then echo 124; echo "slurmctld did not answer within 4 s"; return; fi
  fi
  sed '1s/.* //' "$kept"
}
"""
)

# $1 ids with commas, of tasks of arrays as ARRAY_NUMBER; $2 $3 as in LISTED. One squeue for all; sacct only for those
# that squeue does not show as active, scontrol for these if there is no accounting. sacct's record comes late, so
# nothing is concluded from its absence.
ASK = rf"""
command -v squeue >/dev/null 2>&1 || {{ echo {_MARK}no-slurm >&2; exit 3; }}
export SLURM_BITSTR_LEN=0 # all numbers of tasks, however many
{LISTED}
jobs() {{ echo "$1" | tr , '\n' | sed 's/_.*//' | sort -u | paste -s -d "$2" -; }}
queue=$(listed "$2" "$3")
code=$(printf '%s\n' "$queue" | head -n 1)
echo "{_MARK}squeue $code"
queue=$(printf '%s\n' "$queue" | sed 1d)
printf '%s\n' "$queue"
# Where squeue failed nothing else is asked: scontrol would go to the same controller, and nothing is concluded anyway.
case $code$queue in 0*|*"Invalid job id"*) ;; *) exit 0 ;; esac
rest=$(printf '%s\n' "$queue" | awk -F'|' -v ids="$1" '
  $2 ~ /^({"|".join(sorted(ACTIVE))})$/ {{ active[$1] = 1 }}
  END {{
    n = split(ids, all, ",")
    for (i = 1; i <= n; i++) if (!(all[i] in active)) {{ printf "%s%s", c, all[i]; c = "," }}
  }}')
[ -n "$rest" ] || exit 0
records=$(sacct -n -P -D -j "$(jobs "$rest" ,)" -o JobID,State,ExitCode,Elapsed,Timelimit,NodeList,MaxRSS,ReqMem 2>&1)
rc=$?
echo "{_MARK}sacct $rc"
printf '%s\n' "$records"
# For some seconds after a job's end its row may lack what it asked for: Slurm 22.05 shows `16?` as ReqMem then.
[ "$rc" != 0 ] || rest=$(printf '%s\n' "$records" | awk -F'|' '$1 !~ /[.]/ && $8 !~ /^[0-9.]+[KMGT]?[nc]?$/ {{
  printf "%s%s", c, $1; c = "," }}')
[ -n "$rest" ] || exit 0
echo "{_MARK}scontrol"
for id in $(jobs "$rest" ' '); do scontrol -o show job "$id" 2>/dev/null; done
exit 0
"""


# $1 a job's id, $2 its root: all of Slurm's records of it, unchanged, for a diagnosis. The batch script's output is
# where its daemons write why they ended it.
RECORDS = rf"""
tell() {{ echo "{_MARK}$1"; shift; "$@" 2>&1; echo "{_MARK}rc $?"; }}
tell 'sacct -P' sacct -P -j "$1" -o JobID,State,ExitCode,DerivedExitCode,Reason,Elapsed,Timelimit,MaxRSS,ReqMem,NodeList
tell 'scontrol show job' scontrol -o show job "$1"
tell 'slurm-JOB.out' tail -c 65536 "$2/logs/slurm-$1.out"
exit 0
"""


@dataclass(frozen=True)
class Queued:
    """One line of squeue. `state`: Slurm's word; `starts`: in the cluster's local time, "" if unknown."""

    state: str
    reason: str
    starts: str
    nodes: str
    limit: str


@dataclass(frozen=True)
class Record:
    """How a job ended, from all its rows. `exit`: "status:signal" of the job. Bytes; 0 = unknown."""

    state: str
    exit: str = ""
    reason: str = ""
    by: str = ""  # who cancelled it: a uid or a name
    limit: str = ""
    nodes: str = ""
    max_rss_bytes: int = 0
    asked_bytes: int = 0
    is_oom: bool = False  # the job or one of its steps
    is_killed: bool = False  # by signal 9: the job, one of its steps, or what its script waited for


@dataclass(frozen=True)
class Said:
    """The whole of one answer. `trouble`: why squeue gave none; "" = it did. Unknown jobs are missing."""

    queue: Mapping[str, Queued] = field(default_factory=dict)
    records: Mapping[str, Record] = field(default_factory=dict)
    keeps_records: bool = True  # False: there is no accounting
    trouble: str = ""


def parse_answer(text: str) -> Said:
    """The output of ASK."""
    parts: dict[str, list[str]] = {}
    codes: dict[str, str] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(_MARK):
            word, _, codes[word] = line[len(_MARK) :].partition(" ")
            lines = parts.setdefault(word, [])
        else:
            lines.append(line)
    if "squeue" not in parts:
        return Said(trouble="squeue printed nothing")
    said = "\n".join(parts["squeue"])
    if codes["squeue"] != "0" and "Invalid job id" not in said:
        return Said(trouble=_last(said) or f"squeue ended with {codes['squeue']}")
    queue = dict(one for one in map(_queued, parts["squeue"]) if one is not None)
    keeps = codes.get("sacct", "0") == "0"
    told = "\n".join(parts.get("sacct", []))
    if not keeps and "disabled" not in told:
        return Said(queue, trouble=_last(told) or "sacct does not answer") if not queue else Said(queue, {}, True)
    shown = _shown(parts.get("scontrol", []))
    return Said(queue, _filled(_accounted(parts.get("sacct", [])), shown) if keeps else shown, keeps)


MOST_TASKS = 1_000_000  # tasks of one array in one row; MaxArraySize is 1001 unless raised


_BEGAN = re.compile(r"^\S+ sojourn: job \S+, start \d+, on ", re.M)  # the first line of the batch script's output
_WAITS = re.compile(r"\bJobState=(?:PENDING|SUSPENDED|STOPPED|REQUEUED|REQUEUE_HOLD|SPECIAL_EXIT)\b")


def records(text: str) -> dict[str, tuple[int, str]]:
    """(exit status, output) of each command of RECORDS, by its name; output only of the last start.

    For a waiting job only scontrol's answer: the rest belongs to an earlier start, whose end is no cause now.
    """
    found = _parts(text)
    code, shown = found.get("scontrol show job", (1, ""))
    if code == 0 and _WAITS.search(shown):
        return {"scontrol show job": (code, shown)}
    if "slurm-JOB.out" in found:
        code, out = found["slurm-JOB.out"]
        last = max((hit.start() for hit in _BEGAN.finditer(out)), default=0)
        found["slurm-JOB.out"] = code, out[last:]
    return found


def _parts(text: str) -> dict[str, tuple[int, str]]:
    found: dict[str, tuple[int, str]] = {}
    name, lines = "", list[str]()
    for line in text.split("\n"):
        if re.fullmatch(_MARK + "rc [0-9]{1,3}", line):
            found[name] = int(line[len(_MARK) + 3 :]), "\n".join([*lines, ""])
        elif line.startswith(_MARK):
            name, lines = line[len(_MARK) :], []
        else:
            lines.append(line)
    return found


def is_job(text: str) -> bool:
    """A job's id, or a task's: ARRAY_NUMBER."""
    return bool(re.fullmatch(r"[0-9]{1,18}(_[0-9]{1,9})?", text))


def tasks(job: str) -> list[str]:
    """The jobs in one row: `4_[0,2-3%2]` are tasks of array 4 that have not started."""
    span = r"[0-9]{1,9}(?:-[0-9]{1,9})?"
    found = re.fullmatch(rf"([0-9]{{1,18}})_\[({span}(?:,{span})*)(?:%[0-9]{{1,9}})?\]", job)
    if not found:
        return [job]
    spans = [part.partition("-") for part in found[2].split(",")]
    ranges = [range(int(first), int(last or first) + 1) for first, _, last in spans]
    return [f"{found[1]}_{n}" for some in ranges for n in some] if sum(map(len, ranges)) <= MOST_TASKS else [job]


def size_bytes(text: str) -> int:
    """612K, 1.5G, 500Mn (a node), 2Gc (a CPU): bytes; 0 for anything else."""
    found = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)([KMGT]?)[nc]?", text.strip())
    return int(float(found[1]) * 1024 ** " KMGT".index(found[2] or " ")) if found else 0


def _queued(line: str) -> tuple[str, Queued] | None:
    cells = line.split("|")
    if len(cells) != 6 or not is_job(cells[0]):
        return None
    starts = "" if cells[3] in ("N/A", "Unknown", "(null)") else cells[3]
    return cells[0], Queued(cells[1], cells[2], starts, cells[4], cells[5])


def _accounted(lines: list[str]) -> dict[str, Record]:
    """Rows of one job are consecutive, followed by its steps; of a job that ran several times the last counts."""
    found: dict[str, Record] = {}
    for line in lines:
        cells = line.split("|")
        if len(cells) != 8:
            continue
        job, _, step = cells[0].partition(".")
        state, _, by = cells[1].partition(" by ")
        rss, is_oom = size_bytes(cells[6]), state == "OUT_OF_MEMORY" or _is_oom(cells[2])
        is_killed = _is_kill(cells[2])
        if not step:
            limit, nodes, asked = cells[4], cells[5], size_bytes(cells[7])
            record = Record(state, cells[2], "", by, limit, nodes, rss, asked, is_oom, is_killed)
            found.update(dict.fromkeys(tasks(job), record))
        elif job in found:
            old = found[job]
            found[job] = replace(
                old,
                max_rss_bytes=max(old.max_rss_bytes, rss),
                is_oom=old.is_oom or is_oom,
                is_killed=old.is_killed or is_killed,
            )
    return found


def _filled(records: dict[str, Record], shown: Mapping[str, Record]) -> dict[str, Record]:
    """`records` with the requested memory from `shown`, if their row lacked it."""
    asked = {job: shown[job].asked_bytes for job, record in records.items() if job in shown and not record.asked_bytes}
    return {**records, **{job: replace(records[job], asked_bytes=asked_bytes) for job, asked_bytes in asked.items()}}


def _shown(lines: list[str]) -> dict[str, Record]:
    found = {}
    for line in lines:
        fields = dict(re.findall(r"(\w+)=(\S*)", line))
        if "JobId" not in fields or "JobState" not in fields:
            continue
        asked = re.search(r"\bmem=([0-9.]+[KMGT]?)", line)
        code = fields.get("ExitCode", "")
        job = fields["JobId"]
        if "ArrayJobId" in fields:
            job = f"{fields['ArrayJobId']}_{fields.get('ArrayTaskId', '')}"
            job = job if is_job(job) else "{}_[{}]".format(*job.split("_", 1))
        record = Record(
            fields["JobState"],
            code,
            fields.get("Reason", ""),
            "",
            fields.get("TimeLimit", ""),
            fields.get("NodeList", ""),
            0,
            size_bytes(asked[1]) if asked else 0,
            fields["JobState"] == "OUT_OF_MEMORY" or _is_oom(code),
            _is_kill(code),
        )
        found.update(dict.fromkeys(tasks(job), record))
    return found


def _is_oom(code: str) -> bool:
    """Slurm's own number for it, also as passed on by our batch script."""
    return code.endswith(":125") or code == "125:0"


def _is_kill(code: str) -> bool:
    """Slurm records `exit 137` as 9:0."""
    return code.endswith(":9") or code in ("9:0", "137:0")


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
