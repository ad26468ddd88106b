"""A sampler that can begin in the middle of a pass: for a DataLoader with workers, whose batches take long to load."""

from __future__ import annotations

from itertools import islice
from typing import Any, Iterable, Iterator


class ResumableSampler:
    """Wraps a sampler or batch sampler of a map-style DataLoader, so that nothing is loaded to find a place again.

        loader = DataLoader(data, sampler=ResumableSampler(RandomSampler(data)), batch_size=32, num_workers=8)

    The order stays the wrapped one's, drawn anew with the random numbers its pass began with. What it gives up against
    a plain DataLoader with workers: random numbers that the data set draws *in the workers* do not go on where they
    stood, since the batches before are not loaded. Right where the data set draws none, or draws them by the index.
    Everything else is asked of the wrapped sampler (`generator`, `set_epoch`, `batch_size` ...).
    """

    def __init__(self, sampler: Iterable[Any]) -> None:
        self.sampler = sampler
        self._skip = 0

    def skip_next(self, count: int) -> None:
        """Let the next pass begin behind its first `count` entries."""
        self._skip = count

    def __iter__(self) -> Iterator[Any]:
        """One pass, from where `skip_next` said or from its start."""
        # All of it when first asked for an entry: a DataLoader with workers makes two iterators and uses one.
        skip, self._skip = self._skip, 0
        yield from islice(self.sampler, skip, None)

    def __len__(self) -> int:
        """Entries of a whole pass."""
        return len(self.sampler)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        if name in ("sampler", "__setstate__"):
            raise AttributeError(name)  # a half-made copy has no sampler yet
        return getattr(self.sampler, name)
