"""`pull`: the manifest on the box, files home whole, every artifact loaded here, receipts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from sojourn.core.artifact import LOG
from sojourn.core.values import State
from sojourn.store import places
from sojourn.store.records import RunRecord
from sojourn.verbs.answers import Pull
from sojourn.verbs.context import Context
from sojourn.verbs.kept_here import keep_here
from sojourn.verbs.moving import Pace
from sojourn.verbs.observe.beside import each
from sojourn.verbs.observe.refresh import as_known, refresh, refresh_one
from sojourn.verbs.observe.spending import spent_micro, taken_s
from sojourn.verbs.observe.status import chosen
from sojourn.verbs.observe.view import RunView, meter_of
from sojourn.verbs.retrieve import manifests, tale
from sojourn.verbs.retrieve.best import ALL, NoSweepToRank, Part, best_cells
from sojourn.verbs.retrieve.choice import CHECKPOINT, Choice, choose, metrics_of, step_of
from sojourn.verbs.retrieve.expected import step_remarks
from sojourn.verbs.retrieve.fetch import Home
from sojourn.verbs.retrieve.forget import forget_secrets
from sojourn.verbs.retrieve.haul import Bringing, Haul, Proving, settle
from sojourn.verbs.retrieve.homes import Roster, goes_with, lies_in
from sojourn.verbs.retrieve.packs import UNPACED, paced
from sojourn.verbs.retrieve.replaced import keep_replaced
from sojourn.verbs.retrieve.tale import Tale
from sojourn.wire import manifest, units
from sojourn.wire.errors import Misuse, SojournError

if TYPE_CHECKING:
    from sojourn.wire.documents import Manifest

ROUNDS = 3  # how often outputs may have changed under our hands before we stop following them


class HomeInRun(Misuse):
    """{folder} lies in the folder of {run} itself, {root}: what is removed with the run is not home."""

    code = "home-in-run"
    next_step = "sojourn pull {run} --to a folder outside of it"


class HomeOnMachine(Misuse):
    """{folder} lies on a disk of the machine itself that {run} is on: what is released with it is not home."""

    code = "home-on-machine"
    next_step = "sojourn pull {run} --to a folder on a disk that stays"


class NotAPath(Misuse):
    """{name}: the path must be relative to the run's folder, and lie in it."""

    code = "not-a-path"
    next_step = "sojourn pull RUN:out/best.pt"


class NotThere(Misuse):
    """{run} has no file {path} on its box."""

    code = "not-there"
    next_step = "sojourn status {run}"


class NeverLaunched(Misuse):
    """{run} was never launched: there is nothing to bring home."""

    code = "never-launched"
    next_step = "sojourn run"


def pull(
    ctx: Context, names: Sequence[str] = (), *, to: str = "", pace: Pace = UNPACED, part: Part = ALL
) -> Iterator[Pull]:
    """Bring runs home, one answer a run: those named, or all that have ended and are not home.

    `to`: with one run named, the folder for its files; else files of RUN go to `to`/RUN. By default home is
    $XDG_DATA_HOME/sojourn/home/RUN. A run that still lives comes as it stands, without receipts: that clears nothing.
    Of a run that has not succeeded the newest checkpoint comes too; of what does not load, the next older one.
    Runs of several boxes come side by side, and the answers in the order of the runs.
    `pace`: not faster than that, over all runs together. `part`: not everything; logs and metrics alone come without
    receipts, too.
    RUN:PATH names a file, or a folder of a checkpoint, that no output of the job file names: from then on it is one.
    Repeatable: what is home and equal by hash is not moved again, what is damaged at home is mended.
    Raises: Misuse; Unreachable, WorldError, HomeFull for a run named alone, otherwise these become its answer.
    """
    asked, names = _paths(ctx, names), [name.partition(":")[0] for name in names]
    records = chosen(ctx, names)
    if any(ctx.store.index.sweep(name) for name in names):
        views = refresh(ctx, records)  # of a sweep: what has begun
        records = [view.record for view in views.values() if view.record.heard.attempt]
    if part.best:
        if len(names) != 1 or not (sweep := ctx.store.index.sweep(names[0])):
            raise NoSweepToRank
        records = best_cells(sweep, records, part)
    if not names:
        records = [r for r in records if _has_begun(r) and not r.is_home and not r.status.state.is_alive]
    own = bool(to) and (len(names) != 1 or bool(ctx.store.index.sweep(names[0])))

    taken = taken_s(ctx, [as_known(r) for r in records], {r.name: r for r in ctx.store.index.leases(open_only=False)})

    def one(ctx: Context, record: RunRecord) -> Pull:
        folder = os.path.join(places.data_dir(), "home", record.id) if not to else os.path.abspath(to)
        if own:
            folder = os.path.join(folder, record.id)
        try:
            home = Home(record.id, folder, Roster(ctx.store.state_dir, folder, ctx.store.index.run))
            return _pull_one(ctx, _named(ctx, record, asked), home, taken, proving, pace, part.is_metrics)
        except SojournError as error:
            if len(records) == 1:
                raise
            return _not_pulled(record, folder, error)

    with Proving() as proving:
        yield from each(ctx, records, one)


