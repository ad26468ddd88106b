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
_CHUNK = 1 << 20


def sha256_file(path: str, *, follow: bool = True, tick: Optional[Callable[[int], None]] = None) -> Tuple[int, str]:
    """(bytes, sha256 hex) of the regular file at `path`, read once, up to the size it has when it is opened: what is
    appended meanwhile is not waited for. Without `follow` a symlink is refused. `tick` is told how many bytes were
    read, about every MiB. Never waits for a writer of a pipe. Raises: OSError, also for all that is no regular file.
    """
    _check_kind(os.stat(path).st_mode, path)  # opening a device alone may do something
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
    """(bytes, sha256 hex) of the rest of an unbuffered binary stream, of `limit_bytes` of it at most. `tick`: see
    `sha256_file`. Raises: OSError."""
    total, h = 0, hashlib.sha256()
    buffer = bytearray(_CHUNK)
    view = memoryview(buffer)
    while limit_bytes is None or total < limit_bytes:
        count = stream.readinto(buffer if limit_bytes is None else view[: min(_CHUNK, limit_bytes - total)])
        if not count:
            break
        total += count
        h.update(view[:count])
        if tick:
            tick(count)
    return total, h.hexdigest()


def is_digest(value: Any) -> bool:
    """True for 64 lowercase hexadecimal digits: what a SHA-256 looks like, and nothing that could name a path."""
    return isinstance(value, str) and len(value) == 64 and not value.strip("0123456789abcdef")


def is_safe(path: str) -> bool:
    """True where `path` is a relative path with `/` that stays below its root, in its one spelling, without NUL."""
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
    """A manifest: {"schema","run","attempt","at","files","missing","refused","digest"}, "node" where that is given, and
    what was `found` beside: "earlier", "gone" and "superseded" of a manifest that looked at every attempt.

    files: {"path","from","bytes","sha256","role"}, sorted by path; `role` is "output" (owed), "checkpoint" (owed until
    the run has succeeded) or "log"; `from` is the file's path below the run's root, and so names the attempt. The files
    of one checkpoint have its name as `set`. `stat`: [dev, inode, size, mtime_ns, ctime_ns] as it was when the file was
    hashed; `changed`: true where it changed meanwhile. `sealed`: the sha256 that it had at the end of its attempt,
    where it was changed since.
    missing: the globs that hit nothing.   refused: {"path", "why"} of what a glob hit and what is not taken home (a
    symlink out of the root, a device).   node: the machine that made it (`wire.machine`).
    earlier: rows like those of `files`, newest first: what stands in where a row of `files` turns out not to load.
    gone: {"path","bytes","sha256"} of what was sealed as owed and is nowhere any more.
    superseded: how many files of other attempts a succeeded one has replaced.
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
    """The digest of a manifest as its rows say it: of the content alone (paths, bytes, hashes, roles), not of times.

    That of `files` (`roster_digest`) where there is nothing in `earlier` and `gone`, else one of all three. Whoever
    gets a manifest from elsewhere computes it. Raises: KeyError, TypeError where a row is none.
    """
    files, earlier, gone = document.get("files") or (), document.get("earlier") or (), document.get("gone") or ()
    if not earlier and not gone:
        return roster_digest(files)
    return names.digest([_rows(files), _rows(earlier), sorted([e["path"], e["bytes"], e["sha256"]] for e in gone)])


def is_of_every_attempt(document: Manifest) -> bool:
    """Whether it looked at every attempt. One sealed by an earlier keeper is complete for its own attempt alone."""
    return "superseded" in document


def roster_digest(files: Iterable[FileRow]) -> str:
    """The digest of a roster: of [path, bytes, sha256, role] rows sorted by path."""
    return names.digest(_rows(files))


def _rows(files: Iterable[FileRow]) -> List[List[Any]]:
    return sorted([e["path"], e["bytes"], e["sha256"], e.get("role", "output")] for e in files)


def differences(ours: Iterable[FileRow], theirs: Iterable[FileRow]) -> List[Tuple[str, str]]:
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
