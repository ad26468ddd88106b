"""What surrounds the training process: the run's environment, where checkpoints go, one line to stderr."""

from __future__ import annotations

import os
import sys

from sojourn.wire.errors import Misuse


class SeveralProcesses(Misuse):
    """{count} processes train together; this version of the Checkpointer keeps the state of one."""

    code = "several-processes"


class BadUse(Misuse):
    """{detail}"""

    code = "checkpointer-misuse"


def refuse_several() -> None:
    """Raises: SeveralProcesses where torchrun's environment or torch.distributed says that there are more."""
    dist = sys.modules.get("torch.distributed")
    said = os.environ.get("WORLD_SIZE", "")
    count = int(said) if said.isdigit() else 1
    if dist is not None and dist.is_available() and dist.is_initialized():
        count = dist.get_world_size()
    if count > 1:
        raise SeveralProcesses(count=count)


def token() -> int | None:
    """The attempt's fencing token, None where no sojourn is around."""
    said = os.environ.get("SOJOURN_TOKEN", "")
    return int(said) if said.isdigit() else None


def place(folder: str | os.PathLike[str] | None) -> str:
    """Where checkpoints go: the run's folder, ./checkpoints without a run.

    Under sojourn the working copy belongs to one attempt, so a relative `folder` lies in the run's root instead.
    """
    if folder is None:
        return os.environ.get("SOJOURN_CHECKPOINT_DIR") or "checkpoints"
    return os.path.join(os.environ.get("SOJOURN_RUN_DIR", ""), os.fspath(folder))


def from_root(path: str) -> str:
    """`path` from the run's root, where it lies in there; as it is otherwise."""
    root = os.environ.get("SOJOURN_RUN_DIR", "")
    if not root or not os.path.realpath(path).startswith(os.path.realpath(root) + os.sep):
        return path
    return os.path.relpath(os.path.realpath(path), os.path.realpath(root))


def say(text: str) -> None:
    """One line to stderr, at once."""
    sys.stderr.write(f"sojourn: {text}\n")
    sys.stderr.flush()
