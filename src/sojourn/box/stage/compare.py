"""What of a source is already on the fast disk: under the target's name, or in an unfinished copy."""

from __future__ import annotations

import os

from sojourn.box.stage import listing, records, transfer
from sojourn.box.stage.listing import Row, at
from sojourn.box.stage.pool import Pool
from sojourn.box.stage.records import Copied, Work

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Tuple


class Plan:
    """How to make a tree of `rows`. `linked`: files that stand whole under the target's name; `there`: whole in the
    unfinished copy; `begun`: large ones, partly there; `wanted`: to be copied, begun ones included.
    """

    def __init__(self, rows: Dict[str, Row]) -> None:
        self.rows = rows
        self.linked: Dict[str, Copied] = {}
        self.there: Dict[str, Copied] = {}
        self.begun: List[str] = []
        self.wanted: List[Row] = []


def make_plan(
    work: Work,
    source: str,
    rows: Dict[str, Row],
    old: Dict[str, Copied],
    copied: Dict[str, Copied],
    pool: Pool,
    rehash: bool,
) -> Plan:
    """Compare sizes and times with those at which contents were proven; hash again only what differs in them.

    `old`: of what stands under the target's name; `copied`: of the unfinished copy. `rehash`: read both sides whole.
    Raises: OSError.
    """
    plan = Plan(rows)
    files = [row for row in rows.values() if row.kind == "f"]

    def look(row: Row) -> None:
        kept = _kept(work, source, row, old.get(row.path), pool, rehash)
        if kept is not None:
            plan.linked[row.path] = kept
        pool.done(1, 0, row.path)

    pool.each(files, look, is_near=not rehash)
    for row in files:
        half = copied.get(row.path)
        if row.path in plan.linked:
            continue
        is_same = half is not None and listing.same_source(half.row, row)
        if half is not None and is_same and half.sha256 and transfer.is_as_left(at(work.tree, row.path), half):
            plan.there[row.path] = half
            continue
        if half is not None and is_same and not half.sha256:
            plan.begun.append(row.path)
        plan.wanted.append(row)
    return plan


def _kept(work: Work, source: str, row: Row, known: Copied | None, pool: Pool, rehash: bool) -> Copied | None:
    """The record of a file that stands under the target's name as the source has it; None if it must be copied."""
    full = at(work.target, row.path)
    if known is None or not known.sha256 or known.row.kind != "f":
        return None
    if not rehash:
        if not listing.same_source(known.row, row):
            return None
        if transfer.is_as_left(full, known):
            return known._replace(row=row)
    elif (
        known.row.size != row.size
        or known.row.mode != row.mode
        or _hash(at(source, row.path), row.size, pool) != known.sha256
    ):
        return None
    if _hash(full, row.size, pool) != known.sha256:
        return None
    return transfer.copied(row, known.sha256, os.lstat(full))


def _hash(full: str, size: int, pool: Pool) -> str:
    try:
        return transfer.sha256_from_disk(full, size, lambda count: pool.done(0, count))
    except OSError:
        return ""


def is_whole(work: Work, plan: Plan, old: Dict[str, Copied]) -> bool:
    """Whether what stands under the target's name is the source, entry by entry."""
    if plan.wanted or plan.there or set(old) != set(plan.rows):
        return False
    for path, row in plan.rows.items():
        full = at(work.target, path)
        if row.kind == "f":
            continue
        if not listing.same_source(old[path].row, row):
            return False
        if row.kind == "l" and (not os.path.islink(full) or os.readlink(full) != row.target):
            return False
        if row.kind == "d" and (os.path.islink(full) or not os.path.isdir(full)):
            return False
    return True


def strangers(root: str, old: Dict[str, Copied]) -> List[str]:
    """What lies in a published tree and is not what `stage` put there: added by others, or edited. Raises: OSError.

    A file with the recorded size and time is not read: damage on the disk is nobody's edit.
    """
    if not os.path.lexists(root):
        return []
    found = listing.walk(root, strict=False)
    added = [path for path in (*found.rows, *(path for path, _ in found.left_out)) if path not in old]
    return added + [path for path, row in found.rows.items() if path in old and _is_edited(root, row, old[path])]


def _is_edited(root: str, now: Row, known: Copied) -> bool:
    was = known.row
    if now.kind != was.kind or now.kind == "l":
        return (now.kind, now.target) != (was.kind, was.target)
    if now.kind == "d" or (now.size, now.mtime_ns) == (was.size, known.mtime_ns):
        return False
    return (
        now.size != was.size or transfer.sha256_from_disk(at(root, now.path), now.size, lambda _: None) != known.sha256
    )


def differences(before: Dict[str, Row], after: Dict[str, Row]) -> List[Tuple[str, str]]:
    """(path, what) that happened to the source between two looks."""
    found = [(path, "it was removed") for path in before if path not in after]
    found += [(path, "it appeared") for path in after if path not in before]
    for path, row in before.items():
        if path in after and not listing.same_source(row, after[path]):
            found.append((path, "it changed"))
    return sorted(found)


def read_journal(work: Work, boot: str) -> Dict[str, Copied]:
    """What an interrupted call left in the unfinished copy. Parts from before a restart of the machine are removed.

    Raises: OSError.
    """
    head, copied = records.read_copied(work.copied)
    if head.get("boot") == boot:
        return copied
    for path in [path for path, one in copied.items() if not one.sha256]:
        del copied[path]
        if os.path.lexists(at(work.tree, path)):
            os.unlink(at(work.tree, path))
    return copied
