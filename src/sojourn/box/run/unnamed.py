"""Files that look like weights or checkpoints, made by a run although no output names them: rank 0's model, a best.pt
in a folder of the framework's own.

Not meant: what was pushed or mounted and is unchanged, environments, caches, scratch, and the Checkpointer's own.
"""

from __future__ import annotations

import os

from sojourn.box.run import saved_files, shelved
from sojourn.box.run.root import OURS, Root
from sojourn.wire import globs, manifest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Collection, Dict, List, Mapping, Sequence, Tuple

    from sojourn.wire.documents import Spec

    Contents = Dict[str, Tuple[int, str]]  # path -> (bytes, sha256)

MOST = 1000
_ENTRIES = 1_000_000  # of the folders searched
_CACHES = ("HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME", "TORCH_HOME", "PIP_CACHE_DIR", "MODELSCOPE_CACHE", "WANDB_DIR")


def find(
    root: Root, spec: Mapping[str, Any], folders: Sequence[str], named: Collection[str], before: Contents
) -> Tuple[List[Dict[str, Any]], Dict[str, str]]:
    """({"path","bytes","mtime_ns"} of each, sorted by path, at most MOST; why a folder could not be looked into, by its
    path). `folders`: where outputs are looked for, in order; `named`: what an output names, by its path below them or
    its real one; `before`: what lay there before the run. A folder of a checkpoint is one, unless an output names a
    part that loads.
    """
    rows: Dict[str, Dict[str, Any]] = {}
    unseen: Dict[str, str] = {}
    passed = [os.path.normpath(str((spec.get("envs") or {}).get(name) or "/")) for name in _CACHES]
    scratch = [str(glob) for glob in spec.get("scratch") or ()]
    parts = {os.path.dirname(path) for path in named if saved_files.is_named(path)}
    for folder in folders:
        missed: Dict[str, str] = {}
        for one in saved_files.find(folder, _starts(root, folder), missed, _ENTRIES):
            if one.path in rows or one.path in named or _is_passed(one.path, passed, scratch):
                continue
            if one.is_folder and any((part + "/").startswith(one.path + "/") for part in parts):
                continue
            full = os.path.join(folder, one.path)
            if os.path.realpath(full) not in named and _is_work(folder, one.path, before):
                rows[one.path] = {"path": one.path, "bytes": one.bytes, "mtime_ns": one.mtime_ns}
        for path, why in missed.items():
            if not _is_passed(path, passed, scratch):
                is_first = folder == folders[0]
                at = (path or ".") if is_first else os.path.relpath(os.path.join(folder, path), root.path)
                unseen.setdefault(at, why)
    return [rows[path] for path in sorted(rows)[:MOST]], unseen


def is_unchanged(path: str, content: Tuple[int, str] | None) -> bool:
    """Whether the file is what lay there before. Raises: OSError."""
    if content is None or os.path.getsize(path) != content[0]:
        return False
    return manifest.sha256_file(path, follow=False) == content


def pushed(root: Root, spec: Spec) -> Dict[str, Tuple[int, str]]:
    """(bytes, sha256) of the initial code of each working copy, by path; empty if unreadable."""
    return _contents(root, str(spec.get("code") or ""))


def mounted(root: Root, spec: Spec) -> Dict[str, Tuple[int, str]]:
    """The same of what was mounted into each working copy."""
    found = {}
    for target, what in (spec.get("mounts") or {}).items():
        digest, _, member = what.partition("/")
        at = os.path.normpath(target)
        for path, content in _contents(root, digest).items():
            if not member or path == member:
                found[at if member else os.path.join(at, path)] = content
    return found


def _contents(root: Root, digest: str) -> Dict[str, Tuple[int, str]]:
    from sojourn.box.run import tree  # whoever takes no manifest should not pay for it

    try:
        rows = tree.read_roster(root.base, digest) if digest else []
    except (OSError, tree.Damaged):
        return {}
    return {str(row["path"]): (row.get("bytes", -1), str(row.get("sha256"))) for row in rows if "path" in row}


def _starts(root: Root, folder: str) -> List[str]:
    """Where to look below a folder. In the run's own, ours and scratch are left out, and the Checkpointer's files."""
    if folder != root.path:
        return [""]
    found = []
    for top in (root.path, root.checkpoints):
        try:
            names = os.listdir(top)
        except OSError:
            continue  # the law knows of both, and what cannot be looked into there is told as that
        for name in names:
            is_ours = (
                name in OURS or name in ("scratch", "checkpoints") if top == root.path else any(shelved.rank(name))
            )
            if not is_ours and not name.startswith(".") and not os.path.islink(os.path.join(top, name)):
                found.append(os.path.relpath(os.path.join(top, name), root.path))
    return sorted(found)


def _is_passed(path: str, passed: Sequence[str], scratch: Sequence[str]) -> bool:
    if any("cache" in part.lower() for part in path.split("/")):
        return True
    return any((path + "/").startswith(one + "/") for one in passed) or any(globs.covers(one, path) for one in scratch)


def _is_work(folder: str, path: str, before: Contents) -> bool:
    """Whether something in it loads, as far as can be told by its form, and was not there before."""
    full = os.path.join(folder, path)
    files = [full]
    if os.path.isdir(full):
        files = [os.path.join(at, name) for at, _, names in os.walk(full) for name in names]
    for one in filter(saved_files.is_named, files):
        try:
            if saved_files.is_whole(one) and not is_unchanged(one, before.get(os.path.relpath(one, folder))):
                return True
        except OSError:
            continue  # removed meanwhile
    return False
