"""What a client asks of a sweep's queue on this box: that cells are run in turn, or that some are not run here."""

from __future__ import annotations

import os

from sojourn.box.call import Box, Refused
from sojourn.box.run import job
from sojourn.box.run.locks import Held
from sojourn.box.run.root import Root, read_fields
from sojourn.box.run.want import find_root, last_attempt, pulse, supervise_argv, wake_keeper, write_once
from sojourn.box.supervise.queue import SCHEMA, Book, find_queue, line_id
from sojourn.wire import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List


def enqueue(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    """Make the root of every cell and put them into the queue of `queue` (a sweep's name), in this order. Idempotent.

    `template`: what the run.json of all cells have in common; `cells`: {"spec": the rest, "attempt", "token"} each.
    `lanes`: what each slot has from now on (none: as before). `secrets`: their values, for every cell. `keeper`: the
    file that keeps the queue. Answer: root, added, argv (what a launcher is to start).
    Refused, before anything is made: name-taken (`runs`: the cells whose name another job has here), bad-spec.
    """
    from sojourn.box.run import secrets

    queue = find_queue(box, str(request["queue"]), must_exist=False)
    asked = [(dict(request["template"], **cell["spec"]), cell) for cell in request["cells"]]
    _refuse(box, [spec for spec, _ in asked])
    for spec, cell in asked:
        root = find_root(box, str(spec["run"]), must_exist=False)
        root.make_folders()
        write_once(root.run, spec)
        values = secrets.checked(spec, request.get("secrets"))
        if values and int(cell["attempt"]) > last_attempt(root):
            with Held(root):
                secrets.write(root, values)
    os.makedirs(queue.logs, exist_ok=True)
    write_once(queue.run, {"schema": SCHEMA, "run": queue.id, "keeper": request.get("keeper")})
    with Held(queue):
        book = Book(queue)
        lines: List[Dict[str, Any]] = []
        lanes = [str(lane) for lane in request.get("lanes") or book.lanes]
        if lanes != book.lanes:
            lines.append({"kind": "lanes", "lanes": lanes})
        for spec, cell in asked:
            name = line_id(str(spec["run"]), int(cell["attempt"]), str(spec.get("identity")))
            fields = {"run": spec["run"], "attempt": int(cell["attempt"]), "token": str(cell.get("token") or "")}
            was_made = last_attempt(find_root(box, str(spec["run"]))) >= int(cell["attempt"])
            # Taken away, or lost with its root, and wanted again: a line of its own.
            while name in book.taken or (name in book.done and not was_made):
                name = line_id(name, int(cell["attempt"]), "again")
            if name not in book.cells:
                lines.append(dict(fields, kind="cell", id=name))
        book.ask(lines)
    wake_keeper(queue)
    added = sum(line["kind"] == "cell" for line in lines)
    return {"root": queue.path, "added": added, "argv": supervise_argv(box, queue)}


def withdraw(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    """Take cells away that this queue has not begun: `runs`, or all of them where that is null. `why`: stop or move.

    Answer: `taken`: the runs that will never be begun from here, those taken earlier too; `kept`: those that were.
    Where a scheduler has the queue and there is none of ours, `runs` are those that it has let go of.
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
        book.ask([{"kind": "take", "id": name, "why": str(request.get("why"))} for name in taking])
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
    """How a queue stands, for who looks at its cells: {"keeper": its pulse, "waiting", "living", "argv"}."""
    queue = find_queue(box, name, must_exist=False)
    if not os.path.isfile(queue.run):
        return {"keeper": "none", "waiting": 0, "living": 0, "argv": []}
    book = Book(queue)
    here = {"keeper": pulse(queue), "waiting": len(book.waiting()), "living": len(book.living())}
    return dict(here, argv=supervise_argv(box, queue))


def _leave_nothing(box: Box, run: str, is_moving: bool) -> None:
    """Of a cell that was never begun here: its secrets go, and its root too where it is to run elsewhere."""
    root = find_root(box, run, must_exist=False)
    if os.path.isdir(root.path) and not last_attempt(root) and not os.path.exists(root.want):
        _empty(root, is_moving)


def _take_back(box: Box, sweep: str, run: str, is_moving: bool) -> bool:
    """The same of a cell that a scheduler has let go of; False where it was begun."""
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
    """The attempt that waits in a sweep's queue, by run."""
    if not names.is_name(name):
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
        there = read_fields(root.run).get("identity") if os.path.isfile(root.run) else None
        if there not in (None, spec.get("identity")):
            taken.append(root.id)
    if taken:
        said = ", ".join(taken[:3]) + (" and %d more" % (len(taken) - 3) if len(taken) > 3 else "")
        raise Refused("name-taken", "this box has runs of these names with another job: %s" % said, runs=taken)
