"""A sampler that can start in the middle of a pass: for a DataLoader with workers, whose batches are slow to load."""

from __future__ import annotations

from itertools import islice
from typing import Any, Iterable, Iterator


class ResumableSampler:
    """Wraps a sampler or batch sampler of a map-style DataLoader, so that resuming a position loads nothing.

        loader = DataLoader(data, sampler=ResumableSampler(RandomSampler(data)), batch_size=32, num_workers=8)

    The order remains the wrapped sampler's, redrawn with the random numbers of the pass's start. The cost against a
    plain DataLoader with workers: random numbers drawn by the data set *in the workers* do not continue, since the
    batches before are not loaded. Right if the data set draws none, or draws by index. Everything else is passed to the
    wrapped sampler (`generator`, `set_epoch`, `batch_size` ...).
    """

    def __init__(self, sampler: Iterable[Any]) -> None:
        self.sampler = sampler
        self._skip = 0

    def skip_next(self, count: int) -> None:
        """Let the next pass skip its first `count` entries."""
        self._skip = count

    def __iter__(self) -> Iterator[Any]:
        """One pass, after what `skip_next` skips."""
        # On the first request for an entry: a DataLoader with workers creates two iterators and uses one.
        skip, self._skip = self._skip, 0
        yield from islice(self.sampler, skip, None)

    def __len__(self) -> int:
        """Entries in a whole pass."""
        return len(self.sampler)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        if name in ("sampler", "__setstate__"):
            raise AttributeError(name)  # a half-made copy has no sampler yet
        return getattr(self.sampler, name)
