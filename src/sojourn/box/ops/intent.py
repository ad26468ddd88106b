"""What somebody wants of a run: that it exists, that an attempt is made, that one is stopped.

Written before anything is done.
"""

from __future__ import annotations

import os
import sys
import time

from sojourn.box import job
from sojourn.box.call import Box, Refused
from sojourn.box.locks import Held
from sojourn.box.probes import machine, process
from sojourn.box.root import Root, attempts_made, read_fields, read_number
from sojourn.wire import atomic, names, units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List


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


def find_root(box: Box, run: str, must_exist: bool = True) -> Root:
    """The root of a run by its id. Refused: bad-name, no-such-run."""
    if not names.is_name(run):
        raise Refused("bad-name", "not a run's name: %r" % run)
    root = Root(box.under("runs", run))
    if must_exist and not os.path.isfile(root.run):
        raise Refused("no-such-run", "no run named %s is on this box" % run)
    return root


def supervise_argv(box: Box, root: Root) -> List[str]:
    """What a launcher is to start: the run's own keeper while it is here; a resume meets the one that began it."""
    keeper = box.under("keepers", os.path.basename(str(read_fields(root.run).get("keeper") or "")))
    if not os.path.isfile(keeper):
        keeper = box.keeper
    return [sys.executable or "python3", "-I", "-S", keeper, "supervise", "--root", root.path]


def last_attempt(root: Root) -> int:
    """The highest attempt that was begun."""
    return max([read_number(root.keeper, "attempt")] + attempts_made(root))


def pulse(root: Root) -> str:
    """The keeper: alive, gone, none (there never was one), unknown (it was on another machine)."""
    fields = read_fields(root.keeper)
    if not fields.get("pid"):
        return "none"
    if fields.get("host") not in (None, machine.host()):
        return "unknown"
    is_here = fields.get("boot_id") == machine.boot_id()
    return "alive" if is_here and process.is_alive(fields["pid"], fields.get("start", 0)) else "gone"


def wake_keeper(root: Root) -> str:
    """Let the keeper look at what was written; its pulse."""
    now = pulse(root)
    if now == "alive":
        import signal  # and for this

        try:
            os.kill(read_number(root.keeper, "pid"), signal.SIGUSR1)
        except ProcessLookupError:
            return "gone"
    return now


def raise_want(root: Root, asked: Dict[str, Any], given: Any = None) -> Dict[str, Any]:
    """Ask for an attempt of this run. Never lowers what was asked. `given`: the values of its secrets.

    `asked`: attempt, by, token, and what is to hold from this attempt on: budget_s, max_duration_s, envs.
    Answer: attempt (in force), last (the highest begun). Refused: bad-want. Raises: OSError.
    """
    from sojourn.box import secrets  # every look at a box would pay for it

    values = secrets.checked(read_fields(root.run), given)
    with Held(root):  # two clients at once: the higher one stays
        last, attempt = last_attempt(root), int(asked["attempt"])
        now = read_fields(root.want)
        in_force = read_number(root.want, "attempt")
        if attempt > in_force:
            if not 1 <= attempt <= max(last, in_force) + 1:
                raise Refused("bad-want", "attempt %d was asked for, the last one is %d" % (attempt, last), last=last)
            now = {
                "attempt": attempt,
                "by": str(asked.get("by") or "run"),
                "token": asked.get("token") or os.urandom(16).hex(),
            }
            for limit in ("budget_s", "max_duration_s"):
                if asked.get(limit) is not None:
                    now[limit] = float(asked[limit])
            if asked.get("envs"):
                now["envs"] = {str(name): str(value) for name, value in asked["envs"].items()}
            if values:
                secrets.write(root, values)  # before the keeper can see that they will be needed
            atomic.write_json(root.want, now)
            in_force = attempt
        elif values and attempt > last:
            secrets.write(root, values)
    wake_keeper(root)
    return {"attempt": in_force, "last": last}


def write_once(path: str, value: Dict[str, Any]) -> bool:
    """Write a file that is never changed again; False where it was there. Two at once: one of them wins whole."""
    if os.path.exists(path):
        return False
    aside = "%s.%s" % (path, os.urandom(16).hex())
    atomic.write_json(aside, value)
    try:
        os.link(aside, path)
        return True
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        os.rename(aside, path)
        return True
    finally:
        if os.path.exists(aside):
            os.unlink(aside)
        atomic.sync_folder(os.path.dirname(path))
