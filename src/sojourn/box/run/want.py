"""Requests to a run and its keeper's state: the requested attempt, the pulse, the argv that starts it."""

from __future__ import annotations

import os
import sys

from sojourn.box.call import Box, Refused
from sojourn.box.run.locks import Held
from sojourn.box.run.root import Root, attempts_made, read_fields, read_number, spec_fields
from sojourn.box.system import machine, process
from sojourn.wire import atomic, names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List


def find_root(box: Box, run: str, must_exist: bool = True) -> Root:
    """The root of a run, or of a revision of one, by its id. Refused: bad-name, no-such-run."""
    if not names.is_root(run):
        raise Refused("bad-name", "not a run's name: %r" % run)
    root = Root(box.under("runs", run))
    if must_exist and not os.path.isfile(root.run):
        raise Refused("no-such-run", "no run named %s is on this box" % run)
    return root


def revisions(box: Box, run: str) -> List[Root]:
    """The roots of earlier runs with this name, newest first."""
    try:
        found = [name for name in os.listdir(box.under("runs")) if names.is_root(name) and names.run_of(name) == run]
    except OSError:
        found = []
    earlier = sorted((name for name in found if name != run), key=names.revision_of, reverse=True)
    return [Root(box.under("runs", name)) for name in earlier]


def supervise_argv(box: Box, root: Root) -> List[str]:
    """The argv for a launcher: the run's own keeper while it is here, so that a resume meets the one that started the
    run, unless it brings other code.
    """
    keeper = box.under("keepers", os.path.basename(str(spec_fields(root).get("keeper") or "")))
    if not os.path.isfile(keeper):
        keeper = box.keeper
    return [sys.executable or "python3", "-I", "-S", keeper, "supervise", "--root", root.path]


def last_attempt(root: Root) -> int:
    """The highest attempt that was started."""
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
    """Wake the keeper to read the request; returns its pulse."""
    now = pulse(root)
    if now == "alive":
        import signal  # and for this

        try:
            os.kill(read_number(root.keeper, "pid"), signal.SIGUSR1)
        except ProcessLookupError:
            return "gone"
    return now


def raise_want(root: Root, asked: Dict[str, Any], given: Any = None) -> Dict[str, Any]:
    """Request an attempt of this run. Never lowers a request. `given`: the values of its secrets.

    `asked`: attempt, by, token, and what holds from this attempt on: budget_s, max_duration_s, envs; `spec`: the
    identity of one in `specs`, which holds from then on.
    Answer: attempt (in force), last (the highest started). Refused: bad-want. Raises: OSError.
    """
    from sojourn.box.run import secrets

    values = secrets.checked(read_fields(root.run), given)
    first = int(read_fields(root.run).get("first") or 1)
    with Held(root):  # two clients at once: the higher one stays
        last, attempt = last_attempt(root), int(asked["attempt"])
        now = read_fields(root.want)
        in_force = read_number(root.want, "attempt")
        spec = asked.get("spec") or now.get("spec")
        if attempt > in_force or (attempt == in_force > last and spec != now.get("spec")):
            if not first <= attempt <= max(last, in_force, first - 1) + 1:
                raise Refused(
                    "bad-want", "attempt %d was requested, but the last one is %d" % (attempt, last), last=last
                )
            now = {
                "attempt": attempt,
                "by": str(asked.get("by") or "run"),
                "token": asked.get("token") or os.urandom(16).hex(),
            }
            if spec:
                now["spec"] = str(spec)
            for limit in ("budget_s", "max_duration_s"):
                if asked.get(limit) is not None:
                    now[limit] = float(asked[limit])
            if asked.get("envs"):
                now["envs"] = {str(name): str(value) for name, value in asked["envs"].items()}
            if values:
                secrets.write(root, values)  # before the keeper can learn that they will be needed
            atomic.write_json(root.want, now)
            in_force = attempt
        elif values and attempt > last:
            secrets.write(root, values)
    wake_keeper(root)
    return {"attempt": in_force, "last": last}


def write_once(path: str, value: Dict[str, Any]) -> bool:
    """Write a file that is never changed again; False if it existed. Of two at once, one wins whole."""
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
