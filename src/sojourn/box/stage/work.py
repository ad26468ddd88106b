"""The process that copies: a tree from slow storage to a fast disk, proven there, and only then under its name.

It is started by the op `stage`, needs no line to the client, and leaves `end.json` when it is done. Killed at any
point, the same request continues: files that are complete are kept, a large one continues where it ended.
"""

from __future__ import annotations

import errno
import os
import sys
import time

from sojourn.box.stage import compare, listing, publish, records, transfer
from sojourn.box.stage.listing import BLOCK_BYTES, Row, at
from sojourn.box.stage.pool import Pool
from sojourn.box.stage.records import Copied, Progress, Work
from sojourn.box.system import disk, machine
from sojourn.wire import lean_json, syncing, units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

_LARGE_BYTES = 64 << 20  # from here on a file continues where it was cut
_ROUNDS = 3  # that a source may change in
_SHOWN = 200  # of a long list
_RESERVE_BYTES = 64 << 10  # given up to write the end on a full disk
_ENTRY_BYTES = 16  # of a folder, for a name in it, beside the name
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Ended(Exception):
    """The work is over without a whole tree. `what`: no-room, incomplete, changing or taken."""

    def __init__(self, what: str, problems: List[Tuple[str, str]], **more: Any) -> None:
        super().__init__(what)
        self.what, self.problems, self.more = what, problems, more


def main(argv: List[str]) -> int:
    """`stage TARGET`: the job that its records name. The lock is inherited. Exit status 0 if `end.json` was written."""
    work = Work(argv[0])
    job = work.read("job.json")
    began_s = time.monotonic()
    try:
        _reserve(work)
        end = _Staging(work, job).run()
    except Ended as over:
        end = {"what": over.what, "problems": over.problems, **over.more}
    except OSError as error:
        end = _failed(work, error)
    except Exception as error:  # noqa: BLE001 - ours; the traceback is in the log, and the client is told
        import traceback

        traceback.print_exc()
        end = {"what": "failed", "message": "%s: %s" % (type(error).__name__, error)}
    for key in ("problems", "left_out"):
        rows = end.get(key) or []
        end[key + "_count"] = len(rows)
        end[key] = [{"path": path, "why": why} for path, why in rows[:_SHOWN]]
    end.update(token=job.get("token"), seconds=round(time.monotonic() - began_s, 3))
    publish.remove(work.under("reserve"))
    work.write("end.json", end, durable=True)
    return 0


def _reserve(work: Work) -> None:
    with open(work.under("reserve"), "wb") as file:
        file.write(bytes(_RESERVE_BYTES))


def _failed(work: Work, error: OSError) -> Dict[str, Any]:
    """The end by an error of the fast disk. A full one may be starving others: the unfinished copy is removed."""
    if error.errno in _FULL:
        publish.tidy(work)
        return {"what": "no-room", "message": error.strerror or "", "room": disk.room(work.path) or {}}
    sys.stderr.write("%s\n" % error)
    return {"what": "failed", "message": str(error)}


