"""The surroundings of the training process: the run's environment, the checkpoint folder, one line on stderr."""

from __future__ import annotations

import os
import sys

from sojourn.wire.errors import Misuse

_is_quiet = False


class BadUse(Misuse):
    """{detail}"""

    code = "checkpointer-misuse"


def token() -> int | None:
    """The attempt's fencing token, None without sojourn."""
    said = os.environ.get("SOJOURN_TOKEN", "")
    return int(said) if said.isdigit() else None


def place(folder: str | os.PathLike[str] | None) -> str:
    """Where checkpoints go: the run's folder, or ./checkpoints without a run.

    Under sojourn the working copy belongs to one attempt, so a relative `folder` is in the run's root instead. Raises:
    BadUse for a folder that ends with a scheduler's job (SOJOURN_PASSING).
    """
    if folder is None:
        return os.environ.get("SOJOURN_CHECKPOINT_DIR") or "checkpoints"
    path = os.path.join(os.environ.get("SOJOURN_RUN_DIR", ""), os.fspath(folder))
    for passing in filter(None, os.environ.get("SOJOURN_PASSING", "").split(os.pathsep)):
        if (os.path.realpath(path) + os.sep).startswith(os.path.realpath(passing) + os.sep):
            detail = "checkpoints in %s would end with the job: leave `folder` out, or name one on storage that all"
            raise BadUse(detail=(detail + " machines share") % path)
    return path


def from_root(path: str) -> str:
    """`path` relative to the run's root if inside it; otherwise unchanged."""
    root = os.environ.get("SOJOURN_RUN_DIR", "")
    if not root or not os.path.realpath(path).startswith(os.path.realpath(root) + os.sep):
        return path
    return os.path.relpath(os.path.realpath(path), os.path.realpath(root))


def hush(is_quiet: bool) -> None:
    """Of several processes that train together, one speaks."""
    global _is_quiet
    _is_quiet = is_quiet


def say(text: str) -> None:
    """One line on stderr, at once."""
    if _is_quiet:
        return
    sys.stderr.write(f"sojourn: {text}\n")
    sys.stderr.flush()
