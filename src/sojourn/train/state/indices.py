"""The order of a DataLoader's sampler, with its first entries dropped and the latest one known."""

from __future__ import annotations

import copy
import zlib
from typing import Any, Callable, Iterator

from sojourn.train.state import rng
from sojourn.wire.errors import Misuse

_WATCHED = 16  # entries of a sampler


class PositionLost(Misuse):
    """The position in the data cannot be saved: {detail}"""

    code = "position-lost"


class Indices:
    """A sampler's order on its way into a DataLoader: can drop its first entries, and knows the latest.

    It starts on first use, as inside the loader: what a DataLoader itself draws, it draws before.
    """

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler
        self.count = 0
        self.iterator: Iterator[Any] | None = None
        self.is_begun = False  # entries were dropped, so do not restart it with the loader
        self.sources: rng.Sources | None = None  # whose state is kept for each, and set to `redraw`'s
        self.redraw: list[Any] = []
        self.drawn: Any = None
        self._latest: list[Any] = [None, None]
        self._watching: Callable[[str], None] | None = None

    def watch(self, say: Callable[[str], None]) -> None:
        """Report, early in a pass, a sampler that draws while the training does: its order cannot be drawn again."""
        inner = getattr(self.sampler, "sampler", None)
        if not all(
            type(one).__module__.startswith("torch.utils.data") for one in (self.sampler, inner or self.sampler)
        ):
            self._watching = say

    def mark(self, count: int) -> int:
        """Identifies the entry with this number, the latest or the previous one."""
        return zlib.crc32(repr(self._latest[1 if count >= self.count else 0]).encode("utf-8"))

    def __iter__(self) -> Indices:
        if not self.is_begun:
            self.iterator, self.count = None, 0
        self.is_begun = False
        return self

    def __next__(self) -> Any:
        if self.iterator is None:
            self.iterator = iter(self.sampler)
        entry = self._watched() if self._watching is not None else next(self.iterator, self)
        if self.sources is not None:
            if self.redraw:
                self.sources.restore(self.redraw.pop(0))
            self.drawn = self.sources.capture()
        if entry is self:
            raise StopIteration
        self._latest = [self._latest[1], entry]
        self.count += 1
        return entry

    def _watched(self) -> Any:
        assert self.iterator is not None and self._watching is not None
        before = rng.capture({}, ()) if 0 < self.count < _WATCHED else None
        entry = next(self.iterator, self)
        if before is not None and before != rng.capture({}, ()):
            self._watching(
                f"the sampler {type(self.sampler).__qualname__} draws random numbers in the middle of a pass, so only "
                "ends of epochs can be resumed: let it draw them all at its start, or from a generator of its own"
            )
        return entry

    def __len__(self) -> int:
        return len(self.sampler)

    def drop(self, count: int) -> None:
        """Skip this many."""
        for _ in range(count):
            try:
                next(self)
            except StopIteration:
                raise PositionLost(detail="the loader's sampler ends before the place where it stood.") from None


def with_indices(loader: Any) -> tuple[Any, Indices]:
    """A twin of the DataLoader that takes its indices through an `Indices`. The loader itself is unchanged.

    The twin's attributes are set in its `__dict__`: a DataLoader refuses a new sampler after construction, and a new
    one would lack a subclass's additions.   Can go when DataLoader itself can start at a position.
    """
    twin = copy.copy(loader)
    name = "sampler" if loader.batch_sampler is None else "batch_sampler"
    sampler = getattr(loader, name)
    indices = Indices(sampler.sampler if isinstance(sampler, Indices) else sampler)
    twin.__dict__[name] = indices
    twin.__dict__["_iterator"] = None
    return twin, indices
