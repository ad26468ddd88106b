"""`pull --follow`: while a run is alive, its finished checkpoints and its metrics come home as they appear, so that
little is lost with a box that vanishes.

What comes counts for no release: that takes the pull after the end. Which checkpoint is here is noted in `followed/` of
the state folder, for `status`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sojourn.store import places
from sojourn.store.records import RunRecord
from sojourn.verbs.context import Context
from sojourn.verbs.kept_here import keep_here
from sojourn.verbs.moving import Pace
from sojourn.verbs.observe.refresh import refresh_one
from sojourn.verbs.retrieve import manifests
from sojourn.verbs.retrieve.choice import CHECKPOINT, choose, key, step_of, urgency
from sojourn.verbs.retrieve.fetch import Home
from sojourn.verbs.retrieve.haul import Bringing, Haul, Proving
from sojourn.verbs.retrieve.homes import Roster
from sojourn.verbs.retrieve.packs import paced
from sojourn.wire import saved, units
from sojourn.wire.errors import Misuse, Unreachable

if TYPE_CHECKING:
    from sojourn.wire.documents import FileRow, Manifest

EVERY_S, KEEP = 30.0, 2
QUIET_S = 30.0  # a script's own checkpoint that was not written to for so long is finished
LOST_S = 3600.0  # nothing answered for so long


class NotFollowed(Misuse):
    """--follow needs one run that has begun; {what}."""

    code = "not-followed"
    next_step = "sojourn pull RUN --follow"


@dataclass(frozen=True)
class Brought:
    """What one look brought. `checkpoint`: the newest one that is here and loads, and its `step`; "" where none is."""

    run: str
    home: str
    files: int
    bytes: int
    checkpoint: str
    step: int | None
    problems: tuple[str, ...]  # files that came and do not load; they stay aside
    at: str
    is_over: bool

    def as_json(self) -> dict[str, Any]:
        """One object of the stream."""
        return {"schema": "sojourn/followed/v1", **vars(self), "problems": list(self.problems)}


def follow(
    ctx: Context, names: Sequence[str], *, to: str = "", every_s: float = EVERY_S, keep: int = KEEP, pace: Pace
) -> Iterator[Brought]:
    """Bring what is finished each `every_s`, one answer a look that brought something or could not; ends with the run.

    `keep`: so many checkpoints of the run stay at home, the newest. `pace`: not faster than that.
    Raises: NotFollowed; Unreachable after an hour without an answer; HomeFull, HomeUnwritable, NotOurs, WorldError.
    """
    if len(names) != 1 or ctx.store.index.sweep(names[0]):
        raise NotFollowed(what="name one run")
    record = ctx.store.index.find(names[0])
    folder = os.path.abspath(to) if to else os.path.join(places.data_dir(), "home", record.id)
    home = Home(record.id, folder, Roster(ctx.store.state_dir, folder, ctx.store.index.run))
    following = _Following(ctx, record, home, keep, pace)
    heard_s = ctx.now_s()
    with Proving() as proving:
        while True:
            view = refresh_one(ctx, ctx.store.index.find(record.id))
            if view.reach.ok is not False and not view.record.attempt:
                raise NotFollowed(what=f"{record.id} was not launched yet")
            if view.status.state.is_final:
                yield following.said(is_over=True)
                return
            try:
                answer = following.look(view.record, proving)
                heard_s = ctx.now_s()
                if answer.files or answer.problems:
                    yield answer
            except Unreachable as error:
                if ctx.now_s() - heard_s > LOST_S:
                    raise
                ctx.say(f"{record.id}: {error.message} Next try in {units.say_seconds(every_s)}")
            ctx.sleep(every_s)


class _Following:
    """What is home of one run so far. `known`: rows of the last manifest, which the box need not hash again."""

    def __init__(self, ctx: Context, record: RunRecord, home: Home, keep: int, pace: Pace) -> None:
        self._ctx, self._run, self._home, self._keep, self._pace = ctx, record.id, home, keep, pace
        self._known: list[FileRow] = []
        self._had: dict[str, FileRow] = {}  # what came last of each path
        self._newest: FileRow | None = None

    def look(self, record: RunRecord, proving: Proving) -> Brought:
        """Bring what is new and finished. Raises: Unreachable, WorldError, HomeFull, HomeUnwritable, NotOurs."""
        box = self._ctx.box(record.site, record.lease)
        paced(box, self._pace)
        document = manifests.ask_manifest(self._ctx, box, record, fresh=True, known=self._known)
        self._known = manifests.hashed(document)
        found = finished(document, record.outputs, self._keep)
        rows = [row for row in found if not self._has(row)]
        if not any(urgency(row)[0] for row in rows):  # with a checkpoint everything comes that is new
            now_s = units.unstamp(document["at"])
            rows = [row for row in rows if _is_worth(row, self._had.get(row["path"]), now_s)]
        if not rows:
            return self.said()
        haul = Bringing(self._ctx, box, record, self._home, proving, self._pace).bring_rows(rows)
        good = _sound(rows, haul)
        moves = {row["path"]: (haul.lies[key(row)], row["sha256"]) for row in good}
        self._home.settle({path: move for path, move in moves.items() if move[0] != self._home.path(path)})
        self._had.update((row["path"], row) for row in good)
        self._prune()
        self._home.tidy()
        self._note(found)
        problems = tuple(f"{row['path']}: {haul.artifacts[key(row)].problem}" for row in haul.failed.values())
        return self.said(good, problems)

    def said(self, rows: Sequence[FileRow] = (), problems: tuple[str, ...] = (), *, is_over: bool = False) -> Brought:
        """The answer, with what is home now."""
        name, step = _name_and_step(self._newest)
        size = sum(row["bytes"] for row in rows)
        at = units.stamp(self._ctx.now_s())
        return Brought(self._run, self._home.folder, len(rows), size, name, step, problems, at, is_over)

    def _has(self, row: FileRow) -> bool:
        had = self._had.get(row["path"])
        return had is not None and had["sha256"] == row["sha256"] and os.path.exists(self._home.path(row["path"]))

    def _prune(self) -> None:
        """Of the run's own checkpoints only the newest stay; what no pull brought is never touched."""
        ours = self._home.roster.brought(self._run)
        sets: dict[str, list[str]] = {}
        for path in ours:
            top, _, rest = path.partition("/")
            if top == "checkpoints" and saved.NAME.fullmatch(rest.partition("/")[0]):
                if os.path.lexists(self._home.path(path)):
                    sets.setdefault(rest.partition("/")[0], []).append(path)
        for name in saved.newest_first(sets)[self._keep :]:
            for path in sets[name]:
                os.unlink(self._home.path(path))
                self._had.pop(path, None)
            with suppress(OSError):  # a file, or something else lies in it
                os.rmdir(self._home.path(f"checkpoints/{name}"))

    def _note(self, found: Sequence[FileRow]) -> None:
        """Remember for `status` what would survive the box."""
        whole = [row for row in found if urgency(row)[0] == 1 and self._has(row)]
        self._newest = min(whole, key=urgency, default=None)
        if self._newest is not None:
            name, step = _name_and_step(self._newest)
            saved_s = self._newest["stat"][3] / 1e9 if self._newest.get("stat") else self._ctx.now_s()
            where = self._home.path(self._newest["path"])
            its = [row for row in whole if row.get("set") and row.get("set") == self._newest.get("set")]
            files = [
                {"from": row["from"], "home": self._home.path(row["path"]), "sha256": row["sha256"]}
                for row in its or [self._newest]
            ]
            at = units.stamp(saved_s)
            keep_here(self._ctx, self._run, checkpoint=name, step=step, at=at, path=where, files=files)


