"""Faults of the machines that a scheduler gave to a run, found there before anything of the run starts.

The client checked the machine it reaches; these had not been seen. Only certain faults are reported. On the first
machine every probe is asked too, and its answers are kept in the root for the rules.
"""

from __future__ import annotations

import functools
import json
import os
import shlex
import sys
import time

from sojourn.box.probes import writing
from sojourn.box.run.ledger import complain
from sojourn.box.run.root import Root, read_spec
from sojourn.box.supervise import avoided, snapshots
from sojourn.box.supervise.keeper import Keeper
from sojourn.box.system import bounded, cgroup, gpu, machine, raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

    from sojourn.wire.documents import Spec

_WRITE_S, _CARDS_S, _NODES_S = 10.0, 15.0, 60.0
_UNSEEN = 73  # EX_CANTCREAT: a machine of the seat does not see the root, as its starter reports
_GIB = 1 << 30
_NEARLY = 0.95  # of the requested memory: some schedulers hold a little back


class Unfit:
    """Why an attempt must not start on the machines of its seat. `nodes`: those with their own fault, which the run
    should avoid; () if the request is for less than the run needs, which no other machine would help."""

    def __init__(self, why: str, nodes: List[str]) -> None:
        self.why = why
        self.nodes = nodes


def check(keeper: Keeper, number: int) -> Unfit | None:
    """What speaks against starting attempt `number` on these machines, None if nothing is known.

    Machines with a fault are remembered for later requests. The result is recorded as the event `checked`. Takes a
    second or two, two minutes if everything hangs. A machine that does not answer counts as fit.
    """
    began_s = time.monotonic()
    seen = here(keeper.root, keeper.spec)
    step = shlex.split(os.environ.get("SOJOURN_SEAT_STEP", ""))
    nodes = [row for row in _ask_all(keeper.root, number, step) if row["host"] != seen["host"]] if step else []
    snapshots.take_snapshot(keeper, number)
    keeper.ledger.note("checked", number, nodes=nodes, seconds=round(time.monotonic() - began_s, 3), **seen)
    against = [row for row in [seen, *nodes] if row["against"]]
    if not against:
        return None
    bad = {}
    for row in against:
        if row.get("faults"):
            name = os.environ.get("SOJOURN_SEAT_NODE") if row is seen else ""
            bad[name or str(row["host"])] = "; ".join(row["faults"])
    is_fault = all(row.get("faults") for row in against)
    for name, why in bad.items():
        try:
            avoided.add(keeper.root.base, name, why, time.time())
        except OSError as error:
            complain("%s is not remembered: %s" % (name, error))
    why = "; ".join("%s: %s" % (row["host"], "; ".join(row["against"])) for row in against)
    return Unfit(why, list(bad) if is_fault else [])


def here(root: Root, spec: Spec) -> Dict[str, Any]:
    """The facts of this machine, and `against` it for a run of that spec; of that, `faults` are its own."""
    groups = cgroup.Groups()
    need = spec.get("resources") or {}
    wanted = _cards(need)
    questions = [bounded.Question("writing", functools.partial(writing.why_not, root), _WRITE_S)]
    if wanted:
        questions.append(bounded.Question("cards", _ask_cards, _CARDS_S))
    told = bounded.ask(questions)
    seen: Dict[str, Any] = {"host": machine.host(), "cpus": _cpus(groups), "memory_bytes": _memory_bytes(groups)}
    faults: List[str] = []
    asks: List[str] = []
    if not told["writing"].why:
        seen["writes"] = told["writing"].value or "ok"
        if told["writing"].value:
            faults.append("no file can be written in %s (%s)" % (root.path, told["writing"].value))
    if wanted and not told["cards"].why:
        seen["cards"] = told["cards"].value
        found = _of_cards(told["cards"].value, wanted)
        given = len([one for one in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if one])
        is_asked = given >= wanted  # it was given all it needs: anything invisible is the machine's fault
        (faults if is_asked or not told["cards"].value.get("gpus") else asks).extend(found)
    seen["faults"] = faults
    seen["against"] = faults + asks + _of_limits(need, seen["cpus"], seen["memory_bytes"])
    return seen


