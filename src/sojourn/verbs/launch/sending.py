"""A tree to the box by content: what no snapshot there has goes in one stream, and goes on where that is cut."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from sojourn.backends.keeper.client import Answer, KeeperRefused
from sojourn.backends.keeper.stream import can_stream, stream
from sojourn.core.values import NoAnswer
from sojourn.verbs.context import Box, Context, unreachable
from sojourn.verbs.launch import rosters
from sojourn.verbs.moving import Patience, Progress
from sojourn.wire import pieces
from sojourn.wire.errors import WorldError

if TYPE_CHECKING:
    from sojourn.store.snapshot import Snapshot
    from sojourn.wire.documents import FileRow

ASK_S = 1800.0  # linking and hashing a large tree there, on a slow disk
STREAM_S = 24 * 3600.0  # a dead line ends it in 15 s; a slow one may take its time
QUIET_S = 900.0  # nothing moves: the box syncs the tree to a slow disk
# A box that forgets what it got, or says so, is not sent to for ever.
MOST_TIMES, MORE_BYTES = 2, 64 << 20
ALONG_BYTES = 4 << 20  # of new contents that go with the question
_BLOB_BYTES = 8 << 20


class NotSent(WorldError):
    """{site} received all of {what}, but {count} files of it are missing: its disk is losing data."""

    code = "not-sent"
    retry = True


def sends(box: Box) -> bool:
    """Whether the way to this box takes streams. An old keeper there may still not know them."""
    return not box.is_blind and can_stream(box.keeper)


def send(ctx: Context, box: Box, what: str, tree: Snapshot) -> bool:
    """Bring a snapshot to the box. False, and nothing done, where the way there or its keeper takes no streams.

    Goes on by itself after a cut, for as long as bytes move now and then (`moving.GIVE_UP_S`); run again it goes on
    too. Raises: Unreachable, WorldError, TreeChanged, BadTree.
    """
    if not sends(box) or not _is_sent(ctx, box, what, tree):
        return False
    rosters.remember(tree, at=box.site.name)
    return True


def _is_sent(ctx: Context, box: Box, what: str, tree: Snapshot) -> bool:
    contents = _contents(tree)
    question = _since_last(box, tree, contents) or _Question(_roster(tree, tree.rows))
    patience = Patience(ctx.now_s, ctx.sleep)
    progress: Progress | None = None
    rounds = sent_bytes = 0
    before_bytes: int | None = None
    while True:
        try:
            said = question.ask(box, tree.digest)
            if isinstance(said, NoAnswer):
                if patience.is_over(said):
                    raise unreachable(box.site, said)
                continue
            if said.value["made"]:
                return True
            lacking = _checked(box, said.value["lacking"], contents)
            left_bytes = sum(contents[number]["bytes"] - have for number, have in lacking)
            if before_bytes is not None and left_bytes < before_bytes:
                patience.moved()  # what we sent may have got no further than this machine
            before_bytes = left_bytes
            progress = progress or Progress(ctx.say, f"pushing {what}", left_bytes)
            counting = _Counting(tree, contents, lacking, progress)
            said = stream(
                box.keeper,
                "receive",
                source=counting.frames,
                timeout_s=STREAM_S,
                quiet_s=QUIET_S,
                digest=tree.digest,
            )
        except KeeperRefused as no:
            if no.code == "unknown-op":
                return False
            if question.upon:  # the box has that tree no longer, or an old keeper answers: say all
                question = _Question(_roster(tree, tree.rows))
                continue
            # hash-mismatch: what stood there already was not ours, and is gone now.
            rounds += 1
            if no.code not in ("not-asked", "hash-mismatch") or rounds > 2:
                raise
            continue
        if isinstance(said, NoAnswer):
            sent_bytes += counting.sent_bytes
            if patience.is_over(said) or sent_bytes > MOST_TIMES * tree.bytes + MORE_BYTES:
                raise unreachable(box.site, said)
            ctx.say(f"pushing {what}: the line was cut ({said.kind}); going on")
        elif said.value["made"]:
            return True
        else:
            rounds += 1
            if rounds > 2:
                raise NotSent(site=box.site.name, what=what, count=len(said.value["lacking"]))


@dataclass(frozen=True)
class _Question:
    """What is lacking of a tree? `roster`: its rows as `lacking` takes them; only what differs from those of the tree
    `upon`, if that is named. `along`: [number, bytes] of contents in `data`, which are most likely lacking.
    """

    roster: Sequence[bytes]
    upon: str = ""
    along: Sequence[Sequence[int]] = ()
    data: bytes = b""

    def ask(self, box: Box, digest: str) -> Answer | NoAnswer:
        """Raises: as `Keeper.ask`."""
        more: dict[str, Any] = {"upon": self.upon, "along": self.along} if self.upon else {}
        blobs = [*self.roster, self.data] if self.along else self.roster
        frames = len(self.roster)
        return box.keeper.ask("lacking", blobs, timeout_s=ASK_S, digest=digest, frames=frames, **more)


def _since_last(box: Box, tree: Snapshot, contents: Sequence[Mapping[str, Any]]) -> _Question | None:
    """The question that names only what changed since the last push from here, with the new contents where they are
    few; None where most changed. Raises: TreeChanged, BadTree.
    """
    from sojourn.store import snapshot

    upon, rows = rosters.last(tree, box.site.name)
    old = {row["path"]: row for row in rows}
    changed = [row for row in tree.rows if old.pop(row["path"], None) != row]
    if not upon or len(changed) > len(tree.rows) // 2:
        return None
    known = {row["sha256"] for row in rows}
    along: list[list[int]] = []
    parts: list[bytes] = []
    size = 0
    for number, row in enumerate(contents):
        if row["sha256"] not in known and size + row["bytes"] <= ALONG_BYTES:
            parts += snapshot.read(tree, cast("FileRow", row), pieces.FRAME_BYTES)
            along.append([number, row["bytes"]])
            size += row["bytes"]
    return _Question(_roster(tree, changed, list(old)), upon, along, b"".join(parts))


def _roster(tree: Snapshot, rows: Sequence[FileRow], gone: Sequence[str] = ()) -> list[bytes]:
    """Rows as `lacking` takes them, and the paths that are `gone` where they are changes."""
    from sojourn.store import snapshot

    told: list[Any] = [{**row, "to": snapshot.target(tree, row)} if row["role"] == "l" else row for row in rows]
    told += [{"path": path, "role": ""} for path in gone]
    data = zlib.compress(json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode("utf-8"), 1)
    return [data[at : at + _BLOB_BYTES] for at in range(0, len(data), _BLOB_BYTES)]


def _contents(tree: Snapshot) -> list[Mapping[str, Any]]:
    """A row for each different content, numbered as the box numbers them (`box.ops.contents.numbered`)."""
    seen: dict[str, Mapping[str, Any]] = {}
    for row in tree.rows:
        if row["role"] != "l" and row["bytes"]:
            seen.setdefault(row["sha256"], row)
    return list(seen.values())


def _checked(
    box: Box, lacking: Sequence[Sequence[int]], contents: Sequence[Mapping[str, Any]]
) -> list[tuple[int, int]]:
    from sojourn.backends.keeper.decode import BadAnswer

    found = [(number, have) for number, have in lacking]
    if any(number >= len(contents) or have >= contents[number]["bytes"] for number, have in found):
        raise BadAnswer(site=box.site.name, op="lacking", what="it lacks what was not offered")
    return found


class _Counting:
    """The stream of what is lacking; `sent_bytes` of it so far."""

    def __init__(
        self,
        tree: Snapshot,
        contents: Sequence[Mapping[str, Any]],
        lacking: Sequence[tuple[int, int]],
        progress: Progress,
    ) -> None:
        self.sent_bytes = 0
        self._tree, self._contents, self._lacking, self._progress = tree, contents, lacking, progress

    def frames(self) -> Iterable[bytes]:
        """Made while they are sent. Raises: TreeChanged, BadTree."""
        return pieces.packed(self._parts())

    def _parts(self) -> Iterator[pieces.Part]:
        from sojourn.store import snapshot

        for number, have in self._lacking:
            row: Any = self._contents[number]
            offset = 0
            for data in snapshot.read(self._tree, row, pieces.FRAME_BYTES):
                end = offset + len(data)
                if end > have:
                    first = max(0, have - offset)
                    yield number, offset + first, data[first:]
                    self.sent_bytes += len(data) - first
                    self._progress.add(len(data) - first, row["path"])
                offset = end
