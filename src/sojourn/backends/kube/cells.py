"""Cells of a sweep as Indexed Jobs: which cell is which index stands in files on the claim, so that asking again finds
what was asked for.

In `home`: `N.cells` with a line `RUN ATTEMPT` for each index of part N, `N.job` once its Job was made, and `limit`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sojourn.backends.kube import names, states
from sojourn.backends.kube.api import Api, ApiRefused
from sojourn.core.ports import ArrayTask, Transport
from sojourn.core.values import NoAnswer
from sojourn.wire.errors import WorldError

CALL_S = 60.0
# $1 home, $2 limit (0: as before). Standard input: a line `RUN ATTEMPT` for each that is wanted. Those that no part has
# with this attempt become a new part, made at once or not at all. Prints `limit N`, then `N made|new` and its lines.
_LIST = r"""
home=$1 limit=$2
mkdir -p "$home" && cd "$home" || exit 1
if [ "$limit" -gt 0 ]; then echo "$limit" >limit; else read -r limit <limit || limit=0; fi 2>/dev/null
cat *.cells 2>/dev/null >".known.$$"
grep -vxFf ".known.$$" >".new.$$"
if [ -s ".new.$$" ]; then
  n=1
  until ln ".new.$$" "$n.cells" 2>/dev/null; do [ -e "$n.cells" ] || exit 1; n=$((n + 1)); done
fi
rm -f ".known.$$" ".new.$$"
echo "limit $limit"
for file in *.cells; do
  [ -e "$file" ] || continue
  n=${file%.cells}
  if [ -e "$n.job" ]; then echo "part $n made"; else echo "part $n new"; fi
  cat "$file"
done
"""


class NoPartsMade(WorldError):
    """The list of cells cannot be written to the claim: {said}."""

    code = "no-parts-made"


@dataclass(frozen=True)
class Part:
    """One Indexed Job. `path`: its list of cells, on the claim."""

    number: int
    job: str
    path: str
    count: int
    is_made: bool


@dataclass(frozen=True)
class Listed:
    """All parts of a sweep, what each run is called in the newest part that has it, and how many run at a time."""

    parts: Sequence[Part]
    natives: Mapping[str, str]
    limit: int


def listed(line: Transport, home: str, roots: Sequence[ArrayTask], at_once: int) -> Listed | NoAnswer:
    """Keep a list of what was not asked for before; safe to repeat. Raises: NoPartsMade."""
    wanted = "".join(f"{posixpath.basename(one.root)} {one.attempt}\n" for one in roots).encode()
    said = line.call(["sh", "-c", _LIST, "sojourn", home, str(at_once)], stdin=wanted, timeout_s=CALL_S)
    if isinstance(said, NoAnswer):
        return said
    if said.rc:
        raise NoPartsMade(said=said.stderr.decode("utf-8", "replace").strip()[-300:] or f"exit status {said.rc}")
    limit, parts, natives = 0, list[Part](), dict[str, str]()
    rows: dict[int, tuple[bool, list[str]]] = {}
    number = 0
    for text in said.stdout.decode("utf-8", "replace").splitlines():
        words = text.split(" ")
        if words[0] == "limit" and len(words) == 2 and not number:
            limit = int(words[1])
        elif words[0] == "part" and len(words) == 3 and words[2] in ("made", "new"):
            number = int(words[1])
            rows[number] = (words[2] == "made", [])
        else:
            rows[number][1].append(words[0])
    for number in sorted(rows):
        is_made, runs = rows[number]
        name = job_name(home, number)
        parts.append(Part(number, name, f"{home}/{number}.cells", len(runs), is_made))
        natives.update({run: f"{name}.{index}" for index, run in enumerate(runs)})
    return Listed(parts, natives, limit)


def mark(line: Transport, part: Part) -> None | NoAnswer:
    """Note that its Job was made."""
    said = line.call(["sh", "-c", 'true >"${1%.cells}.job"', "sojourn", part.path], timeout_s=CALL_S)
    return said if isinstance(said, NoAnswer) else None


def job_name(home: str, number: int) -> str:
    """What the Job of a part is called."""
    sweep = posixpath.basename(posixpath.dirname(home.rstrip("/")))
    return f"{names.as_dns(sweep, 36)}-{names.digest(home)}-{number}"


def parted(natives: Sequence[str], seen: states.Seen) -> tuple[list[str], dict[str, set[str]]]:
    """(Jobs that end as a whole, those of which some cells are taken out: their indexes)."""
    whole, some = list[str](), dict[str, set[str]]()
    for native in natives:
        name, index = states.split(native)
        if not index:
            whole.append(name)
        else:
            some.setdefault(name, set()).add(index)
    for name, indexes in list(some.items()):
        job = seen.jobs.get(name)
        if job is None:
            whole.append(name)
            del some[name]
            continue
        every = {str(n) for n in range(int((job.get("spec") or {}).get("completions") or 0))}
        if every <= indexes | over(job):
            whole.append(name)
            del some[name]
    return list(dict.fromkeys(whole)), some


def over(job: Mapping[str, Any]) -> set[str]:
    """Indexes that have ended, or were taken out."""
    status = job.get("status") or {}
    done = states.expand(str(status.get("completedIndexes") or "")) | states.expand(
        str(status.get("failedIndexes") or "")
    )
    return done | states.taken_out(job)


def take_out(api: Api, line: Transport, seen: states.Seen, name: str, indexes: Collection[str]) -> None | NoAnswer:
    """Cells that wait never begin, those that run are ended; the others of the Job go on.

    A mark on the claim stops a pod that comes later; the Job bears the indexes for whoever asks how they stand.
    """
    job = seen.jobs[name]
    file = str((job["metadata"].get("annotations") or {}).get("sojourn/cells"))
    marks = [f"{file.removesuffix('.cells')}.out.{index}" for index in sorted(indexes, key=int)]
    said = line.call(["touch", *marks], timeout_s=CALL_S)
    if isinstance(said, NoAnswer):
        return said
    everyone = ",".join(sorted(states.taken_out(job) | set(indexes), key=int))
    patch = {"metadata": {"annotations": {states.TAKEN_OUT: everyone}}}
    kind = "application/merge-patch+json"
    answer = api.ask("PATCH", api.path("jobs", name), body=patch, kind=kind, is_repeatable=True)
    if isinstance(answer, NoAnswer):
        return answer
    for index in indexes:
        for pod in states.pods_of(f"{name}.{index}", seen):
            if (pod.get("status") or {}).get("phase") not in ("Pending", "Running"):
                continue
            try:
                ended = api.ask("DELETE", api.path("pods", str(pod["metadata"]["name"])), is_repeatable=True)
            except ApiRefused as no:
                if no.status != 404:
                    raise
                continue
            if isinstance(ended, NoAnswer):
                return ended
    return None
