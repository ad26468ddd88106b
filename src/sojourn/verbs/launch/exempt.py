"""Files of a working folder that are not code, and so are neither pushed nor make another job of it: job files, and
what `pull --to` brought.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator

from sojourn.store import snapshot
from sojourn.store.job.keys import KEYS
from sojourn.store.job.skypilot import SKYPILOT
from sojourn.store.job.tree import Problems, Table, parse
from sojourn.store.job.values import JobFile
from sojourn.store.snapshot import Snapshot
from sojourn.verbs.context import Context
from sojourn.verbs.launch.rosters import roster_of
from sojourn.wire import atomic

_MOST_BYTES = 64 << 10
_RUN = re.compile(rb"^(run|\"run\"|'run')\s*:", re.M)


def only_code(ctx: Context, job: JobFile, tree: Snapshot) -> Snapshot:
    """The code of a working folder without what is none. Raises: nothing."""
    paths = [job.path, *([job.sweep.queue] if job.sweep and job.sweep.queue else [])]
    paths += [os.path.join(tree.root, path) for path in _job_files(tree)]
    paths += _brought(ctx, tree)
    return snapshot.without(tree, paths)


def _job_files(tree: Snapshot) -> Iterator[str]:
    """Other job files: what lies beside the code and says `run` with keys that are all ours."""
    for row in tree.rows:
        path = row["path"]
        if "/" not in path and path.endswith((".yaml", ".yml")) and row["bytes"] <= _MOST_BYTES and row["role"] != "l":
            try:
                with open(os.path.join(tree.root, path), "rb") as file:
                    data = file.read(_MOST_BYTES)
                found = parse(data) if _RUN.search(data) else None
            except (OSError, Problems):
                continue
            if isinstance(found, Table) and {key.text for key, _ in found.entries} <= {*KEYS, *SKYPILOT}:
                yield path


def _brought(ctx: Context, tree: Snapshot) -> list[str]:
    """What pulls brought into folders inside the tree, but for files that were code of that run already."""
    homes = os.path.join(ctx.store.state_dir, "homes")
    found: list[str] = []
    for name in _names(homes):
        kept = atomic.read_json(os.path.join(homes, name))
        folder = os.path.realpath(str(kept.get("folder"))) if isinstance(kept, dict) else ""
        if folder != tree.root and not folder.startswith(tree.root + os.sep):
            continue
        for run, files in (kept.get("runs") or {}).items():
            record = ctx.store.index.run(str(run))
            code = roster_of(record.run.code_digest) if record is not None else []
            found += _but(folder, files, tree.root, {str(row.get("path")) for row in code})
    return found


def _but(folder: str, files: Iterable[str], root: str, code: Collection[str]) -> Iterator[str]:
    for path in files:
        full = os.path.normpath(os.path.join(folder, path))
        if os.path.relpath(full, root) not in code:
            yield full


def _names(folder: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if name.endswith(".json"))
    except OSError:
        return []
