"""What somebody wants of a run: that it exists, that an attempt is made, that one is stopped.

Written before anything is done.
"""

from __future__ import annotations

import time

from sojourn.box.call import Box, Refused
from sojourn.box.run import job
from sojourn.box.run.root import read_fields, read_number
from sojourn.box.run.want import find_root, last_attempt, raise_want, supervise_argv, wake_keeper, write_once
from sojourn.wire import atomic, units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict


def place(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    """Make the run's root with run.json and the first want. Idempotent for the same identity.

    `secrets`: the values for the attempt that is asked for, by name.
    Answer: root, placed (False = it was there), identity, attempt (in force), last, argv (what a launcher is to start).
    Refused: name-taken (with the `identity` that has it), bad-name, bad-spec.
    """
    spec = request["run"]
    wrong = job.trouble(spec)
    if wrong:
        raise Refused("bad-spec", wrong)
    root = find_root(box, str(spec["run"]), must_exist=False)
    root.make_folders()
    placed = write_once(root.run, spec)
    there = read_fields(root.run)
    if there.get("identity") != spec.get("identity"):
        raise Refused(
            "name-taken",
            "a run named %s with another job is on this box" % root.id,
            identity=there.get("identity"),
            root=root.path,
        )
    answer = {"root": root.path, "placed": placed, "identity": there.get("identity")}
    if request.get("want"):
        answer.update(raise_want(root, request["want"], request.get("secrets")))
    answer["argv"] = supervise_argv(box, root)
    return answer


def want(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    """Ask for an attempt. Answer: attempt (the highest asked for), last (the highest begun), argv.

    Never lowers what was asked. `secrets`: the values for that attempt, by name; kept where it has not begun.
    """
    root = find_root(box, str(request["run"]))
    answer = raise_want(root, request, request.get("secrets"))
    answer["argv"] = supervise_argv(box, root)
    return answer


def stop(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    """Leave a durable request to stop an attempt (default: the newest) and wake the keeper.

    Answer: keeper, attempt, argv.
    """
    root = find_root(box, str(request["run"]))
    attempt = request.get("attempt") or max(last_attempt(root), read_number(root.want, "attempt"))
    grace_s = request.get("grace_s")
    fields = {
        "attempt": max(int(attempt), read_number(root.stop, "attempt")),
        "grace_s": None if grace_s is None else float(grace_s),
        "why": str(request.get("why") or "stop"),
        "at": units.stamp(time.time()),
    }
    atomic.write_json(root.stop, fields)
    return {"keeper": wake_keeper(root), "attempt": fields["attempt"], "argv": supervise_argv(box, root)}
