"""Requests for a run: that it exists, that an attempt is made, that one is stopped.

Recorded before anything is done.
"""

from __future__ import annotations

import os
import time

from sojourn.box.call import Box, Refused
from sojourn.box.run import job
from sojourn.box.run.root import Root, read_number, spec_fields
from sojourn.box.run.want import (
    find_root,
    last_attempt,
    pulse,
    raise_want,
    revisions,
    supervise_argv,
    wake_keeper,
    write_once,
)
from sojourn.wire import atomic, names, units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict


def place(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    """Make the run's root with run.json and the first want. Idempotent for the same identity.

    `secrets`: the values for the requested attempt, by name.
    Answer: root, placed (False = it existed), identity, attempt (in force), last, argv (for a launcher to start).
    Refused: name-taken (with the `identity` that has it), bad-name, bad-spec; bad-first: its attempts would repeat
    numbers of an earlier run of this name.
    """
    spec = request["run"]
    wrong = job.trouble(spec)
    if wrong:
        raise Refused("bad-spec", wrong)
    if not names.is_name(str(spec["run"])):
        raise Refused("bad-name", "not a run's name: %r" % spec["run"])
    root = find_root(box, str(spec["run"]), must_exist=False)
    used = max([last_attempt(earlier) for earlier in revisions(box, root.id)] or [0])
    if int(spec.get("first") or 1) <= used:
        raise Refused("bad-first", "an earlier run named %s had %d attempts" % (root.id, used), last=used)
    root.make_folders()
    placed = write_once(root.run, spec)
    there = spec_fields(root)
    if there.get("identity") != spec.get("identity"):
        raise Refused(
            "name-taken",
            "this box has a run named %s with a different job" % root.id,
            identity=there.get("identity"),
            root=root.path,
        )
    answer = {"root": root.path, "placed": placed, "identity": there.get("identity")}
    if request.get("want"):
        answer.update(raise_want(root, request["want"], request.get("secrets")))
    answer["argv"] = supervise_argv(box, root)
    return answer


def want(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    """Request an attempt. Answer: attempt (the highest requested), last (the highest started), argv.

    Never lowers the request. `secrets`: the values for that attempt, by name; kept if it has not started. `spec`: the
    run.json of that attempt and later ones, if its code differs. Refused: bad-spec, bad-want, and alive if a keeper is
    at work, which read the previous one.
    """
    root = find_root(box, str(request["run"]))
    spec = request.get("spec")
    asked = dict(request, spec=lay_spec(root, spec)) if spec else request
    answer = raise_want(root, asked, request.get("secrets"))
    answer["argv"] = supervise_argv(box, root)
    return answer


def lay_spec(root: Root, spec: Dict[str, Any]) -> str:
    """Put a run.json for later attempts beside the first; its identity. Idempotent. Refused: bad-spec, alive."""
    wrong = job.trouble(spec)
    identity = str(spec.get("identity") or "")
    if wrong or not identity or os.path.basename(identity) != identity or spec.get("run") != names.run_of(root.id):
        raise Refused("bad-spec", wrong or "it is not one of %s" % root.id)
    if pulse(root) == "alive" and spec_fields(root).get("identity") != identity:
        raise Refused("alive", "the keeper of %s is at work with the code before" % root.id)
    os.makedirs(root.specs, mode=0o700, exist_ok=True)
    write_once(root.spec(identity), spec)
    return identity


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
