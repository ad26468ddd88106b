"""A copy that is held half way, and what a tree holds: what the tests of `stage` share."""

from __future__ import annotations

import os
import signal
import uuid
from pathlib import Path
from typing import Any

from sojourn.box.stage.records import Work
from sojourn.verbs.datasets import stage as verb
from sojourn.verbs.datasets.stage import Staged
from tests.box.rig import until
from tests.verbs.conftest import World


def many(source: Path, count: int) -> None:
    """So many small files more."""
    (source / "many").mkdir()
    for number in range(count):
        (source / f"many/{number:05d}").write_bytes(b"%d" % number)


def contents(root: Path) -> dict[bytes, Any]:
    """Everything below a folder: path -> what it is."""
    found: dict[bytes, Any] = {}
    top = os.fsencode(root)
    for folder, folders, files in os.walk(top):
        for name in (*folders, *files):
            full = os.path.join(folder, name)
            path = os.path.relpath(full, top)
            mode = os.lstat(full).st_mode & 0o777
            if os.path.islink(full):
                found[path] = ("link", os.readlink(full))
            elif os.path.isdir(full):
                found[path] = ("folder", mode)
            else:
                with open(full, "rb") as file:
                    found[path] = (mode, os.lstat(full).st_mtime_ns, file.read())
    return found


def stage(world: World, source: Path, target: Path, **how: Any) -> Staged:
    return verb.stage(world.ctx, str(source), str(target), **how)


def begin(world: World, source: Path, target: Path) -> Work:
    """Only start the process, as a client does that is gone at once."""
    fields = {"source": str(source), "target": str(target), "streams": 1}
    box = world.ctx.box_of("local")
    assert box.answer("stage", act="begin", token=uuid.uuid4().hex, **fields).value["state"] == "running"
    return Work(str(target))


def state(world: World, source: Path, target: Path) -> str:
    box = world.ctx.box_of("local")
    found: str = box.answer("stage", act="look", source=str(source), target=str(target)).value["state"]
    return found


def held_midway(work: Work, lines: int = 50) -> int:
    """The number of the process, stopped when it has copied so many files."""
    until(lambda: os.path.exists(work.copied) and Path(work.copied).read_bytes().count(b"\n") > lines)
    pid = int(work.read("process.json")["pid"])
    os.kill(pid, signal.SIGSTOP)
    assert not os.path.lexists(work.target), "it must be held before it ends"
    return pid
