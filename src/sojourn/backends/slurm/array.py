"""Many runs as one job array: the request to the login node, and its answer.

Source: sbatch(1), squeue(1) of Slurm 22.05 on job arrays (2026-11), and its behaviour in tests/lab/slurm: a pending
task has no record of its own, `scancel --state=PENDING 4_6` cancels every waiting task of array 4, and the id of the
array is also that of one of its tasks, so tasks are always called ARRAY_NUMBER here.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Mapping, Sequence

from sojourn.backends.bounds import BEAT
from sojourn.core.ports import ArrayTask

# $1 folder of the roots, $2 home, $3 the jobs' name, $4 how many at once (0: as before), $5 script; then for each of
# them: RUN ATTEMPT.
#
# Slurm limits concurrent tasks only within an array. So with a limit, a later array (appended or repaired cells) starts
# after the earlier ones have ended, and a new limit applies to those too.
#
# Home has a folder for each array: `cells` with a line for each task, a link NUMBER -> that run's `logs`, and `job`,
# its id, once known. Each run's `exits/job` says "ATTEMPT ID_NUMBER". A client cut off between sbatch and that finds
# the array by its name, which has the number of its folder; what was never submitted is forgotten.
START = (
    BEAT
    + r"""
runs=$1 home=$2 name=$3 limit=$4 script=$5; shift 5
(umask 077; mkdir -p "$home") && cd "$home" || exit 1
true >"${runs%/runs}/slurm.moved"
node_local "$runs"
if [ "$limit" -gt 0 ]; then echo "$limit" >limit; else read -r limit <limit || limit=0; fi 2>/dev/null
settle() {
  task=0
  while read -r run attempt; do
    printf '%s %s_%s\n' "$attempt" "$2" "$task" >"$runs/$run/exits/job"
    task=$((task + 1))
  done <"$1/cells"
  echo "$2" >"$1/job"
}
for part in *.d; do
  [ -d "$part" ] && [ ! -e "$part/job" ] || continue
  id=$(squeue -h -a -t all -n "$name.${part%.d}" -o %F 2>/dev/null | head -n 1)
  [ -n "$id" ] || id=$(sacct -n -X -P -S now-7days --name="$name.${part%.d}" -o JobID 2>/dev/null | sed -n '1s/_.*//p')
  if [ -n "$id" ]; then settle "$part" "$id"; else rm -rf "$part"; fi
done
most=$(scontrol show config 2>/dev/null | sed -n 's/^MaxArraySize *= *\([0-9][0-9]*\).*/\1/p')
most=${most:-1000}
before=
if [ "$limit" -gt 0 ]; then
  names=$(for part in *.d; do printf '%s,' "$name.${part%.d}"; done)
  for id in $(squeue -h -a -n "$names" -o %F 2>/dev/null | sort -un); do
    scontrol update "job=$id" "arraytaskthrottle=$limit" >/dev/null 2>&1
    before=$before${before:+:}$id
  done
fi
submit() {
  [ -n "$part" ] || return 0
  most_at_once=%$limit
  [ "$limit" -gt 0 ] || most_at_once=
  beat
  id=$(sbatch --parsable --job-name="$name.${part%.d}" --array="0-$((task - 1))$most_at_once" $away \
    --output="$part/%a/slurm-%A_%a.out" ${before:+--dependency="$first${first:+,}afterany:$before"} \
    sbatch.sh "$part") || {
    rc=$?; rm -rf "$part"; exit $rc
  }
  id=${id%%;*}
  [ "$limit" = 0 ] || before=$before${before:+:}$id
  settle "$part" "$id"
  part=
}
choose "$script" >sbatch.sh
away=$(away "${runs%/runs}" "$script")
first=$(sed -n 's/^#SBATCH --dependency=//p' sbatch.sh)
part=
for word; do
  [ -n "$run" ] || { run=$word; continue; }
  told=$(cat "$runs/$run/exits/job" 2>/dev/null)
  case $told in
    "$word "*) ;;
    *)
      if [ -z "$part" ]; then
        n=1
        until mkdir "$n.d" 2>/dev/null; do n=$((n + 1)); done
        part=$n.d task=0
      fi
      (umask 077; mkdir -p "$runs/$run/exits" "$runs/$run/logs")
      ln -s "$runs/$run/logs" "$part/$task" && echo "$run $word" >>"$part/cells" || exit 1
      cp sbatch.sh "$runs/$run/logs/sbatch.sh"
      task=$((task + 1))
      [ "$task" -lt "$most" ] || submit
      ;;
  esac
  run=
done
submit
for word; do
  [ -n "$run" ] || { run=$word; continue; }
  read -r _ id <"$runs/$run/exits/job" && echo "$run $id"
  run=
done
"""
)


def words(home: str, roots: Sequence[ArrayTask], at_once: int, script: str) -> list[str]:
    """The arguments after the shell's name: the parameters of START."""
    runs = posixpath.dirname(roots[0].root)
    cells = [word for one in roots for word in (posixpath.basename(one.root), str(one.attempt))]
    return [runs, home, name(home), str(at_once), script, *cells]


def name(home: str) -> str:
    """The name of a sweep's arrays; each one's number follows it."""
    digest = hashlib.sha256(home.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"sojourn-{posixpath.basename(posixpath.dirname(home.rstrip('/')))}-{digest}"


def natives(text: str) -> Mapping[str, str]:
    """The task of each run, from START's output."""
    return dict(line.split(" ", 1) for line in text.splitlines() if line.count(" ") == 1)
