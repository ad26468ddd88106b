"""What squeue, sacct and scontrol print, read. Only what every Slurm of the last ten years prints: no JSON.

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

# $1 ids with commas, of tasks of arrays as ARRAY_NUMBER. One squeue for all; sacct only for those that squeue does not
# show as active, scontrol for these where there is no accounting. What sacct has to say comes late, so nothing is
# concluded from its silence.
ASK = rf"""
command -v squeue >/dev/null 2>&1 || {{ echo {_MARK}no-slurm >&2; exit 3; }}
export SLURM_BITSTR_LEN=0 # all numbers of tasks, however many
jobs() {{ echo "$1" | tr , '\n' | sed 's/_.*//' | sort -u | paste -s -d "$2" -; }}
queue=$(squeue -h -a -r -t all -j "$(jobs "$1" ,)" -o '%i|%T|%r|%S|%N|%l' 2>&1)
echo "{_MARK}squeue $?"
printf '%s\n' "$queue"
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


# $1 a job's id, $2 its root: all that Slurm keeps of it, as it says it, for a diagnosis. The output of the batch script
# is where its daemons write why they ended it.
RECORDS = rf"""
tell() {{ echo "{_MARK}$1"; shift; "$@" 2>&1; echo "{_MARK}rc $?"; }}
tell 'sacct -P' sacct -P -j "$1" -o JobID,State,ExitCode,DerivedExitCode,Reason,Elapsed,Timelimit,MaxRSS,ReqMem,NodeList
tell 'scontrol show job' scontrol -o show job "$1"
tell 'slurm-JOB.out' tail -c 65536 "$2/logs/slurm-$1.out"
exit 0
"""


@dataclass(frozen=True)
class Queued:
    """One line of squeue. `state`: Slurm's word; `starts`: in the cluster's local time, "" where unknown."""

    state: str
    reason: str
    starts: str
    nodes: str
    limit: str


@dataclass(frozen=True)
class Record:
    """How a job ended, of all its rows. `exit`: "status:signal" of the job. Bytes; 0 = not told."""

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
    """All of one answer. `trouble`: why squeue could not tell; "" = it told. Of jobs it does not know there is none."""

    queue: Mapping[str, Queued] = field(default_factory=dict)
    records: Mapping[str, Record] = field(default_factory=dict)
    keeps_records: bool = True  # False: there is no accounting
    trouble: str = ""


def parse_answer(text: str) -> Said:
    """What ASK printed."""
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
        return Said(trouble="squeue said nothing")
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


MOST_TASKS = 1_000_000  # of one array that one row speaks of; MaxArraySize is 1001 where nobody raised it


def records(text: str) -> dict[str, tuple[int, str]]:
    """(exit status, what it printed) of each command of RECORDS, by its name."""
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
    """The jobs that one row speaks of: `4_[0,2-3%2]` are tasks of array 4 that have not begun."""
    span = r"[0-9]{1,9}(?:-[0-9]{1,9})?"
    found = re.fullmatch(rf"([0-9]{{1,18}})_\[({span}(?:,{span})*)(?:%[0-9]{{1,9}})?\]", job)
    if not found:
        return [job]
    spans = [part.partition("-") for part in found[2].split(",")]
    ranges = [range(int(first), int(last or first) + 1) for first, _, last in spans]
    return [f"{found[1]}_{n}" for some in ranges for n in some] if sum(map(len, ranges)) <= MOST_TASKS else [job]


def size_bytes(text: str) -> int:
    """612K, 1.5G, 500Mn (a node), 2Gc (a CPU): bytes; 0 for what is none."""
    found = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)([KMGT]?)[nc]?", text.strip())
    return int(float(found[1]) * 1024 ** " KMGT".index(found[2] or " ")) if found else 0


def _queued(line: str) -> tuple[str, Queued] | None:
    cells = line.split("|")
    if len(cells) != 6 or not is_job(cells[0]):
        return None
    starts = "" if cells[3] in ("N/A", "Unknown", "(null)") else cells[3]
    return cells[0], Queued(cells[1], cells[2], starts, cells[4], cells[5])


def _accounted(lines: list[str]) -> dict[str, Record]:
    """Rows of one job follow each other, its steps after it; of a job that ran several times the last counts."""
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
    """`records` with the memory asked for from `shown`, where its row did not tell it."""
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
    """Slurm's own number for it, also as our batch script hands it on."""
    return code.endswith(":125") or code == "125:0"


def _is_kill(code: str) -> bool:
    """Slurm writes `exit 137` down as 9:0."""
    return code.endswith(":9") or code in ("9:0", "137:0")


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
