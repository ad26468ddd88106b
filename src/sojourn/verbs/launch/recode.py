"""`resume --with-code new`: the job as it is now for the next attempt, and which of its parts may be other ones."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from sojourn.store.records import RunRecord
from sojourn.verbs.context import Box, Context
from sojourn.verbs.launch.decide import IDENTITY
from sojourn.verbs.launch.prepare import prepare
from sojourn.verbs.launch.request import RunRequest
from sojourn.verbs.launch.rosters import changed_files
from sojourn.wire import names
from sojourn.wire.errors import Misuse

if TYPE_CHECKING:
    from sojourn.store.snapshot import Snapshot
    from sojourn.wire.documents import Spec

# Of run.json, for the attempts to come. Nothing else of what the identity covers may change.
MAY_CHANGE = ("argv", "resume_argv", "setup", "setup_digest", "code", "protect")
MAY_GROW = ("outputs", "persist", "scratch")
FOLLOWING = ("progress", "rules", "retry", "stall_after_s", "max_duration_s")  # not part of the identity


class OtherJob(Misuse):
    """{run} cannot resume with the job as it is now: {differs} changed too, and only `run`, `setup` and the code may
    change. Nothing was changed.
    """

    code = "other-job"
    next_step = "sojourn run --new"


class NoJobOfIt(Misuse):
    """{run} cannot resume with new code from here: {why}."""

    code = "no-job-of-it"
    next_step = "sojourn run --new"


@dataclass(frozen=True)
class Recoded:
    """A run with today's code. `spec`: the run.json of its next attempt; `files`: what changed in the code, as far as
    the code before is still known here.
    """

    spec: Spec
    trees: tuple[tuple[str, Snapshot], ...]
    files: tuple[str, ...]
    is_same: bool  # nothing changed


def recoded(ctx: Context, record: RunRecord, box: Box) -> Recoded:
    """Read the job of a run as it is now. Raises: OtherJob, NoJobOfIt, Misuse (a bad job file)."""
    old = record.run.spec
    file, envs = str(record.local.get("job_file") or ""), old.get("envs") or {}
    if not file:
        raise NoJobOfIt(run=record.id, why="it was recovered from its box")
    if record.local.get("is_command"):
        if os.getcwd() != record.local.get("workdir"):
            raise NoJobOfIt(run=record.id, why=f"it was started in {record.local.get('workdir')}")
        prepared = prepare(ctx, RunRequest(command=shlex.split(old["argv"][-1]), name=record.id, env=envs))
    else:
        prepared = prepare(ctx, RunRequest(file, name=record.id, env=envs))
    new = respec(old, prepared.spec, keeper=box.keeper.file, train=box.keeper.train_file)
    against = refused(old, prepared.spec)
    if against:
        raise OtherJob(run=record.id, differs=", ".join(against))
    files = tuple(changed_files(record.run.code_digest, prepared.trees[0][1]))
    return Recoded(new, prepared.trees, files, new["identity"] == old["identity"])


def refused(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, ...]:
    """What differs between two run.json and may not, in the words of the job file."""
    found = []
    for key, word in IDENTITY.items():
        was, now = old.get(key) or None, new.get(key) or None
        has_grown = key in MAY_GROW and set(was or ()) <= set(now or ())
        if was != now and key not in MAY_CHANGE and not has_grown:
            found.append(word)
    return tuple(found)


def respec(old: Spec, new: Mapping[str, Any], *, keeper: str, train: str) -> Spec:
    """The run.json of `old` with the code of `new`, for a keeper and a training side of today."""
    spec: dict[str, Any] = dict(old)
    for key in (*MAY_CHANGE, *MAY_GROW, *FOLLOWING):
        spec.pop(key, None)
        if key in new:
            spec[key] = new[key]
    spec.update(keeper=keeper, train=train)
    spec["identity"] = names.digest({key: value for key, value in spec.items() if key in IDENTITY})
    return cast("Spec", spec)
