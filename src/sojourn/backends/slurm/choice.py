"""Any of several kinds of GPU: those that a cluster has, and how one job requests all of them.

sbatch has no `or` for gres. If the nodes of each kind have its name as a feature, one job requests the GPUs with
`--constraint=a100|h100`; otherwise it requests the first kind that the cluster has.
Source: sbatch(1), --constraint and --gres, of Slurm 22.05 (2026-11).
"""

from __future__ import annotations

from collections.abc import Sequence

# Defines choose SCRIPT: prints it with the choice, from those in its comment, in place of its gres.
CHOOSE = r"""
choose() {
  script=$1
  set -- $(printf '%s\n' "$script" | sed -n 's/^# any of: //p')
  [ $# -gt 1 ] || { printf '%s\n' "$script"; return; }
  there=$(sinfo -h -o '%G' 2>/dev/null | tr ',' '\n' | sed 's/(.*//' | awk -F: '$1 == "gpu" && NF > 1 { print $2 }')
  features=$(sinfo -h -o '%f' 2>/dev/null | tr ',' '\n' | sort -u)
  first= any= kinds=0 count=
  for gres; do
    kind=${gres#gpu:} n=${gres##*:} kind=${kind%:*}
    echo "$there" | grep -qxiF -- "$kind" || continue
    kinds=$((kinds + 1)) first=${first:-$gres}
    name=$(echo "$features" | grep -xiF -- "$kind" | head -n 1)
    [ -n "$name" ] && [ "$n" = "${count:-$n}" ] && any=$any${any:+|}$name named=$((${named:-0} + 1)) count=$n
  done
  asked=--gres=$1 any_of=
  if [ "$kinds" -gt 1 ] && [ "${named:-0}" = "$kinds" ]; then
    first=gpu:$count any_of=$any
  fi
  printf '%s\n' "$script" | awk -v asked="$asked" -v chosen="--gres=${first:-$1}" -v any="$any_of" '
    { n = split($0, parts, asked "( |$)"); line = parts[1]
      for (i = 2; i <= n; i++) line = line chosen " " parts[i]
      sub(/ $/, "", line); print (n > 1 ? line : $0) }
    any && /^#SBATCH --gres=/ { print "#SBATCH --constraint=" any }'
}
"""

# Defines away BASE SCRIPT: --exclude= with the nodes that a run of this base found faulty, and those that the script
# itself excludes; nothing if it names nodes, or if half of the cluster would go. See box.supervise.avoided.
AWAY = r"""
away() {
  now=$(date +%s) names= n=0
  for file in "$1"/avoid/*; do
    { read -r until && [ "$until" -gt "$now" ]; } 2>/dev/null <"$file" || continue
    sinfo -h -N -n "${file##*/}" -o %N 2>/dev/null | grep -q . || continue
    names=$names${names:+,}${file##*/} n=$((n + 1))
  done
  [ "$n" -gt 0 ] || return 0
  ! printf '%s\n' "$2" | grep -q '^#SBATCH --nodelist=' || return 0
  [ $((2 * n)) -le "$(sinfo -h -N -o %N | sort -u | wc -l)" ] || return 0
  own=$(printf '%s\n' "$2" | sed -n 's/^#SBATCH --exclude=//p' | head -n 1)
  echo "--exclude=$names${own:+,$own}"
}
"""


def comment(wanted: Sequence[str]) -> str:
    """The script line from which `choose` knows the choices; "" if there is no choice."""
    return f"# any of: {' '.join(wanted)}\n" if wanted else ""