def going(ctx: Context) -> list[str]:
    """The runs that have begun and, as last heard, not ended: those that `pull` without a name leaves alone."""
    return [r.id for r in ctx.store.index.runs() if _has_begun(r) and r.status.state.is_alive]


def _has_begun(record: RunRecord) -> bool:
    """It was launched; of a cell, a queue began it."""
    return bool(record.heard.attempt if record.sweep else record.attempt)


def _paths(ctx: Context, names: Sequence[str]) -> dict[str, list[str]]:
    """Of each run the paths that RUN:PATH names, as the box has them. Raises: Misuse."""
    found: dict[str, list[str]] = {}
    for run, colon, path in (name.partition(":") for name in names):
        if colon:
            path = os.path.normpath(path) if path else ""
            if not manifest.is_safe(path):
                raise NotAPath(name=f"{run}:{path}")
            found.setdefault(ctx.store.index.find(run).id, []).append(path)
    return found


def _named(ctx: Context, record: RunRecord, asked: Mapping[str, Sequence[str]]) -> RunRecord:
    """The record, with what is asked for by its path as outputs of its own. Raises: NotThere, WorldError."""
    paths = [path for path in asked.get(record.id, ()) if path not in record.also]
    if not paths:
        return record
    document = manifests.ask_manifest(ctx, ctx.box(record.site, record.lease), record, fresh=True, also=paths)
    there = [str(row["path"]) for row in (*document["files"], *document.get("refused", ()))]
    for path in paths:
        if not any((one + "/").startswith(path + "/") for one in there):
            raise NotThere(run=record.id, path=path)
    ctx.store.append("naming", run=record.id, paths=paths)
    return ctx.store.index.find(record.id)


def _pull_one(
    ctx: Context,
    record: RunRecord,
    home: Home,
    taken: Mapping[str, float],
    proving: Proving,
    pace: Pace,
    is_metrics: bool,
) -> Pull:
    if record.attempt == 0:
        raise NeverLaunched(run=record.id)
    if lies_in(home.folder, record.run.root):
        raise HomeInRun(folder=home.folder, run=record.id, root=record.run.root)
    if ctx.box(record.site, record.lease).ends_us and goes_with(home.folder, record.run.root):
        raise HomeOnMachine(folder=home.folder, run=record.id)
    began_s = ctx.now_s()
    view = refresh_one(ctx, record)
    record, box = view.record, ctx.box(record.site, record.lease)
    paced(box, pace)
    is_live = not view.status.state.is_final
    is_preview = is_live or is_metrics
    if not is_preview:
        ctx.store.append("pulling", run=record.id)
        forget_secrets(ctx, box, [record])

    def chosen_of(document: Manifest) -> Choice:
        choice = choose(document, record.outputs, is_live=is_live)
        return metrics_of(choice) if is_metrics else choice

    document = manifests.ask_manifest(ctx, box, record, fresh=is_live)
    for _ in range(ROUNDS):
        haul = Bringing(ctx, box, record, home, proving, pace).bring(chosen_of(document))
        # What was brought counts only if it is still what the box has: the manifest is taken again.
        before, known = document["digest"], manifests.hashed(document)
        if is_metrics:
            break
        document = manifests.ask_manifest(ctx, box, record, fresh=True, known=known)
        if document["digest"] == before or is_live:
            break
    choice = chosen_of(document)
    rows = choice.wanted(haul.failed)
    kept = () if is_preview else keep_replaced(ctx, home, record, document, haul, rows)
    settle(home, choice, haul, rows)
    if is_metrics:  # of what else the run owes this says nothing
        document = {**document, "missing": [], "gone": [], "refused": [], "superseded": 0, "removed": 0}
    told = tale.tell(document, choice, haul, rows, home, record)
    told.taken += kept
    home.tidy()
    heard, is_done = view.status, view.status.state is State.SUCCEEDED
    said = step_remarks(told.artifacts.values(), planned=heard.total, saved=heard.checkpoint, is_done=is_done)
    for path, remark in said.items():
        told.artifacts[path] = told.artifacts[path].remarked(remark)
    answer = _answer(ctx, view, home, told, haul, ctx.now_s() - began_s, taken)
    if is_metrics and not is_live:
        why = answer.why if not answer.ok else "logs and metrics only: nothing else was fetched or counts for a release"
        return replace(answer, receipts=0, why=why, next=f"sojourn pull {record.id}")
    if not is_live:
        manifests.keep_manifest(ctx, document)
        _journal(ctx, view, home, document, told, answer)
    return answer


