"""A Slurm job: `sbatch` on a login node, the keeper on whatever machine Slurm gives it, and back in the queue with it.

The job survives this client, the link and the login node. Slurm restarts it after a failed node, a preemption or its
own time limit (`scontrol requeue`), and the run continues with its next attempt; see `box.supervise.seat`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from sojourn.backends.bounds import BEAT
from sojourn.backends.slurm import array as slurm_array
from sojourn.backends.slurm import choice as slurm_choice
from sojourn.backends.slurm import output as slurm_output
from sojourn.backends.slurm import script as slurm_script
from sojourn.backends.slurm import share as slurm_share
from sojourn.backends.slurm import states as slurm_states
from sojourn.backends.way import way
from sojourn.core.ports import ArrayTask, DryRun, Handle, LaunchRequest, SchedulerStatus
from sojourn.core.values import Ended, NoAnswer, Place, Pulse, Site
from sojourn.wire import quote
from sojourn.wire.errors import WorldError

CALL_S = 60.0  # a controller under load answers late
REST_S = 60  # between two questions to the controller while no change is known
SUBMIT_S = 300.0  # for an array of a thousand
_LIMIT_BYTES = 4 << 20
_MARK = "sojourn:"

CHECK = rf"""
for tool in sbatch squeue scancel scontrol; do
  command -v $tool >/dev/null 2>&1 || {{ echo "{_MARK}no-slurm $tool not found" >&2; exit 3; }}
