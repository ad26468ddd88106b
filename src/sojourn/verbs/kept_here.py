"""Which checkpoint of a living run `pull --follow` has brought: noted beside the journal, for `status`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from sojourn.verbs.context import Context
from sojourn.wire import atomic

_FOLDER = "followed"


def keep_here(
    ctx: Context,
    run: str,
    *,
    checkpoint: str,
    step: int | None,
    at: str,
    path: str,
    files: Sequence[Mapping[str, str]] = (),
) -> None:
    """Note the newest one. `at`: stamp of when it was written, by the box; `path`: a file of it here; `files`: all of
    them, {"from" (below the run's root), "home", "sha256"} each.

    Raises: OSError.
    """
    os.makedirs(os.path.join(ctx.store.state_dir, _FOLDER), mode=0o700, exist_ok=True)
    note = {"checkpoint": checkpoint, "step": step, "at": at, "path": path, "files": list(files)}
    atomic.write_json(_note_of(ctx, run), note, mode=0o600)


def kept_here(ctx: Context, run: str) -> Mapping[str, Any]:
    """{"checkpoint","step","at","path","files"} of what was noted, as long as it is there; else {}."""
    try:
        note: Any = atomic.read_json(_note_of(ctx, run))
    except OSError:
        return {}
    return note if isinstance(note, dict) and os.path.exists(str(note.get("path"))) else {}


def _note_of(ctx: Context, run: str) -> str:
    return os.path.join(ctx.store.state_dir, _FOLDER, f"{run}.json")
