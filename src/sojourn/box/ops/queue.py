"""Requests to a queue on this box: to run cells in turn, or not to run some of them here."""

from __future__ import annotations

import os

from sojourn.box.call import Box, Refused
from sojourn.box.ops.intent import lay_spec
from sojourn.box.queue.book import SCHEMA, Book, find_queue, line_id
from sojourn.box.run import job
from sojourn.box.run.locks import Held
from sojourn.box.run.root import Root, read_fields, spec_fields
from sojourn.box.run.want import find_root, last_attempt, pulse, supervise_argv, wake_keeper, write_once
from sojourn.wire import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List


def enqueue(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    """Make the root of every cell and add them to the queue of `queue` (a sweep's name, or that of plain runs), in this
    order. Idempotent.

    `template`: the common part of all cells' run.json; `cells`: {"spec": the rest, "attempt", "token"} each, for a
    plain run also `cards` (`beside.slots_for`), and "recode" if a finished cell runs again with this code. `lanes`:
    what each slot has from now on (none: as before). `secrets`: values for every cell. `keeper`: the file that keeps
    the queue. Answer: root, added, argv (for a launcher to start). Refused, before anything is made: name-taken
    (`runs`: the cells whose name another job has here), bad-spec.
    """
    from sojourn.box.run import secrets

    queue = find_queue(box, str(request["queue"]), must_exist=False)
    asked = [(dict(request["template"], **cell["spec"]), cell) for cell in request["cells"]]
    _refuse(box, [spec for spec, cell in asked if not cell.get("recode")])
    for spec, cell in asked:
        root = find_root(box, str(spec["run"]), must_exist=False)
        root.make_folders()
        write_once(root.run, spec)
        if cell.get("recode"):
            lay_spec(root, spec)
        values = secrets.checked(spec, request.get("secrets"))
        if values and int(cell["attempt"]) > last_attempt(root):
            with Held(root):
                secrets.write(root, values)
    os.makedirs(queue.logs, exist_ok=True)
    # The queue of plain runs outlives every client: each starts it with the keeper it has.
    own = {} if queue.id == names.RUNS_QUEUE else {"keeper": request.get("keeper")}
    write_once(queue.run, {"schema": SCHEMA, "run": queue.id, **own})
    with Held(queue):
        book = Book(queue)
        lines: List[Dict[str, Any]] = []
        lanes = [str(lane) for lane in request.get("lanes") or book.lanes]
        if lanes != book.lanes:
            lines.append({"kind": "lanes", "lanes": lanes})
        for spec, cell in asked:
            name = line_id(str(spec["run"]), int(cell["attempt"]), str(spec.get("identity")))
            fields = {"run": spec["run"], "attempt": int(cell["attempt"]), "token": str(cell.get("token") or "")}
            if isinstance(cell.get("cards"), dict):
                fields["cards"] = cell["cards"]
            if cell.get("recode"):
                fields["spec"] = str(spec.get("identity"))
            was_made = last_attempt(find_root(box, str(spec["run"]))) >= int(cell["attempt"])
            # Withdrawn, or lost with its root, and requested again: a new line.
            while name in book.taken or (name in book.done and not was_made):
                name = line_id(name, int(cell["attempt"]), "again")
            if name not in book.cells:
                lines.append(dict(fields, kind="cell", id=name))
        book.ask(lines)
    wake_keeper(queue)
    added = sum(line["kind"] == "cell" for line in lines)
    return {"root": queue.path, "added": added, "argv": supervise_argv(box, queue)}


def withdraw(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    """Withdraw cells that this queue has not started: `runs`, or all of them if null. `why`: stop or move.
    `rest`: also promote none of its pruned cells any more, until cells are added.

    Answer: `taken`: the runs that will never start from here, including those withdrawn earlier; `kept`: those already
    started. If a scheduler has the queue and we have none, `runs` are those it has dropped.
    """
    queue = find_queue(box, str(request["queue"]), must_exist=False)
    if not os.path.isfile(queue.run):
        those = [str(run) for run in request.get("runs") or ()]
        begun = [run for run in those if not _take_back(box, queue.id, run, is_moving=request.get("why") == "move")]
        return {"taken": sorted(set(those) - set(begun)), "kept": sorted(begun)}
    wanted = None if request.get("runs") is None else set(request["runs"])
    with Held(queue):
        book = Book(queue)
        taking = [name for name in book.waiting() if wanted is None or book.cells[name]["run"] in wanted]
        rest = [{"kind": "rest"}] if request.get("rest") and not book.rests else []
        book.ask([*rest, *({"kind": "take", "id": name, "why": str(request.get("why"))} for name in taking)])
    for name in taking:
        _leave_nothing(box, str(book.cells[name]["run"]), is_moving=request.get("why") == "move")
    wake_keeper(queue)
    living, taken, known = (
        {book.cells[name]["run"] for name in some if name in book.cells}
        for some in (book.living(), book.taken, book.cells)
    )
    kept = {run for run in known if run in living or run not in taken}
    asked = known if wanted is None else wanted
    return {"taken": sorted(asked - kept), "kept": sorted(asked & kept)}


def state(box: Box, name: str) -> Dict[str, Any]:
    """A queue's state, for a look at its cells: {"keeper": its pulse, "waiting", "living", "argv"}."""
    queue = find_queue(box, name, must_exist=False)
    if not os.path.isfile(queue.run):
        return {"keeper": "none", "waiting": 0, "living": 0, "argv": []}
    book = Book(queue)
    here = {"keeper": pulse(queue), "waiting": len(book.waiting()), "living": len(book.living())}
    return dict(here, argv=supervise_argv(box, queue))


def of_run(box: Box, run: str, sweep: str, seen: Dict[str, Any]) -> Dict[str, Any]:
    """The state of this run's queue, as from `state`; for a waiting run also its `place`, from 1; for one that a client
    removed before it started, the reason: `taken`. {} if it is in none. `seen`: what was read for others in the same
    call.
    """
    name = sweep if names.is_name(sweep) else names.RUNS_QUEUE
    if name not in seen:
        book = Book(find_queue(box, name, must_exist=False))
        order = [str(book.cells[one]["run"]) for one in book.waiting()]
        kept = {run: n + 1 for n, run in reversed(list(enumerate(order)))}
        kept.update({str(book.cells[one]["run"]): 0 for one in book.living()})
        gone = {str(book.cells[one]["run"]): why for one, why in book.taken.items() if one in book.cells}
        seen[name] = state(box, name), kept, {run: why for run, why in gone.items() if run not in kept}
    now, places, taken = seen[name]
    if run in taken:
        return dict(now, taken=taken[run])
    if name == names.RUNS_QUEUE and run not in places:
        return {}
    place = places.get(run, 0)
    return dict(now, place=place) if place else dict(now)


def _leave_nothing(box: Box, run: str, is_moving: bool) -> None:
    """For a cell never started here: its secrets go, and its root too if it will run elsewhere."""
    root = find_root(box, run, must_exist=False)
    if os.path.isdir(root.path) and not last_attempt(root) and not os.path.exists(root.want):
        _empty(root, is_moving)


def _take_back(box: Box, sweep: str, run: str, is_moving: bool) -> bool:
    """The same for a cell that a scheduler has dropped; False if it was started."""
    root = find_root(box, run, must_exist=False)
    if not os.path.isdir(root.path) or read_fields(root.run).get("sweep") != sweep:
        return True
    if last_attempt(root) or pulse(root) != "none":
        return False
    _empty(root, is_moving)
    return True


def _empty(root: Root, is_moving: bool) -> None:
    with Held(root):
        for path in (root.secrets, root.secrets + ".new"):
            try:
                os.unlink(path)
            except FileNotFoundError:
                pass
    if is_moving:
        import shutil

        shutil.rmtree(root.path, ignore_errors=True)


def waiting(box: Box, name: str) -> Dict[str, int]:
    """The attempt waiting in a queue, by run, in queue order."""
    if not names.is_name(name) and name != names.RUNS_QUEUE:
        return {}
    book = Book(find_queue(box, name, must_exist=False))
    return {str(book.cells[one]["run"]): int(book.cells[one]["attempt"]) for one in book.waiting()}


def _refuse(box: Box, specs: List[Dict[str, Any]]) -> None:
    taken: List[str] = []
    for spec in specs:
        wrong = job.trouble(spec)
        if wrong:
            raise Refused("bad-spec", "%s: %s" % (spec.get("run"), wrong))
        root = find_root(box, str(spec["run"]), must_exist=False)
        there = spec_fields(root).get("identity") if os.path.isfile(root.run) else None
        if there not in (None, spec.get("identity")):
            taken.append(root.id)
    if taken:
        said = ", ".join(taken[:3]) + (" and %d more" % (len(taken) - 3) if len(taken) > 3 else "")
        raise Refused("name-taken", "this box has runs of these names with a different job: %s" % said, runs=taken)
