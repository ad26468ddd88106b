"""The user's own checks before something is let go: commands of the job file, run here, in the project's folder."""

from __future__ import annotations

import os
import subprocess

from sojourn.store.records import RunRecord
from sojourn.verbs.context import Context
from sojourn.wire.errors import Refusal

LIMIT_S = 600.0
TAIL_LINES = 10


class HookFailed(Refusal):
    """The hook {hook} of {run} failed ({how}): {command}. Nothing was released."""

    code = "hook-failed"
    next_step = "read its output, then run sojourn down {lease} again"


def before_down(ctx: Context, record: RunRecord, lease: str) -> bool:
    """Run the job's `before_down` by bash in its workdir, for ten minutes at most; False where it has none.

    It finds SOJOURN_RUN_ID, SOJOURN_LEASE and SOJOURN_HOME (the folder of the last pull). Its end is journaled.
    Raises: HookFailed, whose `lines` are the last it said.
    """
    command = str((record.local.get("hooks") or {}).get("before_down") or "")
    if not command:
        return False
    ctx.say(f"{record.id}: before_down: {command}")
    own = {"SOJOURN_RUN_ID": record.id, "SOJOURN_LEASE": lease, "SOJOURN_HOME": record.pulled_dir}
    said = b""
    try:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=str(record.local.get("workdir") or os.getcwd()),
            env={**ctx.environ, **own},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LIMIT_S,
        )
        said, how = done.stdout, "" if done.returncode == 0 else f"exit status {done.returncode}"
    except subprocess.TimeoutExpired as error:
        said, how = error.stdout or b"", f"still running after {LIMIT_S:g} s"
    except OSError as error:
        how = error.strerror or str(error)
    ctx.store.append("hook", hook="before_down", run=record.id, lease=lease, command=command, failed=how)
    if how:
        tail = said.decode("utf-8", "replace").splitlines()[-TAIL_LINES:]
        raise HookFailed(hook="before_down", run=record.id, how=how, command=command, lease=lease, lines=tail)
    return True
