"""Copies of immutable trees: the working copy of an attempt and its file mounts."""

from __future__ import annotations

import hashlib
import os

from sojourn.wire import atomic, manifest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

COPIED_BYTES = 64 << 20  # smaller trees are copied; of larger ones the smallest files, up to this
FROZEN_NS = 1_000_000_000 * 946684800  # time stamp of every file in a snapshot (2000-01-01): a later one was written to
_CHUNK = 1 << 20


class Damaged(Exception):
    """A snapshot is not what its roster says."""


def snapshot(base: str, digest: str) -> str:
    """The folder of a snapshot, which holds `tree/` and `roster.json`."""
    return os.path.join(base, "snapshots", digest)


def read_roster(base: str, digest: str) -> List[Dict[str, Any]]:
    """The rows of a snapshot: path, bytes, sha256, role ("f" file, "x" executable, "l" symlink).

    Raises: Damaged, OSError.
    """
    rows = atomic.read_json(os.path.join(snapshot(base, digest), "roster.json"))
    if not isinstance(rows, list):
        raise Damaged("snapshot %s is not on the box" % digest[:12])
    return rows


def copy(base: str, digest: str, target: str) -> Dict[str, int]:
    """Fill the folder `target` (made where absent) with a snapshot; {"files","bytes","linked"}.

    Files are copied and hashed on the way, the smallest first, up to COPIED_BYTES; what is beyond is hard-linked and
    read-only, since it may be large. Raises: Damaged, OSError; what was made so far stays.
    """
    rows = read_roster(base, digest)
    tree = os.path.join(snapshot(base, digest), "tree")
    done = {"files": 0, "bytes": 0, "linked": 0}
    os.makedirs(target, exist_ok=True)
    budget = COPIED_BYTES
    for row in sorted(rows, key=lambda r: (r["bytes"], r["path"])):
        source, goal = os.path.join(tree, row["path"]), os.path.join(target, row["path"])
        os.makedirs(os.path.dirname(goal), exist_ok=True)
        if row["role"] == "l":
            os.symlink(os.readlink(source), goal)
        elif row["bytes"] <= budget:
            budget -= row["bytes"]
            copy_file(source, goal, row)
        else:
            done["linked"] += _link(source, goal, row)
        done["files"] += 1
        done["bytes"] += row["bytes"]
    return done


def copy_file(source: str, goal: str, row: Dict[str, Any]) -> None:
    """Copy one file of a snapshot as an ordinary, writable one, and hash what was read. Raises: Damaged, OSError."""
    h = hashlib.sha256()
    mode = 0o755 if row["role"] == "x" else 0o644
    with open(source, "rb", buffering=0) as f:
        fd = os.open(goal, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with open(fd, "wb", buffering=0) as out:
            while True:
                data = f.read(_CHUNK)
                if not data:
                    break
                h.update(data)
                view = memoryview(data)
                while len(view):
                    view = view[out.write(view) :]
    if h.hexdigest() != row["sha256"]:
        raise Damaged("%s was changed in the snapshot" % row["path"])


def _link(source: str, goal: str, row: Dict[str, Any]) -> int:
    """Hard-link one large file; copied where the file system cannot. 1 for a link, 0 for a copy."""
    now = os.lstat(source)
    if now.st_size != row["bytes"] or now.st_mtime_ns != FROZEN_NS:
        if manifest.sha256_file(source) != (row["bytes"], row["sha256"]):
            raise Damaged("%s was changed in the snapshot" % row["path"])
    try:
        os.link(source, goal)
        return 1
    except OSError:
        copy_file(source, goal, row)
        return 0


def clear(folder: str) -> None:
    """Remove everything in `folder`, which stays. Raises: OSError."""
    for entry in list(os.scandir(folder)):
        if entry.is_dir(follow_symlinks=False):
            import shutil  # 1 MiB, and hardly ever needed

            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)
