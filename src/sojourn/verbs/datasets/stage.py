"""`stage`: hot data to a fast disk of the box. A process there copies and proves it; this starts it, and watches.

The line may be cut, and this may end: the process goes on, and the identical call joins it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sojourn.backends.keeper.client import KeeperRefused
from sojourn.core.artifact import printable
from sojourn.core.values import NoAnswer
from sojourn.verbs.answers import document
from sojourn.verbs.context import CALL_S, Box, Context, unreachable
from sojourn.verbs.lasting import survival
from sojourn.verbs.moving import Patience, Progress
from sojourn.wire import quote, units
from sojourn.wire.errors import Misuse, WorldError

STREAMS = 8
MEMORY = ("tmpfs", "ramfs")  # file systems in RAM
_FIRST_S, _MOST_S = 0.1, 2.0  # between two looks
_STARTS = 3  # of one call: a process that is killed as often has a reason


class NoSource(Misuse):
    """{site}: {message}."""

    code = "no-source"


class BadTarget(Misuse):
    """{site}: {message}. Nothing was written."""

    code = "bad-target"
    next_step = "sojourn stage SRC ANOTHER-DST"


class NothingGained(Misuse):
    """{site}: {message}. A copy there would hardly be faster to read. Nothing was written."""

    code = "nothing-gained"
    next_step = "{again} --any-disk"


class StageElsewhere(Misuse):
    """{site} runs jobs on other machines, whose local disks are theirs alone: copy the data at the start of the job,
    with `cp -r` to "$SOJOURN_SCRATCH_DIR" in `run`.
    """

    code = "stage-elsewhere"


class NoRoom(WorldError):
    """{site}: {target} does not fit: it takes {need}, and {free} are free on {point}. {left}"""

    code = "no-room"
    retry = True


class StageBusy(WorldError):
    """{site}: {message}."""

    code = "stage-busy"
    retry = True


class StageFailed(WorldError):
    """{site}: copying to {target} ended: {why}. {target} itself is unchanged."""

    code = "stage-failed"
    retry = True


_REFUSED = {
    "no-source": NoSource,
    "bad-target": BadTarget,
    "same-disk": NothingGained,
    "far-disk": NothingGained,
    "stage-busy": StageBusy,
}


@dataclass(frozen=True)
class Staged:
    """What became of it. `what`: staged, unchanged, incomplete (files that cannot be read), changing (the source is
    written to), stopped, or idle (`--stop`, and nothing was going on). `problems`, `left_out`: {"path","why"}, the
    first 200 of as many as their counts say. `digest`: of names and contents. `mount`: {"point","kind","source"} of the
    target. `survives`: as in a plan.
    """

    site: str
    source: str
    target: str
    what: str
    files: int = 0
    bytes: int = 0
    copied_files: int = 0
    copied_bytes: int = 0
    kept_files: int = 0
    problems: tuple[Mapping[str, Any], ...] = ()
    problems_count: int = 0
    left_out: tuple[Mapping[str, Any], ...] = ()
    left_out_count: int = 0
    digest: str = ""
    mount: Mapping[str, Any] = field(default_factory=dict)
    room: Mapping[str, Any] = field(default_factory=dict)
    survives: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    next: str = ""
    exit_status: int = 0

    @property
    def ok(self) -> bool:
        """The target is the source, whole."""
        return self.what in ("staged", "unchanged")

    @property
    def is_in_memory(self) -> bool:
        """The target lies in RAM."""
        return self.mount.get("kind") in MEMORY

    def as_json(self) -> dict[str, Any]:
        """The `stage` document: the fields, `ok`, and `exit` for `exit_status`."""
        return document(self, "stage", without=("exit_status",), ok=self.ok, exit=self.exit_status)


def stage(
    ctx: Context,
    source: str,
    target: str,
    *,
    site: str = "",
    streams: int = STREAMS,
    rehash: bool = False,
    any_disk: bool = False,
) -> Staged:
    """Copy the folder or file `source` of the site's box to `target` there, and wait until it is proven whole.

    Paths are absolute or begin with ~; on this machine they may be relative. Idempotent: only what changed is copied,
    and `target` is replaced at once, or not at all. What an interrupted call copied is kept. May take hours.
    Raises: NoSource, BadTarget, NothingGained, StageElsewhere, NoRoom, StageBusy, StageFailed, Unreachable, WorldError.
    """
    box = _box(ctx, site)
    again = _again(source, target, site, rehash=rehash, any_disk=any_disk, streams=streams)
    fields = _fields(box, source, target)
    token = ctx.token()
    begin = {**fields, "act": "begin", "streams": streams, "rehash": rehash, "any_disk": any_disk}
    ctx.say(f"staging {printable(source)} on {box.machine}")
    found: Mapping[str, Any] = {}
    joined: Mapping[str, Any] = {}
    for _ in range(_STARTS):
        found = _watch(ctx, box, again, fields, _asked(box, again, begin, token))
        if found["state"] == "dead":
            continue
        if joined or found["token"] == token or not _is_whole(found):
            break
        joined = found  # it may have read the source before this call: look at that once more
    if joined and _is_whole(found) and found["end"]["what"] == "unchanged":
        found = joined
    if found["state"] != "ended":
        why = str(found.get("log") or "").strip().splitlines()[-1:] or ["the process was killed"]
        raise _with_next(StageFailed(site=box.machine, target=printable(found["target"]), why=why[0]), again)
    return _told(box, fields["source"], found, again)


def stop(ctx: Context, source: str, target: str, *, site: str = "") -> Staged:
    """End the process that copies there. What it copied is kept for the next call. Idempotent.

    Raises: BadTarget, StageElsewhere, Unreachable, WorldError.
    """
    box = _box(ctx, site)
    again = _again(source, target, site)
    fields = _fields(box, source, target)
    before = _asked(box, again, {**fields, "act": "look"}, "")
    after = _asked(box, again, {**fields, "act": "stop"}, "")
    if after["state"] == "running":
        raise StageBusy(
            site=box.machine, message=f"the process that copies to {printable(after['target'])} does not end"
        )
    what = "stopped" if before["state"] == "running" else "idle"
    return Staged(box.machine, fields["source"], after["target"], what, mount=after["mount"], next=again)


def _is_whole(found: Mapping[str, Any]) -> bool:
    return found["state"] == "ended" and found["end"]["what"] in ("staged", "unchanged")


def _box(ctx: Context, site: str) -> Box:
    box = ctx.box_of(site)
    if box.scheduler or box.is_blind:
        raise StageElsewhere(site=box.machine)
    return box


def _fields(box: Box, source: str, target: str) -> dict[str, str]:
    """The paths as the box takes them."""
    if box.site.transport == "local":
        source, target = (path if path.startswith("~") else os.path.abspath(path) for path in (source, target))
    return {"source": source, "target": target}


def _again(
    source: str, target: str, site: str, *, rehash: bool = False, any_disk: bool = False, streams: int = STREAMS
) -> str:
    """The identical command."""
    words = ["sojourn", "stage", printable(source), printable(target)]
    words += ["--site", site] if site else []
    words += ["--streams", str(streams)] if streams != STREAMS else []
    words += ["--rehash"] * rehash + ["--any-disk"] * any_disk
    return quote.join(words)


def _asked(box: Box, again: str, fields: Mapping[str, Any], token: str) -> Mapping[str, Any]:
    try:
        answer = box.ask("stage", token=token, **fields)
    except KeeperRefused as no:
        kind = _REFUSED.get(no.code)
        if kind is None:
            raise
        raise kind(site=box.machine, message=printable(no.value["message"]), again=again) from no
    if isinstance(answer, NoAnswer):
        raise _with_next(unreachable(box.site, answer), again)
    return answer.value


def _watch(
    ctx: Context, box: Box, again: str, fields: Mapping[str, str], found: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Look until the process has ended, over lines that are cut. Raises: Unreachable, WorldError."""
    patience = Patience(ctx.now_s, ctx.sleep)
    telling = _Telling(ctx)
    wait_s = _FIRST_S
    while found["state"] == "running":
        telling.tell(found.get("progress") or {})
        ctx.sleep(wait_s)
        wait_s = min(2 * wait_s, _MOST_S)
        answer = box.ask("stage", token=found["token"], act="look", timeout_s=CALL_S, **fields)
        if isinstance(answer, NoAnswer):
            if patience.is_over(answer):
                raise _with_next(unreachable(box.site, answer), again)
            ctx.say(f"{box.machine} does not answer ({answer.kind}); the copy there goes on by itself")
            continue
        patience.moved()
        found = answer.value
    return found


