"""Manifests: which files, how many bytes, which sha256. Made on the box, compared at home."""

from __future__ import annotations

import hashlib
import os
from typing import Any, Dict, Iterable, List, Tuple

from sojourn.wire import names

SCHEMA = "sojourn/manifest/v1"
_CHUNK = 1 << 20


def sha256_file(path: str) -> Tuple[int, str]:
    """(bytes, sha256 hex) of the file at `path`, as read once. Raises: OSError (a link is not followed out: see `is_safe`)."""
    total, h = 0, hashlib.sha256()
    buffer = bytearray(_CHUNK)
    view = memoryview(buffer)
    with open(path, "rb", buffering=0) as f:
        while True:
            count = f.readinto(buffer)
            if not count:
                return total, h.hexdigest()
            total += count
            h.update(view[:count])


def is_safe(path: str) -> bool:
    """True where `path` is a relative path with `/` that stays below its root and has no control bytes."""
    parts = path.split("/")
    return bool(path) and not path.startswith("/") and ".." not in parts and "" not in parts and "\x00" not in path


def document(run: str, attempt: int, at: str, entries: Iterable[Dict[str, Any]], missing: Iterable[str]) -> Dict[str, Any]:
    """A manifest: {"schema","run","attempt","at","files":[{"path","from","bytes","sha256","role"}],"missing":[glob],"digest"}.

    files: sorted by path; `role` is "output" (owed), "log" or "scratch"; `from` is the file's path below the run's root.
    `digest` names the content alone (paths, bytes, hashes, roles), not the time.
    """
    files = sorted(entries, key=lambda e: e["path"])
    return {
        "schema": SCHEMA,
        "run": run,
        "attempt": attempt,
        "at": at,
        "files": files,
        "missing": sorted(missing),
        "digest": roster_digest(files),
    }


def roster_digest(files: Iterable[Dict[str, Any]]) -> str:
    """The digest of a roster: of [path, bytes, sha256, role] rows sorted by path."""
    return names.digest(sorted([e["path"], e["bytes"], e["sha256"], e.get("role", "output")] for e in files))


def differences(ours: Iterable[Dict[str, Any]], theirs: Iterable[Dict[str, Any]]) -> List[Tuple[str, str]]:
    """(path, what) of everything that differs, sorted: "missing" (not in ours), "unexpected" (not in theirs), "differs"."""
    a = {e["path"]: (e["bytes"], e["sha256"]) for e in ours}
    b = {e["path"]: (e["bytes"], e["sha256"]) for e in theirs}
    out = [(p, "missing") for p in b if p not in a]
    out += [(p, "unexpected") for p in a if p not in b]
    out += [(p, "differs") for p in a if p in b and a[p] != b[p]]
    return sorted(out)


def walk(root: str) -> List[str]:
    """Relative paths of all regular files below `root`, sorted; symlinks, devices and sockets are left out. Raises: OSError."""
    out = []
    for folder, subfolders, files in os.walk(root):
        subfolders[:] = [d for d in subfolders if not os.path.islink(os.path.join(folder, d))]
        for name in files:
            full = os.path.join(folder, name)
            if os.path.isfile(full) and not os.path.islink(full):
                out.append(os.path.relpath(full, root))
    return sorted(out)