def _journal(ctx: Context, view: RunView, home: Home, document: Manifest, told: Tale, answer: Pull) -> None:
    ctx.store.append(
        "pulled",
        run=answer.run,
        manifest=document["digest"],
        seal=view.record.heard.manifest,
        dir=home.folder,
        files=answer.files,
        bytes=answer.bytes,
        seconds=round(answer.seconds, 3),
        owed=len([a for a in told.artifacts.values() if a.kind != LOG]),
        receipts=[dict(vars(told.receipts[path])) for path in sorted(told.receipts)],
        missing=list(document["missing"]),
        problems=[f"{path}: {word}" for path, word in told.problems()],
        failed=[
            {**{name: row[name] for name in ("path", "from", "sha256")}, "problem": why} for row, why in told.failed
        ],
        gone=[{name: row[name] for name in ("path", "bytes", "sha256")} for row in document.get("gone", ())],
    )
    saves = [row for row in document["files"] if row["role"] == CHECKPOINT]
    if saves and all(row["path"] in told.receipts for row in saves):  # from it the run can go on elsewhere
        homes = [told.receipts[row["path"]].home for row in saves]
        files = [
            {"from": row["from"], "home": home, "sha256": row["sha256"]} for row, home in zip(saves, homes, strict=True)
        ]
        name, at = str(saves[0].get("set") or os.path.basename(saves[0]["path"])), units.stamp(ctx.now_s())
        with suppress(OSError):
            keep_here(ctx, answer.run, checkpoint=name, step=step_of(name), at=at, path=homes[0], files=files)


def _answer(
    ctx: Context, view: RunView, home: Home, told: Tale, haul: Haul, seconds: float, taken: Mapping[str, float]
) -> Pull:
    record, is_live = view.record, not view.status.state.is_final
    lease = ctx.store.index.lease(record.lease)
    why, following = told.verdict(record.id, record.lease or record.id)
    if is_live:
        why = f"attempt {view.status.attempt} is {view.status.state.value}: a preview, which does not count for release"
        following = f"sojourn watch {record.id}"
    return Pull(
        run=record.id,
        ok=told.ok,
        home=home.folder,
        artifacts=tuple(tale.artifacts_of(told)),
        files=len(told.at_home),
        bytes=sum(row["bytes"] for row in told.at_home),
        moved_files=len(haul.moved),
        moved_bytes=haul.moved_bytes,
        seconds=seconds,
        receipts=0 if is_live else len(told.receipts),
        missing=told.missing,
        why=why,
        next=following,
        taken=told.taken,
        superseded=told.superseded,
        checkpoint=told.checkpoint,
        meter=meter_of(record, lease),
        spent_micro=spent_micro(view, lease, taken),
        currency=lease.lease.currency if lease else "USD",
        exit_status=0 if told.ok else 1,
    )


def _not_pulled(record: RunRecord, folder: str, error: SojournError) -> Pull:
    return Pull(
        run=record.id,
        ok=False,
        home=folder,
        artifacts=(),
        files=0,
        bytes=0,
        moved_files=0,
        moved_bytes=0,
        seconds=0.0,
        receipts=0,
        missing=(),
        why=error.message,
        next=error.next or f"sojourn pull {record.id}",
        exit_status=error.exit_status,
    )
