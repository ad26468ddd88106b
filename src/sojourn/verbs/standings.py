"""The facts that the Iron Law judges, gathered now: what each run is, what it owes on the box, what of it is home."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sojourn.core.law import Standing
from sojourn.core.values import NoAnswer, Receipt
from sojourn.store.records import RunRecord
from sojourn.verbs.context import Context
from sojourn.verbs.hear import View, hear, hear_one
from sojourn.verbs.manifests import MANIFEST_S, kept_manifest
from sojourn.wire import manifest
from sojourn.wire.errors import WorldError


def standings(ctx: Context, records: Sequence[RunRecord]) -> list[Standing]:
    """One Standing a run. The box hashes every output again, and every copy at home is read again."""
    views = hear(ctx, records)
    for record in records:
        if views[record.id].status.attempt < record.attempt:
            # Another command may be launching it this very moment: what it does is waited for.
            with ctx.alone(record.id):
                again = ctx.store.index.find(record.id)
                views[record.id] = hear_one(ctx, again)
    return [_standing(ctx, views[record.id]) for record in records]


def _standing(ctx: Context, view: View) -> Standing:
    record = view.record
    document, is_fresh = _manifest(ctx, view)
    ctx.say(f"{record.id}: reading again what is home")
    return Standing(
        run=record.id,
        state=view.status.state,
        is_launched=not view.never_began,
        is_reachable=is_fresh or (view.reach.ok is not False and view.has_root),
        is_fresh=is_fresh,
        digest=str(document.get("digest", "")),
        files=tuple(document.get("files", ())),
        missing=tuple(document.get("missing", ())),
        refused=tuple(str(row["path"]) for row in document.get("refused", ())),
        verified=record.manifest_digest,
        receipts=record.receipts,
        home={receipt.path: _at_home(receipt) for receipt in record.receipts},
    )


def _manifest(ctx: Context, view: View) -> tuple[Mapping[str, Any], bool]:
    """(manifest, taken just now) of the box; where it cannot say, the sealed one that a pull kept; else ({}, False)."""
    record = view.record
    if view.never_began or not view.status.state.is_final:
        return {}, False
    ctx.say(f"{record.id}: the box is hashing its outputs")
    try:
        answer = ctx.box(record.site).ask("manifest", timeout_s=MANIFEST_S, run=record.id, fresh=True)
    except WorldError as error:
        if error.code != "no-such-run":
            raise
    else:
        if not isinstance(answer, NoAnswer):
            return answer.value["manifest"], True
    return kept_manifest(ctx, record.heard.manifest), False


def _at_home(receipt: Receipt) -> str:
    try:
        found = manifest.sha256_file(receipt.home, follow=False)
    except OSError:
        return "gone"
    return "same" if found == (receipt.bytes, receipt.sha256) else "changed"
