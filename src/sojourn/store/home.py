"""The client's records as one thing: journal, index, settings. What a verb opens first."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from sojourn.core.fold import Status, to_plain
from sojourn.store import places, private, rows
from sojourn.store.chain import Gap
from sojourn.store.index import Index
from sojourn.store.journal import Journal
from sojourn.store.records import RunRecord
from sojourn.wire.errors import Defect


class Store:
    """`state_dir`: absolute, or "" for the user's own. Nothing is created on disk before the first `append`."""

    def __init__(self, state_dir: str = "", clock: Callable[[], float] = time.time) -> None:
        self.state_dir = state_dir or places.state_dir()
        private.mend(self.state_dir)
        self.journal = Journal(os.path.join(self.state_dir, "journal.jsonl"), clock)
        self.index = Index(self.state_dir, self.journal)

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the index. Idempotent."""
        self.index.close()

    def append(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Journal one record durably, then index it. Raises: as `Journal.append`; Defect if a field is missing."""
        lacking = [name for name in rows.NEEDS.get(kind, ()) if name not in fields]
        if lacking:
            raise Defect(detail=f"a {kind!r} record without {', '.join(lacking)}")
        record = self.journal.append(kind, **fields)
        self.index.catch_up()
        return record

    def record_status(
        self, record: RunRecord, offset: int, status: Status, keeper: str, payload: str, now_s: float, root: str = ""
    ) -> None:
        """Keep the box's report: `status` is the fold up to `offset`, not settled.

        What changes the run (state, attempt, checkpoint, seal, a pulse, its root) is journaled; beats are only cached.
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
            self.index.record_status(record.id, offset, status, keeper, payload, now_s)

    def gaps(self) -> tuple[Gap, ...]:
        """Lost or changed parts of the journal, not yet closed for every known site."""
        found = self.index.gaps()
        if not found:
            return ()
        places = [(lease.lease.site, lease.name) for lease in self.index.leases()]
        places += [(site, "") for site in {record.site_name for record in self.index.runs()} - dict(places).keys()]
        return _still_open(found, self.index.closed(), places)

    def gaps_of(self, lease: str, site: str) -> tuple[Gap, ...]:
        """The gaps that may concern this lease and are still open: closed neither by a later complete `recover` of its
        site nor by `--accept-gap`. What was lost is unknown, so every gap may concern every lease.
        """
        self.index.catch_up()
        found = self.index.gaps()
        return _still_open(found, self.index.closed(), [(site, lease)]) if found else ()

    def close_gaps(self, gaps: Iterable[Gap], site: str, lease: str = "") -> None:
        """Journal that these gaps no longer hold this lease or, if `lease` is "", anything of this site."""
        rows = [[gap.after, gap.before, gap.mark] for gap in gaps]
        if rows:
            self.append("gap-closed", site=site, lease=lease, gaps=rows)


def _still_open(
    gaps: Iterable[Gap], closed: Iterable[tuple[int, int, str, str, str]], wanted: Iterable[tuple[str, str]]
) -> tuple[Gap, ...]:
    """Those of `gaps` not closed for each wanted (site, lease); all if nothing is wanted."""
    places, known = list(wanted), set(closed)

    def is_closed(gap: Gap) -> bool:
        at = gap.after, gap.before, gap.mark
        return bool(places) and all(
            (*at, site, "") in known or (lease != "" and (*at, site, lease) in known) for site, lease in places
        )

    return tuple(gap for gap in gaps if not is_closed(gap))
