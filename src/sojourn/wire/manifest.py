"""Manifests: which files, how many bytes, which sha256. Made on the box, compared at home."""

from __future__ import annotations

import errno
import hashlib
import os
import stat

from sojourn.wire import names

TYPE_CHECKING = False  # `typing` costs every call on the box 5 ms
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple

SCHEMA = "sojourn/manifest/v1"
_CHUNK = 1 << 20
_HEX = frozenset("0123456789abcdef")


def sha256_file(path: str, *, follow: bool = True, tick: Optional[Callable[[int], None]] = None) -> Tuple[int, str]:
    """(bytes, sha256 hex) of the file at `path`, read once. Without `follow` a symlink is refused. `tick` is told how
    many bytes were read, about every MiB.

    Of a file that grows meanwhile, as many bytes as it had when it was opened. Raises: OSError, also for a pipe, a
    device or a folder, none of which is ever waited for."""
    return sha256_seen(path, follow=follow, tick=tick)[:2]


def sha256_seen(
    path: str, *, follow: bool = True, tick: Optional[Callable[[int], None]] = None
) -> Tuple[int, str, List[int]]:
    """`sha256_file`, and what the file was when it was opened: [dev, ino, size, mtime_ns, ctime_ns]."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW))
    with open(fd, "rb", buffering=0) as f:
        seen = os.fstat(fd)
        if not stat.S_ISREG(seen.st_mode):
            raise OSError(errno.EISDIR if stat.S_ISDIR(seen.st_mode) else errno.EINVAL, "not a regular file", path)
        size, digest = sha256_stream(f, tick, seen.st_size)
        return size, digest, identity(seen)


def identity(seen: os.stat_result) -> List[int]:
    """What stays as it is as long as nobody writes to the file."""
    return [seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns]


def sha256_stream(stream: Any, tick: Optional[Callable[[int], None]] = None, limit_bytes: int = -1) -> Tuple[int, str]:
    """(bytes, sha256 hex) of the rest of an unbuffered binary stream, or of `limit_bytes` of it. `tick`: see
    `sha256_file`. Raises: OSError."""
    total, h = 0, hashlib.sha256()
    buffer = bytearray(_CHUNK)
    view = memoryview(buffer)
    while True:
        left = _CHUNK if limit_bytes < 0 else min(_CHUNK, limit_bytes - total)
        count = stream.readinto(view[:left]) if left else 0
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
    earlier: Iterable[Dict[str, Any]] = (),
    gone: Iterable[Dict[str, Any]] = (),
    superseded: int = 0,
) -> Dict[str, Any]:
    """A manifest: {"schema","run","attempt","at","files","missing","refused","digest"}, and "node" where that is given.

    files: {"path","from","bytes","sha256","role"}, sorted by path; `role` is "output" (owed), "checkpoint" (owed until
    the run succeeds) or "log"; `from` is the file's path below the run's root, which names its attempt; "set" is the
    checkpoint that a file belongs to, "stat" the file's [dev, ino, size, mtime_ns, ctime_ns] when it was hashed.
    missing: the globs that hit nothing.   refused: {"path", "why"} of what a glob hit and what is not taken home (a
    symlink out of the root, a device).   node: the machine that made it (`wire.machine`).
    earlier: rows too, newest first: what older attempts have of a path, and the checkpoint before the newest.
    gone: rows that the keeper sealed and that are no longer there.   superseded: how many files of older attempts the
    succeeded one replaced.   The last three are absent where there is nothing to tell.
    `digest` names the content alone (paths, bytes, hashes, roles), not the time.
    """
    files = sorted(entries, key=lambda e: str(e["path"]))
    more = {"earlier": list(earlier), "gone": sorted(gone, key=lambda e: str(e["path"])), "superseded": superseded}
    return {
        "schema": SCHEMA,
        "run": run,
        "attempt": attempt,
        "at": at,
        "files": files,
        "missing": sorted(missing),
        "refused": sorted(refused, key=lambda e: e["path"]),
        "digest": digest_of({"files": files, "earlier": more["earlier"], "gone": more["gone"]}),
        **({"node": node} if node else {}),
        **{key: value for key, value in more.items() if value},
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
