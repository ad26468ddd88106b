"""The tree under its final name: at once, whole, and with the record of what was proven."""

from __future__ import annotations

import errno
import os
import shutil

from sojourn.box.stage import compare, records
from sojourn.box.stage.listing import Row, at
from sojourn.box.stage.records import Copied, Work
from sojourn.wire import atomic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Iterable, List

_AT_FDCWD = -100
_EXCHANGE = 2  # linux/fs.h, RENAME_EXCHANGE


class Taken(Exception):
    """What stood under the target's name holds this path, which others put or changed there; it stands there again."""


def finish_folders(work: Work, rows: Iterable[Row]) -> None:
    """Give the folders of the unfinished tree their modes and times, inner ones first. Raises: OSError."""
    for row in reversed([row for row in rows if row.kind == "d"]):
        os.chmod(at(work.tree, row.path), row.mode | 0o700)
        os.utime(at(work.tree, row.path), ns=(row.mtime_ns, row.mtime_ns))


def publish(
    work: Work, source: str, rows: Dict[str, Row], copies: Dict[str, Copied], old: Dict[str, Copied], made_at: str
) -> str:
    """Give the finished, durable tree its name; returns its digest. What stood there before, with the record `old`, is
    removed afterwards.

    Raises: Taken; OSError; then either the old or the new one stands there, whole.
    """
    whole = {path: copies.get(path) or Copied(row, "", 0, 0, 0) for path, row in rows.items()}
    found = records.digest(rows.values(), whole)
    status = os.lstat(work.tree)
    head = {"source": source, "root": [status.st_dev, status.st_ino], "digest": found, "at": made_at}
    records.write_index(work.next_index, head, whole.values())
    strangers = _rename(work, old)
    if strangers:
        os.unlink(work.next_index)
        raise Taken(strangers[0])
    atomic.sync_folder(os.path.dirname(work.target))
    os.replace(work.next_index, work.index)
    is_update = os.path.lexists(work.tree) or os.path.lexists(work.old)
    tidy(work)
    if is_update:  # removing the other names of kept files changed their ctime
        records.write_index(work.index, head, [_again(work, one) for one in whole.values()])
    return found


def tidy(work: Work) -> None:
    """Remove an unfinished or replaced tree. Raises: OSError."""
    for path in (work.tree, work.old):
        remove(path)
    for path in (work.copied, work.next_index):
        if os.path.lexists(path):
            os.unlink(path)


def remove(path: str) -> None:
    """A file, link or folder, if it is there. Raises: OSError."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def _again(work: Work, one: Copied) -> Copied:
    if one.row.kind != "f":
        return one
    status = os.lstat(at(work.target, one.row.path))
    if (status.st_ino, status.st_size, status.st_mtime_ns) != (one.inode, one.row.size, one.mtime_ns):
        return one
    return one._replace(ctime_ns=status.st_ctime_ns)


def _rename(work: Work, old: Dict[str, Copied]) -> List[str]:
    """`tree` to the target. A folder that stands there is exchanged for it; an empty one may just be replaced.

    What others put into it at the last moment, by path; then the target is as it was. Raises: OSError.
    """
    both_folders = os.path.isdir(work.tree) and os.path.isdir(work.target)
    if not os.path.lexists(work.target) or (both_folders and not os.listdir(work.target)):
        os.rename(work.tree, work.target)
        return []
    if _exchange(work.tree, work.target):
        found = compare.strangers(work.tree, old)
        if found and not _exchange(work.tree, work.target):
            raise OSError(errno.EIO, "cannot put back what stood there: it is in %s" % work.tree)
        return found
    os.rename(work.target, work.old)
    found = compare.strangers(work.old, old)
    os.rename(work.old if found else work.tree, work.target)
    return found


def _exchange(one: str, other: str) -> bool:
    """Swap two names at once; False where the system cannot."""
    try:
        import ctypes

        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (ImportError, OSError, AttributeError):
        return False
    return bool(call(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _EXCHANGE) == 0)
