"""The folder beside a staged tree that says what is in it, and how far an unfinished copy is.

`.NAME.sojourn-stage` beside NAME: `tree` (the unfinished copy), `copied.jsonl` (a line per file complete in it),
`index.jsonl` (what was proven of NAME), and the job, progress, end, lock and log of the process that copies.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time

from sojourn.box.run import locks
from sojourn.box.stage import listing
from sojourn.wire import atomic, lean_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, NamedTuple, Tuple

    from sojourn.box.stage.listing import Row

    class Copied(NamedTuple):
        """A file's copy. `row`: of the source when it was read; the rest: of the copy."""

        row: Row
        sha256: str
        inode: int
        mtime_ns: int
        ctime_ns: int

else:
    from collections import namedtuple

    Copied = namedtuple("Copied", "row sha256 inode mtime_ns ctime_ns")

SCHEMA = "sojourn/staged/v1"
_SAY_S = 0.5


class Work:
    """The paths of one target, and its small records."""

    def __init__(self, target: str) -> None:
        self.target = target
        parent, name = os.path.split(target)
        self.path = os.path.join(parent, ".%s.sojourn-stage" % name)
        self.tree = self.under("tree")
        self.old = self.under("old")
        self.index = self.under("index.jsonl")
        self.next_index = self.under("next.jsonl")
        self.copied = self.under("copied.jsonl")

    def under(self, name: str) -> str:
        """A path in the folder."""
        return os.path.join(self.path, name)

    def read(self, name: str) -> Dict[str, Any]:
        """A small document, {} where there is none. Raises: OSError."""
        try:
            found = atomic.read_json(self.under(name))
        except NotADirectoryError:
            return {}
        return found if isinstance(found, dict) else {}

    def write(self, name: str, value: Dict[str, Any], *, durable: bool = False) -> None:
        """Replace a small document. Raises: OSError."""
        text = lean_json.dumps(value, sort_keys=True, ensure_ascii=True) + "\n"
        atomic.write(self.under(name), text.encode("ascii"), durable=durable, mode=0o600)

    def lock(self) -> int | None:
        """A descriptor that holds the target until the last process that has it ends; None while another has it."""
        fd = os.open(self.under("lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            return None
        return fd

    def is_held(self) -> bool:
        """Whether a process copies there now."""
        return locks.is_taken(self.under("lock"))


class Progress:
    """What the client is shown meanwhile; written about twice a second."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._written_s = 0.0
        self.value: Dict[str, Any] = {}
        self.begin("reading the source")

    def begin(self, phase: str, files: int = 0, size_bytes: int = 0) -> None:
        """The next part of the work, with what there is to do in it; 0 if unknown."""
        self.value = {
            "phase": phase,
            "files": 0,
            "bytes": 0,
            "total_files": files,
            "total_bytes": size_bytes,
            "name": "",
        }
        self._written_s = 0.0
        self.tell()

    def add(self, files: int = 0, size_bytes: int = 0, name: str = "") -> None:
        """So much of it is done. Only one thread at a time."""
        self.value["files"] += files
        self.value["bytes"] += size_bytes
        self.value["name"] = name or self.value["name"]

    def tell(self) -> None:
        """Write it if that is due. Progress that cannot be written (a full disk) stops nothing."""
        if time.monotonic() - self._written_s < _SAY_S:
            return
        self._written_s = time.monotonic()
        try:
            self._work.write("progress.json", self.value)
        except OSError:
            return


def line(one: Copied) -> bytes:
    """A copy as a line of a record."""
    text = lean_json.dumps([list(one.row), one.sha256, one.inode, one.mtime_ns, one.ctime_ns], ensure_ascii=True)
    return text.encode("ascii") + b"\n"


def read_copied(path: str) -> Tuple[Dict[str, Any], Dict[str, Copied]]:
    """The head of a record ({} without one), and its copies by path; later lines win, a torn one is skipped.

    Raises: OSError.
    """
    head: Dict[str, Any] = {}
    found: Dict[str, Copied] = {}
    try:
        with open(path, "rb") as file:
            for text in file:
                try:
                    value = lean_json.loads(text.decode("ascii"))
                    if isinstance(value, dict):
                        head = value
                    elif text.endswith(b"\n"):
                        row = listing.Row(*value[0])
                        found[row.path] = Copied(row, *value[1:])
                except (ValueError, TypeError, IndexError):
                    continue
    except (FileNotFoundError, NotADirectoryError):
        return {}, {}
    return head, found


def write_index(path: str, head: Dict[str, Any], copies: Iterable[Copied]) -> None:
    """Replace an index, durably. Raises: OSError."""
    aside = path + ".tmp"
    with open(aside, "wb") as file:
        file.write(lean_json.dumps(dict(head, schema=SCHEMA), ensure_ascii=True).encode("ascii") + b"\n")
        file.writelines(line(one) for one in copies)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)
    atomic.sync_folder(os.path.dirname(path))


def is_published(work: Work) -> bool:
    """Whether `stage` put there what stands under the target's name. Reads only heads. Raises: OSError."""
    try:
        status = os.lstat(work.target)
    except FileNotFoundError:
        return False
    heads = (_head(path) for path in (work.index, work.next_index))
    return any(head.get("schema") == SCHEMA and head.get("root") == [status.st_dev, status.st_ino] for head in heads)


def _head(path: str) -> Dict[str, Any]:
    try:
        with open(path, "rb") as file:
            found = lean_json.loads(file.readline().decode("ascii"))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def published(work: Work) -> Tuple[Dict[str, Any], Dict[str, Copied]] | None:
    """The index of what stands under the target's name; None if `stage` did not put it there. Raises: OSError."""
    try:
        status = os.lstat(work.target)
    except FileNotFoundError:
        return None
    for path in (work.index, work.next_index):  # the second: killed between the rename and its record
        head, copies = read_copied(path)
        if head.get("schema") == SCHEMA and head.get("root") == [status.st_dev, status.st_ino]:
            if path == work.next_index:
                os.replace(path, work.index)
            return head, copies
    return None


def digest(rows: Iterable[Row], copies: Dict[str, Copied]) -> str:
    """The SHA-256 of what a tree holds: names, contents, targets of links, and whether a file is executable.

    Not `names.digest`: a file name need not be UTF-8.
    """
    found = hashlib.sha256()
    for row in rows:
        value = [
            row.path,
            row.kind,
            row.size,
            copies[row.path].sha256,
            row.target,
            row.kind == "f" and row.mode & 0o100,
        ]
        found.update(lean_json.dumps(value, ensure_ascii=True).encode("ascii") + b"\n")
    return found.hexdigest()
