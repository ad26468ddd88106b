"""Small files home, up to 64 MiB of them in one stream. What does not come this way, `fetch` brings alone."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sojourn.backends.keeper.client import KeeperRefused
from sojourn.backends.keeper.decode import BadAnswer
from sojourn.backends.keeper.stream import can_stream, stream
from sojourn.core.values import NoAnswer
from sojourn.verbs.context import Box, Context, unreachable
from sojourn.verbs.moving import Pace, Patience, Progress
from sojourn.verbs.retrieve.fetch import CALL_S, Home
from sojourn.verbs.retrieve.homes import hash_regular
from sojourn.wire.errors import Misuse

if TYPE_CHECKING:
    from sojourn.wire import pieces
    from sojourn.wire.documents import FileRow

SMALL_BYTES = 4 << 20  # a larger file is worth a call of its own, which goes on anywhere
PACK_BYTES, PACK_FILES = 64 << 20, 5000
QUIET_S = 60.0
UNPACED = Pace()


class NotPaced(Misuse):
    """{site} transfers whole files, so the rate cannot be limited."""

    code = "not-paced"
    next_step = "leave out --bwlimit"


def paced(box: Box, pace: Pace) -> None:
    """Return if what comes from this box can be held to a rate. Raises: NotPaced."""
    if pace.rate and (box.is_blind or not can_stream(box.keeper)):
        raise NotPaced(site=box.site.name)


def fetch_small(
    ctx: Context, box: Box, run: str, home: Home, rows: Sequence[FileRow], pace: Pace = UNPACED
) -> set[str]:
    """Bring the small ones of `rows` into staging; the staged paths of those that are whole, hashed here.

    Those that are not in it changed, went, came damaged, or cannot come this way. After a cut it goes on by itself for
    as long as bytes move now and then. Raises: Unreachable (what came is kept), HomeUnwritable, HomeFull.
    """
    small = [row for row in rows if row["bytes"] and (pace.rate or row["bytes"] <= SMALL_BYTES)]
    if len(small) < (1 if pace.rate else 2) or box.is_blind or not can_stream(box.keeper):
        return set()
    progress = Progress(ctx.say, home.run, sum(row["bytes"] for row in small))
    came: set[str] = set()
    for pack in _packs(small):
        try:
            if not _brought(ctx, box, run, home, pack, progress, came, pace):
                break
        except OSError as error:
            raise home.trouble(error) from error
    return came


def _packs(rows: Sequence[FileRow]) -> Iterator[list[FileRow]]:
    pack: list[FileRow] = []
    size_bytes = 0
    for row in rows:
        if pack and (size_bytes + row["bytes"] > PACK_BYTES or len(pack) >= PACK_FILES):
            yield pack
            pack, size_bytes = [], 0
        pack.append(row)
        size_bytes += row["bytes"]
    yield pack


def _brought(
    ctx: Context,
    box: Box,
    run: str,
    home: Home,
    pack: Sequence[FileRow],
    progress: Progress,
    came: set[str],
    pace: Pace,
) -> bool:
    """Whether the keeper there knows how. Raises: OSError, and as `fetch_small`."""
    patience = Patience(ctx.now_s, ctx.sleep)
    spoiled: set[str] = set()
    while True:
        lacking = []
        for row in pack:
            if home.staged(row) not in came and home.staged(row) not in spoiled:
                lacking.append((row, _have(home.staged(row), row)))
        coming = _Coming(box, home, [row for row, have in lacking if have >= 0], progress, pace)
        files = [[row["from"], have, row["bytes"]] for row, have in lacking if have >= 0]
        try:
            said = stream(box.keeper, "send", take=coming.take, timeout_s=CALL_S, quiet_s=QUIET_S, run=run, files=files)
        except KeeperRefused as no:
            if no.code in ("unknown-op", "unsafe-path"):
                return False
            raise
        except BadAnswer:  # alone, each file is asked for anew
            return False
        finally:
            coming.close()
            came |= coming.came
            spoiled |= coming.spoiled
        if not isinstance(said, NoAnswer):
            return True
        if patience.is_over(said, coming.brought_bytes):
            raise unreachable(box.site, said)
        ctx.say(f"{home.run}: the line was cut ({said.kind}); going on")


def _have(staged: str, row: FileRow) -> int:
    """How many bytes an earlier try left; -1 where something stands there that is left to `fetch`. Raises: OSError."""
    if not os.path.lexists(staged):
        return 0
    if os.path.islink(staged) or not os.path.isfile(staged) or os.path.getsize(staged) > row["bytes"]:
        return -1
    have = os.path.getsize(staged)
    return have if have < row["bytes"] else -1  # whole by its size: `fetch` hashes it


class _Coming:
    """Where the parts of one stream go. A box sends what it likes: a part that was not asked for ends it."""

    def __init__(self, box: Box, home: Home, rows: Sequence[FileRow], progress: Progress, pace: Pace) -> None:
        self.brought_bytes = 0
        self._box, self._home, self._rows, self._progress, self._pace = box, home, rows, progress, pace
        self._number = -1
        self._fd = -1
        self._at = 0
        self._hash = hashlib.sha256()
        self._is_from_start = False
        # Staged paths: of what came whole and is what its row says, and of what is not, and was removed.
        self.came: set[str] = set()
        self.spoiled: set[str] = set()

    def take(self, part: pieces.Part) -> None:
        """The next part. Raises: BadAnswer, OSError."""
        number, offset, data = part
        if number != self._number:
            if not self._number < number < len(self._rows):
                raise self._bad(f"part of file {number} after {self._number} of {len(self._rows)}")
            self._begin(number)
        row = self._rows[number]
        if self._fd < 0 or data is None:
            self._end()
            return
        if offset != self._at or offset + len(data) > row["bytes"] or not data:
            raise self._bad(f"bytes {offset} to {offset + len(data)} of a file of {row['bytes']}, at {self._at}")
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]
        self._hash.update(data)
        self._at += len(data)
        self.brought_bytes += len(data)
        self._progress.add(len(data), row["path"])
        self._pace.take(len(data))
        if self._at == row["bytes"]:
            self._whole(row)

    def close(self) -> None:
        """End. What is half stays for the next."""
        self._end()

    def _begin(self, number: int) -> None:
        self._end()
        self._number, self._hash = number, hashlib.sha256()
        staged = self._home.staged(self._rows[number])
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        self._fd = os.open(staged, flags, 0o666)
        self._at = os.fstat(self._fd).st_size
        self._is_from_start = self._at == 0

    def _whole(self, row: FileRow) -> None:
        self._end()
        staged = self._home.staged(row)
        if self._is_from_start:
            is_it = self._hash.hexdigest() == row["sha256"]
        else:
            is_it = hash_regular(staged, row["bytes"]) == (row["bytes"], row["sha256"])
        if is_it:
            self.came.add(staged)
        else:
            os.unlink(staged)
            self.spoiled.add(staged)

    def _end(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _bad(self, what: str) -> BadAnswer:
        return BadAnswer(site=self._box.site.name, op="send", what=what)
