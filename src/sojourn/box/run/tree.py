"""Copies of immutable trees: the working copy of an attempt and its file mounts."""

from __future__ import annotations

import hashlib
import os

from sojourn.box.run import copying
from sojourn.wire import atomic, manifest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO, Dict, List, Optional

FROZEN_NS = 1_000_000_000 * 946684800  # time stamp of every snapshot file (2000-01-01): a later one was written to
_CHUNK = 1 << 20
_CLONED_BYTES = 256 << 10  # smaller files are read and written: a clone costs more


class Damaged(Exception):
    """A snapshot does not match its roster."""


def snapshot(base: str, digest: str) -> str:
    """The folder of a snapshot, with `tree/` and `roster.json`."""
    return os.path.join(base, "snapshots", digest)


def read_roster(base: str, digest: str) -> List[Dict[str, Any]]:
    """The rows of a snapshot: path, bytes, sha256, role ("f" file, "x" executable, "l" symlink).

    Raises: Damaged, OSError.
    """
    rows = atomic.read_json(os.path.join(snapshot(base, digest), "roster.json"))
    if not isinstance(rows, list):
        raise Damaged("snapshot %s is not on the box" % digest[:12])
    return rows


def mark(seen: os.stat_result) -> List[int]:
    """Changes with every write to a file: device, inode, size, mtime and ctime in ns."""
    return [seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns]


def marks(base: str, digest: str) -> Dict[str, Any]:
    """The mark of each file of a snapshot when last hashed, by path; {} if none were kept.

    Raises: OSError.
    """
    found = atomic.read_json(os.path.join(snapshot(base, digest), "stats.json"))
    return found if isinstance(found, dict) else {}


def disown(base: str, digest: str) -> None:
    """From now on a damaged snapshot counts as absent, so that the next push replaces it. Its files stay: a run may
    read them. Raises: OSError.
    """
    folder = snapshot(base, digest)
    os.rename(os.path.join(folder, "roster.json"), os.path.join(folder, "roster.damaged"))


def put_in(folder: str, base: str, digest: str) -> None:
    """Give a finished snapshot its name, replacing a damaged one. If another with the same content was faster, `folder`
    stays. Durable. Raises: OSError.
    """
    goal = snapshot(base, digest)
    aside = folder + ".damaged"
    os.makedirs(os.path.dirname(goal), exist_ok=True)
    if os.path.lexists(goal) and not os.path.isfile(os.path.join(goal, "roster.json")):
        os.rename(goal, aside)
    try:
        os.rename(folder, goal)
    except OSError:
        if not os.path.isfile(os.path.join(goal, "roster.json")):
            raise
    atomic.sync_folder(os.path.dirname(goal))
    if os.path.lexists(aside):
        import shutil  # 1 MiB, and hardly ever needed

        shutil.rmtree(aside, ignore_errors=True)


def copy(base: str, digest: str, target: str) -> Dict[str, int]:
    """Fill the folder `target` (created if absent) with a snapshot; {"files","bytes","linked","shared"}.

    The target may write to all of it. Large files share their blocks with the snapshot if the file system can (`shared`
    counts them); else they are copied. Copies are hashed on the way, shared files unless their stat is unchanged.
    `linked` is 0: earlier keepers made hard links.
    Raises: Damaged, OSError; a partial copy stays.
    """
    rows = read_roster(base, digest)
    tree = os.path.join(snapshot(base, digest), "tree")
    done = {"files": 0, "bytes": 0, "linked": 0, "shared": 0}
    os.makedirs(target, exist_ok=True)
    known = marks(base, digest)
    is_sharing = True
    for row in rows:
        source, goal = os.path.join(tree, row["path"]), os.path.join(target, row["path"])
        os.makedirs(os.path.dirname(goal), exist_ok=True)
        if row["role"] == "l":
            os.symlink(os.readlink(source), goal)
        else:
            is_large = row["bytes"] >= _CLONED_BYTES
            is_shared = copy_file(source, goal, row, known.get(row["path"]), shares=is_large and is_sharing)
            is_sharing = is_sharing and (is_shared or not is_large)
            done["shared"] += is_shared
        done["files"] += 1
        done["bytes"] += row["bytes"]
    return done


def copy_file(
    source: str, goal: str, row: Dict[str, Any], known: Optional[List[int]] = None, *, shares: bool = True
) -> bool:
    """Copy one file of a snapshot as an ordinary, writable one; does it share blocks? Raises: Damaged, OSError.

    `known`: its mark when last hashed.
    """
    mode = 0o755 if row["role"] == "x" else 0o644
    with open(source, "rb", buffering=0) as f:
        fd = os.open(goal, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with open(fd, "r+b", buffering=0) as out:
            is_shared = shares and copying.clone(f.fileno(), fd)
            if not is_shared:
                digest = _copied(f, out)
            elif mark(os.fstat(f.fileno())) == known:
                digest = row["sha256"]
            else:
                digest = manifest.sha256_stream(out)[1]
    if digest != row["sha256"]:
        raise Damaged("%s was changed in the snapshot" % row["path"])
    return is_shared


def check(base: str, digest: str, member: str = "") -> None:
    """Return if a snapshot, or one file of it, matches its roster. Reads files whose stat does not vouch for them.

    Raises: Damaged, OSError.
    """
    tree, known = os.path.join(snapshot(base, digest), "tree"), marks(base, digest)
    for row in read_roster(base, digest):
        if row["role"] == "l" or member not in ("", row["path"]):
            continue
        path = os.path.join(tree, row["path"])
        try:
            is_same = mark(os.lstat(path)) == known.get(row["path"]) or manifest.sha256_file(path, follow=False) == (
                row["bytes"],
                row["sha256"],
            )
        except FileNotFoundError:
            is_same = False
        if not is_same:
            raise Damaged("%s was changed in the snapshot" % row["path"])


def _copied(source: BinaryIO, out: BinaryIO) -> str:
    """The sha256 of the copied bytes."""
    h = hashlib.sha256()
    while True:
        data = source.read(_CHUNK)
        if not data:
            return h.hexdigest()
        h.update(data)
        view = memoryview(data)
        while len(view):
            view = view[out.write(view) :]


def clear(folder: str) -> None:
    """Remove everything in `folder`, which stays. Raises: OSError."""
    for entry in list(os.scandir(folder)):
        if entry.is_dir(follow_symlinks=False):
            import shutil  # 1 MiB, and hardly ever needed

            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)
