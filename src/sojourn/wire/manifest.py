"""Manifests: which files, how many bytes, which sha256. Made on the box, compared at home."""

from __future__ import annotations

import hashlib
import os

from sojourn.wire import names

TYPE_CHECKING = False  # `typing` costs every call on the box 5 ms
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple

SCHEMA = "sojourn/manifest/v1"
_CHUNK = 1 << 20
_HEX = frozenset("0123456789abcdef")


def sha256_file(path: str, *, follow: bool = True, tick: Optional[Callable[[int], None]] = None) -> Tuple[int, str]:
    """(bytes, sha256 hex) of the file at `path`, read once. Without `follow` a symlink is refused. `tick` is told how
    many bytes were read, about every MiB. Raises: OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    with open(fd, "rb", buffering=0) as f:
        return sha256_stream(f, tick)


def sha256_stream(stream: Any, tick: Optional[Callable[[int], None]] = None) -> Tuple[int, str]:
    """(bytes, sha256 hex) of the rest of an unbuffered binary stream. `tick`: see `sha256_file`. Raises: OSError."""
    total, h = 0, hashlib.sha256()
    buffer = bytearray(_CHUNK)
    view = memoryview(buffer)
    while True:
        count = stream.readinto(buffer)
        if not count:
            return total, h.hexdigest()
        total += count
        h.update(view[:count])
        if tick:
            tick(count)


def is_safe(path: str) -> bool:
    """True where `path` is a relative path with `/` that stays below its root, in its one spelling, without NUL."""
    parts = path.split("/")
    return bool(path) and not path.startswith("/") and not {"", ".", ".."}.intersection(parts) and "\x00" not in path


def document(
    run: str,
    attempt: int,
    at: str,
    entries: Iterable[Dict[str, Any]],
    missing: Iterable[str],
    refused: Iterable[Dict[str, str]] = (),
    node: Optional[Dict[str, str]] = None,
) -> Dict[str, Any]:
    """A manifest: {"schema","run","attempt","at","files","missing","refused","digest"}, and "node" where that is given.

    files: {"path","from","bytes","sha256","role"}, sorted by path; `role` is "output" (owed), "log" or "scratch";
    `from` is the file's path below the run's root.   missing: the globs that hit nothing.
    refused: {"path", "why"} of what a glob hit and what is not taken home (a symlink out of the root, a device).
    node: the machine that made it (`wire.machine`).
    `digest` names the content alone (paths, bytes, hashes, roles), not the time.
    """
    files = sorted(entries, key=lambda e: str(e["path"]))
    return {
        "schema": SCHEMA,
        "run": run,
        "attempt": attempt,
        "at": at,
        "files": files,
        "missing": sorted(missing),
        "refused": sorted(refused, key=lambda e: e["path"]),
        "digest": roster_digest(files),
        **({"node": node} if node else {}),
    }


def roster_digest(files: Iterable[Dict[str, Any]]) -> str:
    """The digest of a roster: of [path, bytes, sha256, role] rows sorted by path."""
    return names.digest(sorted([e["path"], e["bytes"], e["sha256"], e.get("role", "output")] for e in files))


def digest_of(document: Mapping[str, Any]) -> str:
    """The digest of a manifest by what it lists: `roster_digest` of `files`, and of `earlier` and `gone` where these
    list anything. What a document says of itself is not looked at. Raises: KeyError, TypeError."""
    files = roster_digest(document["files"])
    earlier, gone = document.get("earlier") or (), document.get("gone") or ()
    if not earlier and not gone:
        return files
    older = sorted([e["path"], e["from"], e["bytes"], e["sha256"], e.get("role", "output")] for e in earlier)
    lost = sorted([e["path"], e["bytes"], e["sha256"]] for e in gone)
    return names.digest([files, older, lost])


def is_digest(text: Any) -> bool:
    """It is 64 lower-case hex digits, and so a safe file name."""
    return isinstance(text, str) and len(text) == 64 and set(text) <= _HEX


def differences(ours: Iterable[Dict[str, Any]], theirs: Iterable[Dict[str, Any]]) -> List[Tuple[str, str]]:
    """(path, what) of all that differs, sorted: "missing" (not in ours), "unexpected" (not in theirs), "differs"."""
    a = {e["path"]: (e["bytes"], e["sha256"]) for e in ours}
    b = {e["path"]: (e["bytes"], e["sha256"]) for e in theirs}
    out = [(p, "missing") for p in b if p not in a]
    out += [(p, "unexpected") for p in a if p not in b]
    out += [(p, "differs") for p in a if p in b and a[p] != b[p]]
    return sorted(out)


def walk(root: str) -> List[str]:
    """Relative paths of all regular files below `root`, sorted; no links, devices or sockets. Raises: OSError."""

    def fail(error: OSError) -> None:
        raise error  # a folder that cannot be read must not look like an empty one

    out = []
    for folder, subfolders, files in os.walk(root, onerror=fail):
        subfolders[:] = [d for d in subfolders if not os.path.islink(os.path.join(folder, d))]
        for name in files:
            full = os.path.join(folder, name)
            if os.path.isfile(full) and not os.path.islink(full):
                out.append(os.path.relpath(full, root))
    return sorted(out)
