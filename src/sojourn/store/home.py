"""The client's records as one thing: journal, index, settings. What a verb opens first."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from sojourn.core.fold import Status, to_plain
from sojourn.store import places, rows
from sojourn.store.index import Index
from sojourn.store.journal import Journal
from sojourn.store.records import RunRecord
from sojourn.wire.errors import Defect


class Store:
    """`state_dir`: absolute, or "" for the user's own. Nothing is made on disk before the first `append`."""

    def __init__(self, state_dir: str = "", clock: Callable[[], float] = time.time) -> None:
        self.state_dir = state_dir or places.state_dir()
        self.journal = Journal(os.path.join(self.state_dir, "journal.jsonl"), clock)
        self.index = Index(self.state_dir, self.journal)

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the index. Idempotent."""
        self.index.close()

    def append(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Journal one record durably, then index it. Raises: as `Journal.append`; Defect when a field lacks."""
        lacking = [name for name in rows.NEEDS.get(kind, ()) if name not in fields]
        if lacking:
            raise Defect(detail=f"a {kind!r} record without {', '.join(lacking)}")
        record = self.journal.append(kind, **fields)
        self.index.catch_up()
        return record

    def hear(
        self, record: RunRecord, offset: int, status: Status, keeper: str, payload: str, now_s: float, root: str = ""
    ) -> None:
        """Keep what the box said: `status` is the fold up to `offset`, not settled.

        What moves the run (state, attempt, checkpoint, seal, a pulse, its root) is journaled; beats are only cached.
        """
        before = record.heard
        moved = (before.state, before.attempt, before.checkpoint, before.manifest, record.keeper, record.payload) != (
            status.state,
            status.attempt,
            status.checkpoint,
            status.manifest,
            keeper,
            payload,
        )
        if moved or (root and root != record.run.root):
            said = {"fold": to_plain(status), "keeper": keeper, "payload": payload}
            self.append("heard", run=record.id, offset=offset, status=said, root=root)
        else:
            self.index.hear(record.id, offset, status, keeper, payload, now_s)

    def gaps_of(self, lease: str, site: str) -> tuple[Any, ...]:
        """STUB until the journal's own."""
        return ()
