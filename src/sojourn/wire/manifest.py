"""Manifests: which files, how many bytes, which sha256. Made on the box, compared at home."""

from __future__ import annotations

import errno
import hashlib
import os
import stat

from sojourn.wire import names

TYPE_CHECKING = False  # `typing` costs every call on the box 5 ms
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

    from sojourn.wire.documents import FileRow, Manifest

SCHEMA = "sojourn/manifest/v1"
NOT_A_FILE = "not a regular file"  # in `refused`: a pipe, a socket or a device, which holds nothing
UNSEEN = "it cannot be looked into: "  # begins the reason in `refused` where nobody knows what is there
_CHUNK = 1 << 20


def sha256_file(path: str, *, follow: bool = True, tick: Optional[Callable[[int], None]] = None) -> Tuple[int, str]:
    """(bytes, sha256 hex) of the regular file at `path`, read once, up to its size when opened: later appends are
    ignored. Without `follow` a symlink is refused. `tick` gets the number of bytes read, about every MiB. Never waits
    for a writer of a pipe. Raises: OSError, also for anything but a regular file.
    """
    _check_kind(os.stat(path).st_mode, path)  # merely opening a device may have an effect
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW))
    with open(fd, "rb", buffering=0) as f:
        now = os.fstat(fd)
        _check_kind(now.st_mode, path)
        return sha256_stream(f, tick, now.st_size)


def _check_kind(mode: int, path: str) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file", path)


def sha256_stream(
    stream: Any, tick: Optional[Callable[[int], None]] = None, limit_bytes: Optional[int] = None
) -> Tuple[int, str]:
    """(bytes, sha256 hex) of the rest of an unbuffered binary stream, at most `limit_bytes` of it. `tick`: see
    `sha256_file`. Raises: OSError."""
    total, h = 0, hashlib.sha256()
    # Memory just for a small file: clearing a MiB takes longer than hashing a few KB.
    buffer = bytearray(_CHUNK if limit_bytes is None else max(1, min(_CHUNK, limit_bytes)))
    view = memoryview(buffer)
    while limit_bytes is None or total < limit_bytes:
        count = stream.readinto(buffer if limit_bytes is None else view[: min(len(buffer), limit_bytes - total)])
        if not count:
            break
        total += count
        h.update(view[:count])
        if tick:
            tick(count)
    return total, h.hexdigest()


def is_digest(value: Any) -> bool:
    """True for 64 lowercase hexadecimal digits: the form of a SHA-256, which cannot name a path."""
    return isinstance(value, str) and len(value) == 64 and not value.strip("0123456789abcdef")


def is_safe(path: str) -> bool:
    """True if `path` is a relative path with `/` that stays below its root, in its canonical spelling, without NUL."""
    parts = path.split("/")
    return bool(path) and not path.startswith("/") and not {"", ".", ".."}.intersection(parts) and "\x00" not in path


def document(
    run: str,
    attempt: int,
    at: str,
    entries: Iterable[FileRow],
    missing: Iterable[str],
    refused: Iterable[Dict[str, str]] = (),
    node: Optional[Dict[str, str]] = None,
    **found: Any,
) -> Manifest:
    """A manifest: {"schema","run","attempt","at","files","missing","refused","digest"}, "node" if given, and what was
    `found` besides: "earlier", "gone", "superseded" and "removed" of a manifest that covers every attempt.

    files: {"path","from","bytes","sha256","role"}, sorted by path; `role` is "output" (owed), "checkpoint" (owed until
    the run has succeeded) or "log"; `from` is the file's path below the run's root, and so names the attempt. The files
    of one checkpoint have its name as `set`. `stat`: [dev, inode, size, mtime_ns, ctime_ns] when the file was
    hashed; `changed`: true if it changed meanwhile. `sealed`: its sha256 at the end of its attempt,
    if it has changed since.
    missing: the globs without a match.   refused: {"path", "why"} of a match that is not brought home (a
    symlink out of the root, a device), or of what may hold matches and cannot be looked into (UNSEEN).
    node: the machine that made it (`wire.machine`).
    earlier: rows like those of `files`, newest first: substitutes if a row of `files` does not load.
    gone: {"path","bytes","sha256"} of files sealed as owed that no longer exist.
    superseded: how many files of other attempts a successful one replaced.
    unnamed: {"path","bytes","mtime_ns"} of what loads by its form, was made by the run, and that no output names.
    removed: how many sealed files a later attempt removed while it ran, from places that attempts share.
    `digest`: see `digest_of`.
    """
    fields: Any = {
        "schema": SCHEMA,
        "run": run,
        "attempt": attempt,
        "at": at,
        "files": sorted(entries, key=lambda e: str(e["path"])),
        "missing": sorted(missing),
        "refused": sorted(refused, key=lambda e: e["path"]),
        **found,
        **({"node": node} if node else {}),
    }
    whole: Manifest = fields
    whole["digest"] = digest_of(whole)
    return whole


def digest_of(document: Manifest) -> str:
    """The digest of a manifest, from its rows: of the content alone (paths, bytes, hashes, roles), not of times.

    That of `files` (`roster_digest`) if `earlier` and `gone` are empty, else one of all three. The receiver of a
    manifest computes it. Raises: KeyError, TypeError for invalid rows.
    """
    files, earlier, gone = document.get("files") or (), document.get("earlier") or (), document.get("gone") or ()
    if not earlier and not gone:
        return roster_digest(files)
    return names.digest([_rows(files), _rows(earlier), sorted([e["path"], e["bytes"], e["sha256"]] for e in gone)])


def is_of_every_attempt(document: Manifest) -> bool:
    """Whether it covers every attempt. One sealed by an earlier keeper is complete only for its own attempt."""
    return "superseded" in document


def roster_digest(files: Iterable[FileRow]) -> str:
    """The digest of a roster: of [path, bytes, sha256, role] rows sorted by path."""
    return names.digest(_rows(files))


def _rows(files: Iterable[FileRow]) -> List[List[Any]]:
    return sorted([e["path"], e["bytes"], e["sha256"], e.get("role", "output")] for e in files)


def differences(ours: Iterable[FileRow], theirs: Iterable[FileRow]) -> List[Tuple[str, str]]:
    """(path, what) of every difference, sorted: "missing" (not in ours), "unexpected" (not in theirs), "differs"."""
    a = {e["path"]: (e["bytes"], e["sha256"]) for e in ours}
    b = {e["path"]: (e["bytes"], e["sha256"]) for e in theirs}
    out = [(p, "missing") for p in b if p not in a]
    out += [(p, "unexpected") for p in a if p not in b]
    out += [(p, "differs") for p in a if p in b and a[p] != b[p]]
    return sorted(out)


def walk(root: str) -> List[str]:
    """Relative paths of all regular files below `root`, sorted; no links, devices or sockets. Raises: OSError."""

    def fail(error: OSError) -> None:
        raise error  # an unreadable folder must not look like an empty one

    out = []
    for folder, subfolders, files in os.walk(root, onerror=fail):
        subfolders[:] = [d for d in subfolders if not os.path.islink(os.path.join(folder, d))]
        for name in files:
            full = os.path.join(folder, name)
            if os.path.isfile(full) and not os.path.islink(full):
                out.append(os.path.relpath(full, root))
    return sorted(out)
