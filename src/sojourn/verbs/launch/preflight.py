"""What can be judged before anything is pushed: resources, bash, room for the copy. Pure; the box's hello is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sojourn.core.need import Need, lacks
from sojourn.core.values import Evidence, Finding
from sojourn.wire import units

if TYPE_CHECKING:
    from sojourn.store.snapshot import Snapshot
    from sojourn.wire.documents import Hello


@dataclass(frozen=True)
class Room:
    """What pushing a job and the first attempt's working copy take on the box's disk."""

    bytes: int
    inodes: int
    copied_bytes: int  # of the working copy, where the disk cannot share blocks
    copied_inodes: int


# Beside the copy: events, logs and the first checkpoints.
SPARE_BYTES, SPARE_INODES = 64 << 20, 200


def room(trees: Sequence[tuple[str, Snapshot]], lacking: Set[str], *, packs: bool) -> Room:
    """The room for trees (what it is, snapshot), of which the box lacks some: snapshot, working copy, and a spare.

    A mount at an absolute path is read where it lies in its snapshot. `packs`: what is pushed first comes as a pack,
    over a way without streams.
    """
    new = {tree.digest: tree for _, tree in trees if tree.digest in lacking}.values()
    copied = [tree for what, tree in trees if not what.startswith("/")]
    pushed_bytes, copied_bytes = sum(tree.bytes for tree in new), sum(tree.bytes for tree in copied)
    inodes = sum(len(tree.rows) for tree in copied)
    total = (2 if packs else 1) * pushed_bytes + copied_bytes + SPARE_BYTES
    return Room(total, sum(len(tree.rows) for tree in new) + inodes + SPARE_INODES, copied_bytes, inodes)


# Of a cell that waits in a queue: its root and folders, run.json, events and logs.
CELL_BYTES, CELL_INODES = 1 << 20, 40


def room_for_cells(one: Room, cells: int) -> Room:
    """The room for several runs of one job, of which `one` is for the first: the code comes once, a copy for each."""
    more = max(0, cells - 1)
    return Room(
        one.bytes + more * (one.copied_bytes + CELL_BYTES),
        one.inodes + more * (one.copied_inodes + CELL_INODES),
        one.copied_bytes * cells,
        one.copied_inodes * cells,
    )


def check_need(hello: Hello, need: Need, takes: Room) -> tuple[Finding, ...]:
    """Findings about running a job there. Blockers are confirmed by what the box itself reported just now."""
    found = list(_resources(hello, need))
    if not hello.get("has", {}).get("bash", True):
        found.append(
            _blocker("no-bash", "the box has no bash", "`run` and `setup` are bash", "install bash", hello, "has.bash")
        )
    shared_bytes = takes.copied_bytes if hello.get("has", {}).get("reflinks") else 0
    found += _room(hello, takes.bytes - shared_bytes, takes.inodes)
    return tuple(found)


def base_disk(hello: Hello) -> Mapping[str, Any]:
    """The entry of the disk that BASE lies on, with its `path`; {} where the box could not say."""
    disks = hello.get("disks") or {}
    base = str(hello.get("base", ""))
    path = max((p for p in disks if base == p or base.startswith(p.rstrip("/") + "/")), key=len, default="")
    return {"path": path, **disks[path]} if path else {}


def _resources(hello: Hello, need: Need) -> Sequence[Finding]:
    disk = base_disk(hello)
    # What the box could not say is no reason to refuse it: it is taken as enough.
    enough = 1 << 62
    gpus = [str(gpu.get("name", "")) for gpu in hello.get("gpus") or ()]
    cgroup = hello.get("cgroup") or {}
    found = lacks(
        need,
        cpus=min(_number(hello.get("cpus"), enough), _number(cgroup.get("cpu_quota"), enough)),
        memory_bytes=int(
            min(_number(hello.get("memory_bytes"), enough), _number(cgroup.get("memory_limit_bytes"), enough))
        ),
        disk_free_bytes=int(_number(disk.get("free_bytes"), enough)),
        gpus=gpus,
    )
    fix = "use another site, or change `resources` in the job file"
    return [_blocker("resources-not-met", sentence, "the job file's `resources`", fix, hello, "") for sentence in found]


def _room(hello: Hello, need_bytes: int, need_inodes: int) -> Sequence[Finding]:
    disk = base_disk(hello)
    found: list[Finding] = []
    if not disk:
        return found
    seen: Hello = {**hello, "disks": {disk["path"]: hello["disks"][disk["path"]]}}  # the one that decides
    free_bytes, free_inodes = disk.get("free_bytes"), disk.get("free_inodes")
    if free_bytes is not None and free_bytes < need_bytes:
        title = (
            f"the run needs {units.say_bytes(need_bytes)}, and {disk['path']} has {units.say_bytes(free_bytes)} free"
        )
        fix = "free some room there, or set `base` of the site to a larger disk"
        found.append(_blocker("disk-too-small", title, "the code and its working copy do not fit", fix, seen, "disks"))
    # A file system without a fixed number of inodes (btrfs, some network ones) says 0 of 0.
    if free_inodes is not None and disk.get("total_inodes") and free_inodes < need_inodes:
        title = f"the run needs {need_inodes} files, and {disk['path']} has room for {free_inodes} more"
        fix = "remove files there (df -i), or set `base` of the site to another disk"
        found.append(
            _blocker("inodes-too-few", title, "a disk can run out of inodes while bytes are free", fix, seen, "disks")
        )
    return found


def _blocker(slug: str, title: str, cause: str, fix: str, hello: Hello, what: str) -> Finding:
    head = what.partition(".")[0]
    evidence = (Evidence(what, hello.get(head), "hello", str(hello.get("now", ""))),) if what else ()
    return Finding(slug, "confirmed", title, "blocker", cause, fix, evidence=evidence)


def _number(value: Any, unknown: float) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0 else unknown