class _Telling:
    """The progress of the process over there, as a line about once a second."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._phase = ""
        self._bytes = 0
        self._progress: Progress | None = None

    def tell(self, progress: Mapping[str, Any]) -> None:
        phase, total_bytes = str(progress.get("phase") or ""), int(progress.get("total_bytes") or 0)
        files, total_files = int(progress.get("files") or 0), int(progress.get("total_files") or 0)
        name = printable(str(progress.get("name") or ""))
        counts = f"{files:,} of {total_files:,} files" if total_files else name
        if not total_bytes:
            self._ctx.say(f"{phase}: {counts}" if counts else phase)
            return
        if phase != self._phase or self._progress is None:
            self._phase, self._bytes = phase, 0
            self._progress = Progress(self._ctx.say, phase, total_bytes)
        moved = int(progress.get("bytes") or 0) - self._bytes
        self._bytes += moved
        self._progress.add(moved, counts)


def _told(box: Box, source: str, found: Mapping[str, Any], again: str) -> Staged:
    """The answer. Raises: NoRoom, BadTarget, StageFailed."""
    end, target = found["end"], found["target"]
    what = end["what"]
    if what == "no-room":
        raise _with_next(_no_room(box, found), again)
    if what == "taken":
        inside = printable(str(end.get("message") or ""))
        message = f"{printable(target)} also holds {inside}, which `stage` did not put there, or which was edited there"
        raise BadTarget(site=box.machine, message=message)
    if what == "failed":
        why = str(end.get("message") or "for no reason that was told").rstrip(".")
        raise _with_next(StageFailed(site=box.machine, target=printable(target), why=why), again)
    is_whole = what in ("staged", "unchanged")
    counts = {key: end[key] for key in ("files", "bytes", "copied_files", "copied_bytes", "kept_files") if key in end}
    return Staged(
        box.machine,
        source,
        target,
        what,
        problems=tuple(end["problems"]),
        problems_count=end["problems_count"],
        left_out=tuple(end["left_out"]),
        left_out_count=end["left_out_count"],
        digest=end.get("digest", ""),
        mount=found["mount"],
        room=end.get("room") or {},
        survives=_survival(box, target, found["mount"]["kind"]),
        seconds=end["seconds"],
        next="" if is_whole else again,
        exit_status=0 if is_whole else 1,
        **counts,
    )


def _survival(box: Box, target: str, kind: str) -> Mapping[str, Any]:
    found = survival(box, target)
    return {**found, "survives": False, "why": "it is memory"} if kind in MEMORY else found


def _no_room(box: Box, found: Mapping[str, Any]) -> NoRoom:
    end = found["end"]
    room = end.get("room") or {}
    free = f"{units.say_bytes(room.get('free_bytes', 0))} and {room.get('free_inodes', 0):,} inodes"
    if "need_bytes" in end:
        need = f"{units.say_bytes(end['need_bytes'])} and {end['need_inodes']:,} inodes"
        left = "Nothing was copied."
    else:
        need = "more than is left"
        left = "Others wrote there meanwhile; the unfinished copy was removed, to leave them the room."
    point = found["mount"]["point"]
    return NoRoom(site=box.machine, target=printable(found["target"]), need=need, free=free, point=point, left=left)


def _with_next(error: Any, again: str) -> Any:
    error.next = error.next or again
    return error
