"""Gathers the facts that the Iron Law judges: each run's state, what it owes on the box, and what of that is home."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from sojourn.core.law import Facts
from sojourn.core.owed import DAMAGED, Standing
from sojourn.core.values import Receipt, State
from sojourn.store import proofs
from sojourn.store.records import RunRecord
from sojourn.verbs.context import Box, Context
from sojourn.verbs.observe.refresh import refresh, refresh_one
from sojourn.verbs.observe.view import RunView
from sojourn.verbs.release.survey import Survey, survey
from sojourn.verbs.retrieve.homes import goes_with, lies_in
from sojourn.verbs.retrieve.manifests import ask_manifest, kept_manifest
from sojourn.verbs.retrieve.manifests import hashed as rows_hashed
from sojourn.wire import manifest
from sojourn.wire.errors import Unreachable, WorldError

if TYPE_CHECKING:
    from sojourn.wire.documents import FileRow, Manifest


@dataclass
class Hashed:
    """What this very command has hashed already: a file whose identity is the same is not read again.

    box: run -> rows of its manifest. home: path -> (identity, (bytes, sha256)).
    """

    box: dict[str, Sequence[FileRow]] = field(default_factory=dict)
    home: dict[str, tuple[tuple[int, ...], tuple[int, str]]] = field(default_factory=dict)


def facts(ctx: Context, box: Box, lease: str, tenants: Sequence[RunRecord], hashed: Hashed) -> Facts:
    """All that stands on a lease: its runs, every other run on its box, and what the journal lacks.

    A run of another lease or site that the records know, and that lies on this box, is judged with its tenants.
    A rented machine whose address was never known has nothing on it.   Raises: Unreachable, WorldError.
    """
    gaps = tuple(gap.what for gap in ctx.store.gaps_of(lease, box.site.name))
    if box.provider.rents and box.lease is None and not tenants:
        return Facts((), ctx.now_s(), gaps=gaps, ends_box=box.provider.metered)
    found = survey(ctx, box)
    here = {record.id: record for record in (*tenants, *found.known)}
    runs = obligations_of(ctx, list(here.values()), hashed, found)
    return Facts(tuple(runs), ctx.now_s(), found.strays, gaps, box.provider.metered, found.box)


def run_facts(ctx: Context, records: Sequence[RunRecord], hashed: Hashed) -> Facts:
    """The same of these runs alone: for what deletes them and leaves the box as it is. Raises: WorldError."""
    runs = obligations_of(ctx, records, hashed)
    gaps = {gap.what: None for record in records for gap in ctx.store.gaps_of(record.lease, record.site_name)}
    return Facts(tuple(runs), ctx.now_s(), gaps=tuple(gaps))


def obligations_of(
    ctx: Context, records: Sequence[RunRecord], hashed: Hashed, found: Survey | None = None
) -> list[Standing]:
    """One Standing a run. The box lists every output again, and every copy at home is compared again."""
    views = refresh(ctx, records)
    for record in records:
        if views[record.id].status.attempt < record.attempt:
            # Another command may be launching it this very moment: what it does is waited for.
            with ctx.alone(record.id):
                again = ctx.store.index.find(record.id)
                views[record.id] = refresh_one(ctx, again)
    return [_standing(ctx, views[record.id], hashed, found) for record in records]


def _standing(ctx: Context, view: RunView, hashed: Hashed, found: Survey | None) -> Standing:
    """What lies on the box that was surveyed is judged by that box, whatever site the records have it on."""
    record, state = view.record, view.status.state
    row = found.rows.get(record.id) if found else None
    if row is not None and found is not None and record.site_name != found.asked.site.name:
        state = State(row["state"]) if row["state"] in set(State) else State.LOST
    box = found.box_of(row) if found is not None and row is not None else ctx.box(record.site, record.lease)
    lives, is_there = (str(row["lives"]), bool(row["attempt"])) if row is not None else ("", False)
    document: Manifest = {}
    is_fresh = False
    if (is_there or not view.never_began) and state.is_final:
        document, is_fresh = _manifest(ctx, box, record, hashed)
    ctx.say(f"{record.id}: rereading the files at home")
    return Standing(
        run=record.id,
        state=state,
        is_launched=not view.never_began or is_there,
        is_reachable=is_fresh or row is not None or (view.reach.ok is not False and view.has_root),
        is_fresh=is_fresh,
        lives=lives,
        digest=manifest.digest_of(document) if document else "",
        files=_rows(document.get("files", ())),
        earlier=_rows(document.get("earlier", ())),
        gone=_rows(document.get("gone", ())),
        missing=tuple(document.get("missing", ())),
        refused=tuple((str(row["path"]), str(row["why"])) for row in document.get("refused", ())),
        unnamed=tuple((str(row["path"]), f"{row['bytes']} {row['mtime_ns']}") for row in document.get("unnamed") or ()),
        superseded=int(document.get("superseded", 0)),
        removed=int(document.get("removed", 0)),
        verified=record.manifest_digest,
        receipts=record.receipts,
        failed=tuple(
            {"path": one["path"], "sha256": one["sha256"]} for one in record.failed if one["problem"] in DAMAGED
        ),
        home={receipt.path: _at_home(receipt, record.run.root, hashed, box.ends_us) for receipt in record.receipts},
    )


def _rows(rows: Iterable[FileRow]) -> tuple[FileRow, ...]:
    """Its rows without the times of their files: a file that was only touched is the same file."""
    return tuple(
        cast("FileRow", {name: row[name] for name in sorted(row) if name != "stat"}) for row in map(dict, rows)
    )


def _manifest(ctx: Context, box: Box, record: RunRecord, hashed: Hashed) -> tuple[Manifest, bool]:
    """(manifest, taken just now) of the box; where it cannot say, the last one that a pull kept; else ({}, False)."""
    try:
        document = ask_manifest(ctx, box, record, fresh=True, known=hashed.box.get(record.id, ()))
    except WorldError as error:
        if not isinstance(error, Unreachable) and error.code != "no-such-run":
            raise
        # A pull that came after this seal saw what was done to the outputs since.
        digest = record.manifest_digest if record.is_pulled else record.heard.manifest
        return kept_manifest(ctx, digest), False
    hashed.box[record.id] = rows_hashed(document)
    return document, True


def _at_home(receipt: Receipt, root: str, hashed: Hashed, ends_us: bool) -> str:
    if lies_in(receipt.home, root):
        return "inside"
    if ends_us and goes_with(receipt.home, root):
        return "here"
    began_ns = proofs.now_ns()
    try:
        _sync(receipt.home)
        seen = os.lstat(receipt.home)
        kept = hashed.home.get(receipt.home)
        if kept is not None and kept[0] == proofs.identity(seen):
            found = kept[1]
        else:
            found = manifest.sha256_file(receipt.home, follow=False)
            if proofs.identity(os.lstat(receipt.home)) == proofs.identity(seen) and proofs.is_settled(seen, began_ns):
                hashed.home[receipt.home] = proofs.identity(seen), found
    except OSError:
        return "gone"
    return "same" if found == (receipt.bytes, receipt.sha256) else "changed"


def _sync(path: str) -> None:
    """What was written to the file through a mapping of memory gets its time now. Raises: OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