done
"""
_NODE_LOCAL = rf"""
node_local() {{
  at=${{TMPDIR:-/dev/shm}}
  case $1/ in "$at"/*) echo "{_MARK}node-local it lies in ${{TMPDIR:+TMPDIR=}}$at" >&2; exit 3 ;; esac
  kind=$(stat -f -c %T . 2>/dev/null)
  case $kind in tmpfs|ramfs) echo "{_MARK}node-local it lies in memory ($kind)" >&2; exit 3 ;; esac
}}
"""
# $1 root, $2 job name, $3 script. A waiting or running job of that name is this root's: no second one. So is the array
# task named in its exits/job.
_START = (
    CHECK
    + _NODE_LOCAL
    + slurm_choice.CHOOSE
    + slurm_choice.AWAY
    + r"""
root=$1
(umask 077; mkdir -p "$root/logs" "$root/exits") && cd "$root/logs" || exit 1
true >"${root%/runs/*}/slurm.moved" # `:` would end the shell where that cannot be written
node_local "$root"
read -r _ task 2>/dev/null <"$root/exits/job"
# One look at all of them: between two, a job that waits may begin and be in neither.
mine=$(squeue -h -u "$(id -un 2>/dev/null || id -u)" -n "$2" -o '%i %T') || exit 1
waits=
while read -r id state; do
  case $state in
    PENDING|REQUEUE*|SPECIAL_EXIT) waits=$id ;;
    RUNNING|CONFIGURING|SUSPENDED) [ -e "$root/exits/$id.over" ] || { echo "$id"; exit 0; } ;;
  esac
done <<EOF
$mine
$([ -z "$task" ] || squeue -h -r -j "$task" -o '%i %T' 2>/dev/null)
EOF
[ -z "$waits" ] || { echo "$waits"; exit 0; }
choose "$3" >"$root/logs/sbatch.sh"
sbatch --parsable $(away "${root%/runs/*}" "$3") <"$root/logs/sbatch.sh"
"""
)
# $1 id, $2 seconds. A waiting job is cancelled; a running one gets SIGTERM and that time first.
_STOP = (
    BEAT
    + slurm_output.KEPT
    + r"""
rm -f "$kept"
state() { squeue -h -r -t all -j "$1" -o %T 2>/dev/null | head -n 1; }
ends() {
  case $(state "$1") in PENDING|RUNNING|COMPLETING|CONFIGURING|SUSPENDED|REQUEUE*|SPECIAL_EXIT) return 1 ;; esac
}
if [ "$(state "$1")" = RUNNING ]; then scancel --signal=TERM "$1"; scancel --batch --signal=TERM "$1"; fi 2>/dev/null
# Each look is a question to the controller: the pauses grow to 5 seconds.
left=$2 pause=1
while [ "$left" -gt 0 ] && [ "$(state "$1")" = RUNNING ]; do
  [ "$pause" -le "$left" ] || pause=$left
  beat
  sleep "$pause"; left=$((left - pause))
  [ "$pause" -ge 5 ] || pause=$((pause + 1))
done
[ "$(state "$1")" != RUNNING ] || scancel --full --signal=KILL "$1" 2>/dev/null
scancel "$1" 2>/dev/null
left=35 pause=1
until ends "$1" || [ "$left" -le 0 ]; do
  sleep "$pause"; left=$((left - pause))
  [ "$pause" -ge 5 ] || pause=$((pause + 1))
done
squeue -h >/dev/null 2>&1 || { echo unknown; exit 0; }
rm -f "$kept"
if ends "$1"; then echo gone; else echo alive; fi
"""
)
# $1 id, $2 an option of srun; then the command.
_BESIDE = r"""
job=$(squeue -h -t R -j "$1" -o %A 2>/dev/null | head -n 1) option=$2; shift 2
[ -n "$job" ] || { echo "sojourn: its job does not run" >&2; exit 3; }
exec srun --jobid="$job" --overlap --nodes=1 --ntasks=1 --relative=0 --mpi=none "$option" "$@"
"""
# $1 id.
_MACHINE = r"""
node=$(squeue -h -t R -j "$1" -o %B | head -n 1)
[ -n "$node" ] && scontrol -o show node "$node" | sed -n 's/.* NodeAddr=\([^ ]*\).*/\1/p'
"""
# $1... ids.
_CANCEL = (
    slurm_output.KEPT
    + r"""
scancel "$@"; rc=$?
rm -f "$kept"
exit "$rc"
"""
)


# $1 base, "" for the default. A folder that does not exist yet is judged by its parent, as `doctor` does.
_CHECK_BASE = (
    CHECK
    + _NODE_LOCAL
    + r"""
base=${1:-${HOME:-$(cd ~ && pwd)}/.local/share/sojourn}
at=$base
while [ ! -d "$at" ] && [ "$at" != / ]; do at=$(dirname "$at"); done
if cd "$at" 2>/dev/null; then node_local "$base"; fi
"""
)
# $1 the script. sbatch answers on stderr.
_TRY = (
    CHECK
    + slurm_choice.CHOOSE
    + r"""
choose "$1" | sbatch --test-only
"""
)


class NoSlurm(WorldError):
    """{site} is not a login node of a Slurm cluster: {said}. Nothing was started."""

    code = "no-slurm"
    next_step = "name the login node of the cluster, or add the folder of sbatch to PATH for shells without a terminal"


class NotShared(WorldError):
    """The base of {site} is not on storage that other nodes can see: {said}. Nothing was started."""

    code = "not-shared"
    next_step = "set `base` of {site} to a folder on the cluster's shared file system"


class NotSubmitted(WorldError):
    """Slurm on {site} rejected the job: {said}."""

    code = "not-submitted"
    is_end = True  # of the attempt: submitted again unchanged, Slurm would say the same
    next_step = "{hint}"


class SlurmSilent(WorldError):
    """Slurm's controller does not answer on {site}: {said}. Nothing is known to have been submitted."""

    code = "slurm-silent"
    retry = True
    next_step = "the same command again, later: it finds the job if Slurm took it"


_SILENT = re.compile(
    r"unable to contact slurm|timed out|connection refused|connection reset|temporarily|zero bytes were transmitted"
    r"|unable to (?:connect|resolve)|controller not responding|backup mode|error (?:reading|receiving)|munge",
    re.I,
)


class Backend:
    """Launcher `sbatch`. `options`: the site's own sbatch options, under Slurm's names without the dashes."""

    survives: ClassVar[frozenset[str]] = frozenset({"link-drop", "client-exit", "logout", "reboot"})
    schedules: ClassVar[bool] = True
    spans: ClassVar[bool] = True

    def __init__(self, site: Site | None = None) -> None:
        """`site`: its `options["sbatch"]` go into the script."""
        self._site = site or Site("slurm", launcher="sbatch")
        self._options = self._site.options.get("sbatch") or {}

    def script(self, argv: Sequence[str], root: str, request: LaunchRequest) -> str:
        """The batch script. Raises: BadOption."""
        return slurm_script.render(argv, root, request, self._options, self._site.name)

    def start(
        self, place: Place, argv: Sequence[str], root: str, request: LaunchRequest | None = None
    ) -> Handle | NoAnswer:
        """Submit it. Raises: BadOption, NoSlurm, NotShared, NotSubmitted."""
        ended = way(place).call(self.command(argv, root, request), timeout_s=CALL_S, limit_bytes=_LIMIT_BYTES)
        return ended if isinstance(ended, NoAnswer) else self.read(ended, root)

    def command(self, argv: Sequence[str], root: str, request: LaunchRequest | None = None) -> list[str]:
        """A shell that submits the script, unless this root's job exists. Raises: BadOption."""
        script = self.script(argv, root, request or LaunchRequest())
        return ["sh", "-c", _START, "sojourn", root, slurm_script.job_name(root), script]

    def read(self, ended: Ended, root: str) -> Handle:
        """The job's id. Raises: NoSlurm, NotShared, NotSubmitted."""
        lines = ended.stdout.decode("utf-8", "replace").split()
        native = lines[-1].partition(";")[0] if lines else ""
        if ended.rc != 0 or not slurm_output.is_job(native):
            raise self._refusal(ended)
        return _handle(root, native)

    def start_all(
        self,
        place: Place,
        argv: Sequence[str],
        home: str,
        roots: Sequence[ArrayTask],
        request: LaunchRequest,
        at_once: int,
    ) -> list[Handle] | NoAnswer:
        """Arrays for those not yet submitted. Raises: BadOption, NoSlurm, NotShared, NotSubmitted."""
        runs = posixpath.dirname(roots[0].root)
        script = slurm_script.render_array(argv, runs, request, self._options, self._site.name)
        start = CHECK + _NODE_LOCAL + slurm_choice.CHOOSE + slurm_choice.AWAY + slurm_array.START
        words = ["sh", "-c", start, "sojourn", *slurm_array.words(home, roots, at_once, script)]
        ended = way(place).call(words, timeout_s=SUBMIT_S)
        if isinstance(ended, NoAnswer):
            return ended
        natives = slurm_array.natives(ended.stdout.decode("utf-8", "replace"))
        known = [natives.get(posixpath.basename(one.root), "") for one in roots]
        if ended.rc != 0 or not all(map(slurm_output.is_job, known)):
            raise self._refusal(ended)
        return [_handle(one.root, native) for one, native in zip(roots, known, strict=True)]

    def try_out(self, place: Place, script: str) -> DryRun | NoAnswer:
        """`sbatch --test-only`. It ignores what is ahead in the queue, and what the job waits for."""
        ended = way(place).call(["sh", "-c", _TRY, "sojourn", script], timeout_s=CALL_S, limit_bytes=_LIMIT_BYTES)
        if isinstance(ended, NoAnswer):
            return ended
        if ended.rc == 0:
            return DryRun(True, slurm_states.forecast(ended.stderr.decode("utf-8", "replace")))
        no = self._refusal(ended)
        return DryRun(False, str(no.fields.get("said", no.message)), no.next)

    def check(self, place: Place) -> WorldError | None:
        """What `start` would raise, as far as known beforehand; None also if the box does not answer."""
        argv = ["sh", "-c", _CHECK_BASE + "sinfo -h -o %P", "sojourn", self._site.base]
        ended = way(place).call(argv, timeout_s=CALL_S)
        return None if isinstance(ended, NoAnswer) or ended.rc == 0 else self._refusal(ended)

    def states(self, place: Place, handles: Sequence[Handle]) -> Sequence[SchedulerStatus]:
        """One squeue a minute for the whole cluster, and one sacct for jobs it does not show."""
        natives = [handle.native for handle in handles]
        rest_s = str(self._site.options.get("ask_every", REST_S))
        roots = [str(handle.facts.get("root") or "") for handle in handles]
        base = next((root.rpartition("/runs/")[0] for root in roots if "/runs/" in root), self._site.base)
        argv = ["sh", "-c", slurm_output.ASK, "sojourn", ",".join(sorted(set(natives))), rest_s, base]
        ended = way(place).call(argv, timeout_s=CALL_S, limit_bytes=_LIMIT_BYTES)
        if isinstance(ended, NoAnswer) or ended.rc != 0:
            why = ended.kind if isinstance(ended, NoAnswer) else ended.stderr.decode("utf-8", "replace").strip()[-200:]
            return [SchedulerStatus(Pulse.UNKNOWN, reason=f"no word from Slurm: {why}") for _ in natives]
        said = slurm_output.parse_answer(ended.stdout.decode("utf-8", "replace"))
        return [slurm_states.word(native, said) for native in natives]

    def records(self, place: Place, handle: Handle, root: str) -> Mapping[str, tuple[int, str]]:
        """sacct, scontrol and the end of the batch script's output."""
        argv = ["sh", "-c", slurm_output.RECORDS, "sojourn", handle.native, root]
        ended = way(place).call(argv, timeout_s=CALL_S, limit_bytes=_LIMIT_BYTES)
        return {} if isinstance(ended, NoAnswer) else slurm_output.records(ended.stdout.decode("utf-8", "replace"))

    def by_hand(self, root: str, native: str) -> dict[str, str]:
        """Lines for a login node."""
        job = native or f"$(squeue -h -n {slurm_script.job_name(root)} -o %i)"
        return {
            "look": f"squeue -t all -j {job} -o '%i %T %r %S %N'; sacct -D -j {job} -o JobID,State,ExitCode,MaxRSS",
            "stop": f"scancel {job}",
            "start": f"(cd {quote.join([root + '/logs'])} && sbatch sbatch.sh)",
        }

    def cancel(self, place: Place, handles: Sequence[Handle]) -> None | NoAnswer:
        """scancel, of all in one call."""
        ended = way(place).call(
            ["sh", "-c", _CANCEL, "sojourn", *(handle.native for handle in handles)], timeout_s=CALL_S
        )
        return ended if isinstance(ended, NoAnswer) else None

    def beside(self, handle: Handle, argv: Sequence[str], *, has_terminal: bool) -> list[str]:
        """For a login node: runs argv on the first node of a running job, with our streams, as a step of it."""
        return ["sh", "-c", _BESIDE, "sojourn", handle.native, "--pty" if has_terminal else "--quiet", *argv]

    def machine(self, place: Place, handle: Handle) -> str:
        """The address of the node that runs a job's batch script, as the login node knows it; "" if unknown."""
        ended = way(place).call(["sh", "-c", _MACHINE, "sojourn", handle.native], timeout_s=CALL_S)
        said = "" if isinstance(ended, NoAnswer) or ended.rc else ended.stdout.decode("utf-8", "replace").strip()
        return said if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.:_-]*", said) else ""

    def used(self, place: Place, handles: Sequence[Handle]) -> str:
        """CPU and GPU hours of these jobs, and the user's fair share, as far as Slurm accounts for them."""
        natives = ",".join(sorted({handle.native for handle in handles}))
        ended = way(place).call(["sh", "-c", slurm_share.ASK, "sojourn", natives], timeout_s=CALL_S)
        return "" if isinstance(ended, NoAnswer) else slurm_share.line(ended.stdout.decode("utf-8", "replace"))

    def pulse(self, place: Place, handle: Handle) -> Pulse:
        """ALIVE while the job waits or runs."""
        return self.states(place, [handle])[0].pulse

    def stop(self, place: Place, handle: Handle, grace_s: float) -> None | NoAnswer:
        """Cancel it; a running job gets SIGTERM and `grace_s` first."""
        whole_s = max(0, int(grace_s + 0.999))
        argv = ["sh", "-c", _STOP, "sojourn", handle.native, str(whole_s)]
        ended = way(place).call(argv, timeout_s=grace_s + 2 * CALL_S, limit_bytes=_LIMIT_BYTES)
        if isinstance(ended, NoAnswer):
            return ended
        gone = ended.rc == 0 and ended.stdout.split()[-1:] == [b"gone"]
        return None if gone else NoAnswer(sent=True, kind="no-end", detail="Slurm has not stopped it yet")

    def _refusal(self, ended: Ended) -> WorldError:
        said = (ended.stderr or ended.stdout).decode("utf-8", "replace").strip()
        _, _, told = said.partition(_MARK)
        word, _, rest = told.partition(" ")
        if word == "no-slurm":
            return NoSlurm(site=self._site.name, said=rest.splitlines()[0])
        if word == "node-local":
            return NotShared(site=self._site.name, said=rest.splitlines()[0])
        lines = [re.sub(r"^sbatch: (error: )?(Batch job submission failed: )?", "", line) for line in said.splitlines()]
        lines = [line.removeprefix("allocation failure: ") for line in lines if not line.startswith("Try ")]
        text = "; ".join(dict.fromkeys(line.strip(" .") for line in lines if line))
        if _SILENT.search(text):
            return SlurmSilent(site=self._site.name, said=text)
        hint = slurm_states.hint(said, self._site.name)
        return NotSubmitted(site=self._site.name, said=text or f"exit status {ended.rc}", hint=hint)


def _handle(root: str, native: str) -> Handle:
    return Handle("sbatch", native, {"root": root, "job": native})
