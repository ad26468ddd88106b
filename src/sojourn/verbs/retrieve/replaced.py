"""Proven files at home whose place a file of a later attempt takes: they stay beside it, unless that one is known to be
as far on. A script that started again from nothing overwrites a better result by a worse one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sojourn.store.records import RunRecord
from sojourn.verbs.context import Context
from sojourn.verbs.retrieve.choice import attempt_of, key
from sojourn.verbs.retrieve.expected import step_in
from sojourn.verbs.retrieve.fetch import Home
from sojourn.verbs.retrieve.haul import Haul
from sojourn.verbs.retrieve.homes import hash_regular
from sojourn.verbs.retrieve.manifests import kept_manifest

if TYPE_CHECKING:
    from sojourn.wire.documents import FileRow, Manifest


def keep_replaced(
    ctx: Context, home: Home, record: RunRecord, document: Manifest, haul: Haul, rows: Sequence[FileRow]
) -> tuple[str, ...]:
    """Keep what `rows` are about to replace; a line for each. `record`: that of the last pull.

    Repeatable.   Raises: as `Home.settle`.
    """
    return tuple(_kept(home, record, kept_manifest(ctx, record.manifest_digest), document, haul, rows))


def _kept(
    home: Home, record: RunRecord, before: Manifest, document: Manifest, haul: Haul, rows: Sequence[FileRow]
) -> Iterator[str]:
    old = {receipt.path: receipt for receipt in record.receipts}
    came_from = {(row["path"], row["sha256"]): row for row in (*before.get("files", ()), *before.get("earlier", ()))}
    for row in rows:
        path, receipt, found = row["path"], old.get(row["path"]), haul.artifacts.get(key(row))
        if receipt is None or found is None or not found.ok or receipt.sha256 == row["sha256"]:
            continue
        earlier = came_from.get((path, receipt.sha256))
        number = (attempt_of(earlier) or int(before.get("attempt") or 0)) if earlier else 0
        later = attempt_of(row) or int(document.get("attempt") or 0)
        if not 0 < number < later or receipt.home != home.path(path):
            continue
        step, past = step_in(found.facts), step_in(receipt.facts)
        if step is not None and past is not None and step >= past:
            continue
        if hash_regular(home.path(path), receipt.bytes) != (receipt.bytes, receipt.sha256):
            continue  # what was proven is no longer there
        kept = home.keep(path, f"{path}@attempt-{number}", receipt.sha256)
        why = "which of them is further on is unknown" if step is None or past is None else f"step {past}, now {step}"
        yield f"{path}: attempt {later} wrote another; that of attempt {number} stays as {kept} ({why})"