def main(args: List[str]) -> int:
    """`forecheck ROOT`: print, as a line of JSON, `host`, `against` and `faults` of `here`. 2 for misuse."""
    if len(args) != 1:
        sys.stderr.write("usage: keeper forecheck ROOT\n")
        return 2
    seen = here(Root(args[0]), read_spec(Root(args[0])))
    sys.stdout.write(json.dumps({key: seen[key] for key in ("host", "against", "faults")}) + "\n")
    return 0


def _ask_all(root: Root, number: int, step: List[str]) -> List[Dict[str, Any]]:
    """{"host","against"} of every machine of the seat that answers in time. `step`: the words that start a command on
    each."""
    variables = ["SOJOURN_RUN_DIR=" + root.path, "SOJOURN_ATTEMPT=%d.check" % number]
    command = [sys.executable, "-I", "-S", sys.argv[0], "forecheck", root.path]
    told = raw.run(["env", *variables, *step, *command], _NODES_S)
    if told["rc"] == _UNSEEN:
        return [{"host": "another node", "against": [told["stderr"].strip()[-400:]]}]
    rows = []
    for line in told["stdout"].splitlines():
        try:
            row = json.loads(line)
            rows.append(
                {"host": str(row["host"]), "against": list(row["against"]), "faults": list(row.get("faults") or ())}
            )
        except (ValueError, KeyError, TypeError):
            continue  # other output there, say from a module's profile
    return rows


def _of_limits(need: Dict[str, Any], cpus: float, memory_bytes: int) -> List[str]:
    found = []
    if cpus + 0.01 < _number(need.get("cpus")):
        found.append("the job needs %s CPUs but has %g here" % (need["cpus"], cpus))
    if memory_bytes < _NEARLY * _number(need.get("memory")) * _GIB:
        found.append(
            "the job needs %s GiB of memory but may use only %.1f here" % (need["memory"], memory_bytes / _GIB)
        )
    return found


def _of_cards(told: Dict[str, Any], wanted: int) -> List[str]:
    """For the GPUs that are ours. Without an NVIDIA library they may be another make: nothing is known."""
    error = str(told.get("error") or "")
    if error.startswith("nvml"):
        return ["the job needs GPUs, but their driver does not respond here (%s)" % error]
    if error:
        return []
    rows: List[Dict[str, Any]] = told["gpus"]
    ours = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    if all(one.isdigit() and int(one) < len(rows) for one in ours):
        rows = [rows[int(one)] for one in ours]
    lost = ["GPU %d is lost here (NVML error %d)" % (row["index"], row["error"]) for row in rows if "error" in row]
    if not lost and len(rows) < wanted:
        return ["the job needs %d GPUs, but only %d are visible here" % (wanted, len(rows))]
    return lost


def _ask_cards() -> Dict[str, Any]:
    """In a child."""
    try:
        return {
            "gpus": [{key: row.get(key) for key in ("index", "name", "error") if key in row} for row in gpu.read_gpus()]
        }
    except (ImportError, OSError, AttributeError, RuntimeError) as error:
        return {"error": str(error)[:200]}


def _cards(need: Dict[str, Any]) -> int:
    """The least count in the job file's `accelerators` ("NAME:COUNT" each, any one of them); 0 for none."""
    counts = [str(one).partition(":")[2] or "1" for one in need.get("accelerators") or ()]
    return min((int(count) for count in counts if count.isdigit()), default=0)


def _cpus(groups: cgroup.Groups) -> float:
    try:
        mine = float(len(os.sched_getaffinity(0)))
    except (AttributeError, OSError):
        mine = float(os.cpu_count() or 1)
    return min(mine, groups.cpu_quota() or mine)


def _memory_bytes(groups: cgroup.Groups) -> int:
    there = machine.memory_bytes() or 1 << 62
    return min(there, groups.memory_limit_bytes() or there)


def _number(value: Any) -> float:
    try:
        return float(str(value or 0).rstrip("+"))
    except ValueError:
        return 0.0
