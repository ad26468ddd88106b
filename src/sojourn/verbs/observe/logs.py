"""`logs`: the run's own log, as bytes, piece by piece; across its rotation, and to the end of the attempt."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from sojourn.store.records import RunRecord
from sojourn.verbs.context import Box, Context, unreachable
from sojourn.verbs.observe.refresh import refresh_one
from sojourn.wire.errors import Misuse, WorldError

PIECE_BYTES = 4 << 20
FIRST_LOOK_S, LAST_LOOK_S = 0.2, 3.0
PATIENCE_S = 600.0  # following goes on for so long while the site does not answer
HEAR_S = 10.0  # while bytes come, whether the run has ended is asked so often
MOST_MOVES = 4  # that a log is moved aside while one look reads it: it takes 256 MiB each time
MOST_BYTES = 4 << 30  # of one part of a log; a keeper begins the next one after 256 MiB


class NoLog(Misuse):
    """{run} has no log{of}: {why}."""

    code = "no-log"
    next_step = "sojourn status {run}"


class Restless(WorldError):
    """The log of {run} was rotated {times} times while it was being read."""

    code = "restless-log"
    next_step = "sojourn logs {run} --tail 100"


class TooLong(WorldError):
    """The box reports {size} bytes for a part of the log of {run}, more than any keeper writes."""

    code = "log-too-long"
    next_step = "sojourn status {run}"


def logs(
    ctx: Context, run: str, *, attempt: int | None = None, tail: int | None = None, follow: bool = False
) -> Iterator[bytes]:
    """Bytes of an attempt's log (the newest's by default): all of it, or its last `tail` lines.

    With `follow` also what comes, until the attempt has ended; a site that does not answer is asked again for ten
    minutes. Raises: Misuse (not-found, no-log), Unreachable, WorldError.
    """
    record = ctx.store.index.find(run)
    if record.attempt == 0:
        raise NoLog(run=record.id, of="", why="it was never launched")
    box = ctx.box(record.site, record.lease)
    view = refresh_one(ctx, record)
    newest = max(view.status.attempt, view.record.attempt)
    number = newest if attempt is None else attempt
    if number > newest:
        raise NoLog(run=record.id, of=f" of attempt {number}", why=f"the newest is attempt {newest}")
    log = _Log(box, record, number)
    yield from log.begin(tail)
    if view.is_blind and number == newest and not log.exists:
        from sojourn.backends.mirror import blind

        if not follow:
            raise unreachable(box.site, blind(box.site.name))
        ctx.say(view.status.reason)
    if follow:
        yield from _followed(ctx, record, log, number)
    elif not log.exists and view.status.state.is_final:
        raise NoLog(
            run=record.id, of=f" of attempt {number}", why=view.status.reason or "it ended before its process started"
        )


def _followed(ctx: Context, record: RunRecord, log: _Log, number: int) -> Iterator[bytes]:
    pause_s, heard_s, looked_s, is_over = FIRST_LOOK_S, ctx.now_s(), ctx.now_s(), False
    while True:
        try:
            got = yield from log.more()
            heard_s = ctx.now_s()
        except WorldError as error:
            if not error.retry or ctx.now_s() - heard_s > PATIENCE_S:
                raise
            ctx.say(error.message)
            got = False
        if is_over:
            return  # what was read just now was read after its end
        pause_s = FIRST_LOOK_S if got else min(pause_s * 1.5, LAST_LOOK_S)
        if not got or ctx.now_s() - looked_s >= HEAR_S:
            view = refresh_one(ctx, ctx.store.index.find(record.id))
            looked_s = ctx.now_s()
            is_over = view.status.attempt > number or view.status.state.is_final
        if not is_over:
            ctx.sleep(pause_s)


class _Log:
    """One attempt's log on the box, read from a position on. Over its limit it becomes N.log.1 and starts anew.

    What one look reads ends where the log ended when that look began: a log that grows faster than it is read, or of
    which a box says so, holds nobody for ever. That bytes come from where they were asked is proven before (`decode`).
    """

    def __init__(self, box: Box, record: RunRecord, number: int) -> None:
        self._box, self._run, self._path = box, record.id, f"logs/{number}.log"
        self._at = 0
        self._aside: str | None = None  # the part moved aside last; None before any answer
        self.exists = False

    def begin(self, tail: int | None) -> Iterator[bytes]:
        """What is there now: the last `tail` lines, or all of it with what was moved aside."""
        if tail is None:
            yield from self._rest(self._path + ".1", 0)
            yield from self.more()
            return
        answer = self._ask(self._path, tail_lines=tail)
        if answer is not None:
            offset, _, data, self._aside = answer
            self._at = offset + len(data)
            yield data

    def more(self) -> Generator[bytes, None, bool]:
        """What came since; returns whether there was any. Raises: Restless."""
        got, moves, until = False, 0, -1
        while until < 0 or self._at < until:
            answer = self._ask(self._path, offset=self._at, length=PIECE_BYTES)
            if answer is None:
                return got
            offset, size, data, aside = answer
            known, self._aside = self._aside, aside
            if size < self._at or known not in (None, aside):  # moved aside: first what we have not read of that
                moves += 1
                if moves > MOST_MOVES:
                    raise Restless(run=self._run, times=moves)
                yield from self._rest(self._path + ".1", self._at)
                self._at, got, until = 0, True, -1
            elif not data:
                return got
            else:
                until = size if until < 0 else until
                self._at, got = offset + len(data), True
                yield data
        return got

    def _rest(self, path: str, offset: int) -> Iterator[bytes]:
        until = -1
        while until < 0 or offset < until:
            answer = self._ask(path, offset=offset, length=PIECE_BYTES)
            if answer is None or not answer[2] or answer[0] != offset:
                return
            until = answer[1] if until < 0 else until
            yield answer[2]
            offset += len(answer[2])

    def _ask(self, path: str, **fields: int) -> tuple[int, int, bytes, str] | None:
        """(offset of the first byte, size of the file, bytes, what was moved aside), or None: no such file (yet).

        Raises: WorldError, TooLong.
        """
        try:
            answer = self._box.answer("read", run=self._run, path=path, **fields)
        except WorldError as error:
            if error.code != "no-such-file":
                raise
            return None
        self.exists = True
        value = answer.value
        if value["size"] > MOST_BYTES:
            raise TooLong(run=self._run, size=value["size"])
        return value["offset"], value["size"], answer.blobs[0], value.get("aside", "")