class _Staging:
    """One job."""

    def __init__(self, work: Work, job: Dict[str, Any]) -> None:
        self.work = work
        self.source = str(job["source"])
        self.rehash = bool(job.get("rehash"))
        self.progress = Progress(work)
        self.pool = Pool(int(job.get("streams") or 1), self.progress)
        self.copied_files = self.copied_bytes = 0
        self.left_out: List[Tuple[str, str]] = []
        self._journal = -1
        self._damaged: Dict[str, int] = {}

    def run(self) -> Dict[str, Any]:
        """Raises: Ended; OSError of the fast disk."""
        had_next = os.path.lexists(self.work.next_index)
        old = (records.published(self.work) or ({}, {}))[1]
        if had_next and old and not os.path.lexists(self.work.next_index):
            publish.tidy(self.work)  # killed just after it had its name
        rows = self._look()
        changed: List[Tuple[str, str]] = []
        for _ in range(_ROUNDS):
            copied = compare.read_journal(self.work, machine.boot_id())
            self.progress.begin("comparing", sum(row.kind == "f" for row in rows.values()))
            plan = compare.make_plan(self.work, self.source, rows, old, copied, self.pool, self.rehash)
            self._check_strangers(old)
            if old and compare.is_whole(self.work, plan, old):
                return self._unchanged(plan, old)
            copies, changed = self._copy(plan)
            after = self._look()
            changed += compare.differences(rows, after)
            if not changed:
                self._check_still_ours(old)
                return self._publish(rows, copies, old, len(plan.linked) + len(plan.there))
            rows = after
        raise Ended("changing", sorted(set(changed)))

    def _check_strangers(self, old: Dict[str, Copied]) -> None:
        found = compare.strangers(self.work.target, old) if old else []
        if found:
            raise Ended("taken", [], message=found[0])

    def _check_still_ours(self, old: Dict[str, Copied]) -> None:
        """Raises: Ended if others put something under the target's name while the tree was copied."""
        target = self.work.target
        if records.is_published(self.work):
            self._check_strangers(old)
        elif os.path.lexists(target) and not (os.path.isdir(target) and not os.listdir(target)):
            raise Ended("taken", [], message=os.path.basename(target))

    def _look(self) -> Dict[str, Row]:
        self.progress.begin("reading the source")

        def tick(folder: str) -> None:
            self.progress.add(0, 0, folder)
            self.progress.tell()

        try:
            found = listing.walk(self.source, tick)
        except OSError as error:
            raise Ended("incomplete", [(".", error.strerror or str(error))]) from error
        if found.problems:
            raise Ended("incomplete", found.problems)
        self.left_out = found.left_out
        return found.rows

    def _unchanged(self, plan: compare.Plan, old: Dict[str, Copied]) -> Dict[str, Any]:
        head, _ = records.read_copied(self.work.index)
        if any(old[path] != one for path, one in plan.linked.items()):
            records.write_index(self.work.index, head, [plan.linked.get(path) or old[path] for path in plan.rows])
        publish.tidy(self.work)
        return dict(self._told(plan.rows), what="unchanged", digest=head["digest"], kept_files=len(plan.linked))

    def _publish(
        self, rows: Dict[str, Row], copies: Dict[str, Copied], old: Dict[str, Copied], kept: int
    ) -> Dict[str, Any]:
        self.progress.begin("naming it")
        made_at = units.stamp(time.time())
        try:
            digest = publish.publish(self.work, self.source, rows, copies, old, made_at)
        except publish.Taken as taken:
            raise Ended("taken", [], message=str(taken)) from taken
        return dict(self._told(rows), what="staged", digest=digest, kept_files=kept)

    def _told(self, rows: Dict[str, Row]) -> Dict[str, Any]:
        return {
            "files": sum(row.kind == "f" for row in rows.values()),
            "bytes": sum(row.size for row in rows.values()),
            "copied_files": self.copied_files,
            "copied_bytes": self.copied_bytes,
            "left_out": self.left_out,
            "room": disk.room(self.work.path) or {},
        }

    def _copy(self, plan: compare.Plan) -> Tuple[Dict[str, Copied], List[Tuple[str, str]]]:
        """Make the tree: the record of each copy, read back from the disk; and what changed meanwhile.

        Raises: Ended; OSError.
        """
        self._clear(plan)
        self._check_room(plan)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._journal = os.open(self.work.copied, flags, 0o600)
        try:
            self._note(lean_json.dumps({"boot": machine.boot_id()}).encode("ascii") + b"\n")
            self._make_folders(plan)
            copies, problems, changed = self._fill(plan)
            if problems:
                raise Ended("incomplete", problems)
            self.progress.begin("writing it to the disk")
            self._sync(plan.rows)
            changed += self._read_back(plan, copies)
            if not changed:
                publish.finish_folders(self.work, plan.rows.values())
                self._sync(plan.rows)
            return copies, changed
        finally:
            os.close(self._journal)

    def _clear(self, plan: compare.Plan) -> None:
        """Remove from the unfinished tree what does not belong in it."""
        if not os.path.lexists(self.work.tree):
            return
        there = listing.walk(self.work.tree, strict=False)
        for path, row in there.rows.items():
            wanted = plan.rows.get(path)
            half_there = path in plan.there or path in plan.begun or path in plan.linked
            if wanted is None or wanted.kind != row.kind or (row.kind != "d" and not half_there):
                publish.remove(at(self.work.tree, path))
            elif row.kind == "d":
                os.chmod(at(self.work.tree, path), 0o700)

    def _check_room(self, plan: compare.Plan) -> None:
        room = disk.room(self.work.path)
        new = [
            row for row in plan.rows.values() if row.kind != "f" and not os.path.lexists(at(self.work.tree, row.path))
        ]
        need_bytes = sum(row.need_bytes for row in plan.wanted) + BLOCK_BYTES * len(new)
        need_bytes += sum(len(row.path) - row.path.rfind("/") + _ENTRY_BYTES for row in (*plan.wanted, *new))
        for path in plan.begun:
            if os.path.exists(at(self.work.tree, path)):
                need_bytes -= os.stat(at(self.work.tree, path)).st_blocks * 512
        need_inodes = len(plan.wanted) - len(plan.begun) + len(new)
        if room is None:
            return
        is_short = need_bytes > room["free_bytes"] - _RESERVE_BYTES
        if is_short or (room["total_inodes"] and need_inodes > room["free_inodes"] - 8):
            raise Ended("no-room", [], need_bytes=need_bytes, need_inodes=need_inodes, room=room)

    def _make_folders(self, plan: compare.Plan) -> None:
        for row in plan.rows.values():  # sorted: outer ones first
            full = at(self.work.tree, row.path)
            if row.kind == "d" and not os.path.isdir(full):
                os.mkdir(full, 0o700)
            elif row.kind == "l":
                publish.remove(full)
                os.symlink(row.target, full)

    def _fill(self, plan: compare.Plan) -> Tuple[Dict[str, Copied], List[Tuple[str, str]], List[Tuple[str, str]]]:
        """(copies, problems, changed). Raises: OSError of the fast disk."""
        copies = dict(plan.there)
        problems: List[Tuple[str, str]] = []
        changed: List[Tuple[str, str]] = []
        begun = set(plan.begun)

        def link(one: Copied) -> None:
            full, whole = at(self.work.tree, one.row.path), at(self.work.target, one.row.path)
            if os.path.lexists(full) and not os.path.samestat(os.lstat(full), os.lstat(whole)):
                publish.remove(full)  # an interrupted call's, of another source or another state of it
            if not os.path.lexists(full):
                os.link(whole, full, follow_symlinks=False)
            copies[one.row.path] = plan.linked[one.row.path] = transfer.copied(one.row, one.sha256, os.lstat(full))

        def fetch(row: Row) -> None:
            if row.size >= _LARGE_BYTES and row.path not in begun:
                self._note(records.line(Copied(row, "", 0, 0, 0)))
            try:
                done = transfer.copy(
                    self.source,
                    self.work.tree,
                    row,
                    lambda count: self.pool.done(0, count),
                    from_there=row.path in begun,
                )
            except transfer.SourceTrouble as trouble:
                (changed if trouble.is_changed else problems).append((row.path, str(trouble)))
                return
            self._note(records.line(done))
            copies[row.path] = done
            with self.pool.lock:
                self.copied_files, self.copied_bytes = self.copied_files + 1, self.copied_bytes + row.size
            self.pool.done(1, 0, row.path)

        try:
            for one in list(plan.linked.values()):
                link(one)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.EXDEV):
                raise
            left = [one.row for path, one in plan.linked.items() if path not in copies]
            plan.wanted += left  # a file system without hard links
            for row in left:
                del plan.linked[row.path]
        # The largest first: none of them is begun when all else is done.
        wanted = sorted(plan.wanted, key=lambda row: -row.size)
        self.progress.begin("copying", len(wanted), sum(row.size for row in wanted))
        self.pool.each(wanted, fetch)
        return copies, sorted(problems), changed

    def _read_back(self, plan: compare.Plan, copies: Dict[str, Copied]) -> List[Tuple[str, str]]:
        """Compare what is on the disk with what was read; files that differ are copied once more, by another round.

        Raises: Ended if one differs twice; OSError.
        """
        new = [one for path, one in copies.items() if path not in plan.linked]
        self.progress.begin("verifying", len(new), sum(one.row.size for one in new))
        damaged: List[Tuple[str, str]] = []

        def read(one: Copied) -> None:
            full = at(self.work.tree, one.row.path)
            found = transfer.sha256_from_disk(full, one.row.size, lambda count: self.pool.done(0, count))
            if found != one.sha256:
                os.unlink(full)
                damaged.append((one.row.path, "it does not read back as it was written: the fast disk loses data"))
            self.pool.done(1, 0, one.row.path)

        self.pool.each(new, read, is_near=True)
        for path, _ in damaged:
            self._damaged[path] = self._damaged.get(path, 0) + 1
        if any(count > 1 for count in self._damaged.values()):
            raise Ended("incomplete", sorted(damaged))
        return damaged

    def _sync(self, rows: Dict[str, Row]) -> None:
        files = [at(self.work.tree, row.path) for row in rows.values() if row.kind == "f"]
        files = [path for path in files if os.path.exists(path)]
        folders = [at(self.work.tree, row.path) for row in rows.values() if row.kind == "d"]
        syncing.sync(files, folders or [self.work.path], is_one_disk=True)

    def _note(self, data: bytes) -> None:
        os.write(self._journal, data)
