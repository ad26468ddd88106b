"""One question to the keeper with a stream of contents: pushed after the question, or brought home after the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from sojourn.backends.keeper import bootstrap
from sojourn.backends.keeper.client import Answer, Keeper
from sojourn.backends.keeper.decode import BadAnswer
from sojourn.core.streams import StreamingTransport
from sojourn.core.values import Ended, NoAnswer
from sojourn.wire import framing, pieces

_FRAME_BYTES = 64 << 20  # the largest frame: an answer of `receive` lists what is lacking
_TRIES = 3  # a search for a Python, installing the keeper, and the call itself

if TYPE_CHECKING:
    Take = Callable[[pieces.Part], None]


def can_stream(keeper: Keeper) -> bool:
    """Whether the connection to this box carries streams."""
    transport = getattr(keeper, "transport", None)
    return getattr(transport, "stream", None) is not None


def stream(
    keeper: Keeper,
    op: str,
    *,
    source: Callable[[], Iterable[bytes]] = lambda: (),
    take: Take | None = None,
    timeout_s: float,
    quiet_s: float = float("inf"),
    **fields: Any,
) -> Answer | NoAnswer:
    """Ask `op`; `source()` makes the frames to send, `take` gets each part that arrives (`wire.pieces`).

    A NoAnswer may have sent and received some of it. Raises: as `Keeper.ask`; BadAnswer if the data is not such a
    stream; and what `source` and `take` raise.
    """
    if (no := keeper.unseen(op)) is not None:
        return no
    request = {"op": op, "base": keeper.site.base, **fields}
    transport = cast("StreamingTransport", keeper.transport)
    is_searching = False
    for _ in range(_TRIES):
        argv = keeper.argv(search=is_searching)
        heard = _Heard(take)
        stdin = cast(BinaryIO, _Source(framing.pack_json(request), source))
        try:
            ended = transport.stream(argv, stdin=stdin, out=heard, timeout_s=timeout_s, quiet_s=quiet_s)
        except framing.Torn as torn:
            raise BadAnswer(site=keeper.site.name, op=op, what=str(torn)) from torn
        ended = keeper.whole(op, ended)
        if isinstance(ended, NoAnswer):
            return ended
        first = Ended(ended.rc, heard.incoming.head, ended.stderr)
        if heard.value is None and bootstrap.asks_for_search(first.rc, first.stdout):
            is_searching = True
            continue
        put = keeper.put_where_missing(op, first, timeout_s) if not heard.is_good else None
        if isinstance(put, NoAnswer):
            return put
        if put:
            continue
        if not heard.is_good:
            return keeper.read(op, first)  # raises the reason
        if take is not None and not heard.reading.is_over:
            return NoAnswer(sent=True, kind="reset", detail="the stream from the box ended in the middle")
        return keeper.decoded(op, request, heard.value)
    return NoAnswer(sent=False, kind="no-keeper", detail="the keeper that was put there is not found there")


class _Source:
    """The question and its data, as a readable file."""

    def __init__(self, question: bytes, source: Callable[[], Iterable[bytes]]) -> None:
        self._question, self._make = question, source
        self._rest: Iterator[bytes] | None = None

    def read(self, size: int = -1) -> bytes:
        """The next piece, of any size; b"" at the end. Raises: what making it raises."""
        if self._rest is None:  # only now: a call that is never sent reads nothing
            self._rest = iter(self._make())
            return self._question
        return next(self._rest, b"")


class _Heard:
    """A sink for the box's output: the answer, then the parts."""

    def __init__(self, take: Take | None) -> None:
        self.incoming = framing.Incoming(_FRAME_BYTES)
        self.reading = pieces.Reading()
        self.value: Any = None
        self._take = take

    @property
    def is_good(self) -> bool:
        """The keeper answered, and did not refuse."""
        return isinstance(self.value, dict) and self.value.get("ok") is True

    def __call__(self, data: bytes) -> None:
        for kind, value in self.incoming.feed(data):
            if self.value is None:
                if kind != b"J":
                    raise framing.Torn("bytes before the answer")
                self.value = value
            elif self._take is None or not self.is_good:
                raise framing.Torn("more than an answer")
            else:
                for part in self.reading.take(kind, value):
                    self._take(part)
