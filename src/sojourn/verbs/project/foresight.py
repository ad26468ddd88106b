"""What the source of a job says of work that it would lose: checkpoints that no later attempt sees, data that stays
here. Only the scripts that `run` names are read, and what they import.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from sojourn.store.job.values import JobFile

if TYPE_CHECKING:
    from sojourn.verbs.project.source.paths import Names

_SCRIPT = re.compile(r"[\w./-]+\.py\b")
_SEE = "`sojourn init --dry-run` says what to add"
_MODULE = re.compile(r"(?:^|\s)-m\s+([\w.]+)")


def foresee(job: JobFile, pushed: Collection[str]) -> list[str]:
    """A line for each thing that would be lost, with what to write. `pushed`: paths of the code. Raises: nothing."""
    names = _read(job)
    if names is None:
        return []
    from sojourn.verbs.project.source import reads

    mounted = tuple(mount.target for mount in job.file_mounts)
    found = [one for one in reads.unpushed(job.workdir, names, pushed) if not _is_below(one.path, mounted)]
    return _unkept(job, names) + reads.in_words(found)


def proposed(job: JobFile) -> JobFile:
    """The job with the outputs, the persisted folders and the resume command that `init` would propose for its script.
    Raises: nothing.
    """
    names = _read(job)
    if names is None:
        return job
    from sojourn.verbs.project.source.resuming import resuming, survey

    names, found = survey(job.workdir, names.modules, job.run)
    again = resuming(job.run, names, found)
    outside = ("/", "~", "..")
    owed = [write.glob for write in found if write.glob and not write.glob.startswith(outside)]
    return replace(job, outputs=tuple(owed), persist=tuple(path for path, _ in again.persist), resume=again.command)


def _unkept(job: JobFile, names: Names) -> list[str]:
    from sojourn.verbs.project.source.resuming import resuming, survey

    again = resuming(job.run, *survey(job.workdir, names.modules, job.run))
    kept = again.persist
    if again.note and not job.resume and not job.persist:
        return [f"{names.modules[0].path} never loads what it saves, so each attempt starts at step 0: {_SEE}"]
    lost = [(path, where) for path, where in kept if path != "wandb" and not _is_below(path, job.persist)]
    if not lost:
        return []
    also = ", ".join(path for path, _ in lost)
    return [
        f"{lost[0][1]} saves checkpoints in {lost[0][0]}, which a later attempt does not see; "
        f"to keep them, add to {os.path.basename(job.path)}: persist: [{also}]"
    ]


def _is_below(path: str, folders: Collection[str]) -> bool:
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def _read(job: JobFile) -> Names | None:
    """The scripts of `run` with all that they import; None where `run` names none."""
    paths = [word.removeprefix("./") for word in _SCRIPT.findall(job.run)]
    for module in _MODULE.findall(job.run):
        inner = module.replace(".", "/")
        paths += [f"{top}{inner}{end}" for top in ("", "src/") for end in (".py", "/__main__.py")]
    there = [path for path in paths if os.path.isfile(os.path.join(job.workdir, path))]
    if not there:
        return None
    from sojourn.verbs.project.source.paths import Names
    from sojourn.verbs.project.source.scripts import read_closure

    modules = read_closure(job.workdir, there)
    return Names(modules) if modules else None