def finished(document: Manifest, outputs: Sequence[str], keep: int) -> list[FileRow]:
    """What of a living run may come home now: logs and metrics, its newest committed checkpoint, and files of weights
    that nobody wrote to for a while, the newest `keep`. In the order in which they come.
    """
    choice = choose(document, outputs, is_live=False)
    rows = [*choice.logs, *(row for candidates in choice.chains for row in candidates[0])]
    before_ns = (units.unstamp(document["at"]) - QUIET_S) * 1e9
    first = [row for row in rows if urgency(row)[0] == 0]
    committed = [row for row in rows if row["role"] == CHECKPOINT or row.get("set")]
    quiet = [row for row in rows if urgency(row)[0] == 1 and row not in committed]
    quiet = [row for row in quiet if row.get("stat") and row["stat"][3] < before_ns and not row.get("changed")]
    return sorted([*first, *committed, *sorted(quiet, key=urgency)[:keep]], key=urgency)


def _is_worth(row: FileRow, had: FileRow | None, now_s: float) -> bool:
    """Whether a file that grows has grown enough to come again as a whole, or has ended."""
    is_quiet = bool(row.get("stat")) and row["stat"][3] < (now_s - QUIET_S) * 1e9
    return had is None or is_quiet or row["bytes"] >= 1.5 * had["bytes"]


def _sound(rows: Sequence[FileRow], haul: Haul) -> list[FileRow]:
    """Those that came and load; of a checkpoint all files or none."""
    good = [row for row in rows if key(row) in haul.artifacts and haul.artifacts[key(row)].ok and key(row) in haul.lies]
    broken = {row["set"] for row in rows if row.get("set") and row not in good}
    return [row for row in good if row.get("set") not in broken]


def _name_and_step(row: FileRow | None) -> tuple[str, int | None]:
    if row is None:
        return "", None
    name = str(row.get("set") or os.path.basename(row["path"]))
    return name, step_of(name)
