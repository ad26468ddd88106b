"""The position in the data: restart a loader where it was, load as little as possible twice, refuse the impossible."""

from __future__ import annotations

import sys
import zlib
from typing import Any, Callable, Iterable, Iterator, Mapping

from sojourn.train.state import accelerated, dealing, rng, workers
from sojourn.train.state.indices import Indices, PositionLost, with_indices
from sojourn.train.state.sampler import ResumableSampler


class Batches:
    """Mini-batches of arrays of equal length: each pass yields tuples of `size` rows, in a new order drawn from `rng`.

    With `rng` None the order is fixed. `rng` is any numpy Generator; a Checkpointer that iterates over this keeps it
    automatically. Skipping to a position loads nothing.   Raises: ValueError for arrays of unequal length, size < 1.
    """

    def __init__(self, *arrays: Any, size: int, rng: Any = None, drop_last: bool = False) -> None:
        if size < 1 or not arrays or len({len(array) for array in arrays}) != 1:
            raise ValueError("Batches needs arrays of one length and a size of at least 1")
        self.arrays, self.size, self.generator, self.drop_last = arrays, size, rng, drop_last

    def __len__(self) -> int:
        """Batches in one pass."""
        rows = len(self.arrays[0])
        return rows // self.size if self.drop_last else -(-rows // self.size)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """One pass from its start."""
        return self.iter_from(0)

    def iter_from(self, skip: int) -> Iterator[tuple[Any, ...]]:
        """One pass without its first `skip` batches; draws the same order as a whole one, at once."""
        order = None if self.generator is None else self.generator.permutation(len(self.arrays[0]))
        return self._yield(order, skip)

    def _yield(self, order: Any, skip: int) -> Iterator[tuple[Any, ...]]:
        for start in range(skip * self.size, len(self) * self.size, self.size):
            rows = slice(start, start + self.size) if order is None else order[start : start + self.size]
            yield tuple(array[rows] for array in self.arrays)


def is_stateful(loader: Any) -> bool:
    """It keeps its own position, as torchdata's StatefulDataLoader does."""
    if accelerated.is_adapter(loader):
        return False  # its answer for every loader
    return callable(getattr(loader, "state_dict", None)) and callable(getattr(loader, "load_state_dict", None))


def check(
    loader: Any, declared: Any, generators_kept: Iterable[Any], say: Callable[[str], None] = lambda text: None
) -> None:
    """Whether the position in `loader` can be kept, given the loader and the generators known to the Checkpointer.
    `say` gets what makes a resume inexact, each with what to change.

    Raises: PositionLost for data that can be read only once, or is drawn from a generator that nobody keeps.
    """
    name = type(loader).__qualname__
    if not hasattr(loader, "__iter__") and not hasattr(loader, "__getitem__"):
        raise PositionLost(detail=f"a {name} cannot be iterated over.")
    if is_stateful(loader):
        if loader is not declared:
            raise PositionLost(detail=f"a {name} keeps its own position; give it as Checkpointer(loader=...).")
    elif hasattr(loader, "__next__"):  # an iterator or generator: what was taken from it is gone
        text = "can be read only once. Give what it is made from (a DataLoader, a list, sojourn.train.Batches), or an"
        raise PositionLost(detail=f"a {name} {text} object with __iter__ that starts over each time.")
    kept = list(generators_kept)
    if any(all(mine is not other for other in kept) for mine in generators(loader)):
        text = f"the {name} draws its order from a generator of its own"
        raise PositionLost(
            detail=f"{text}. Give Checkpointer(loader=...) the loader, or name the generator as an item."
        )
    for remark in workers.remarks(loader, kept):
        say(remark)


def all_generators(loader: Any) -> list[Any]:
    """`generators`, and those inside its data set, from which it draws in this process."""
    found = generators(loader)
    return found + [one for one in workers.generators_inside(loader) if all(one is not other for other in found)]


def place(reader: Reader) -> dict[str, Any]:
    """The saved position of a running pass, to compare after its replay, and what that takes."""
    deal = dealing.describe(reader.loader, reader.deal)
    kept = {"length": length(reader.loader), "mark": reader.mark, "ahead": reader.ahead, "round": reader.round}
    return kept if deal is None else dict(kept, deal=deal)


def check_place(reader: Reader, saved: Mapping[str, Any], say: Callable[[str], None]) -> None:
    """Whether a replayed pass is where the saved one was. A loader that may vary its batches only gets a warning.

    Raises: PositionLost.
    """
    now = length(reader.loader)
    if saved.get("is_redealt"):
        return
    if saved["length"] != now:
        raise PositionLost(
            detail=f"the loader had {saved['length']} batches when the checkpoint was written, now {now}."
        )
    if saved["mark"] != reader.mark and reader.is_exact:
        text = "the loader's order differs from when the checkpoint was written"
        raise PositionLost(detail=f"{text}. Name the generator its sampler draws from as an item of the Checkpointer.")
    if saved["mark"] != reader.mark:
        say("the loader gave different values when it was replayed; if its order differs too, so will the result")


def length(loader: Any) -> int | None:
    """Batches in one pass, None if the loader does not say."""
    try:
        return len(loader)
    except (TypeError, NotImplementedError):
        return None


def generators(loader: Any) -> list[Any]:
    """Generators that the loader draws its order from, including its samplers'; without the process-wide ones."""
    found: list[Any] = []
    inner = ("", "sampler.", "batch_sampler.", "batch_sampler.sampler.", "batch_sampler.batch_sampler.sampler.")
    for path in (f"{one}generator" for one in inner):
        value = loader
        for name in path.split("."):
            value = getattr(value, name, None)
        if value is not None and rng.is_generator(value) and all(value is not other for other in found):
            found.append(value)
    return found


class Reader:
    """One pass over a loader that can start in its middle.

    `advance(n)` moves it past the n-th batch; if the loader allows (Batches, sequences, a map-style DataLoader that
    loads in this process or has a ResumableSampler) nothing is loaded for that. Others load and drop the batches, so
    the random numbers of a DataLoader's workers are as before.
    """

    def __init__(
        self, loader: Any, sources: rng.Sources | None = None, say: Callable[[str], None] = lambda text: None
    ) -> None:
        self.loader, self._sources, self._say = loader, sources, say
        self._mark = self._count = 0
        self._is_marked = False
        self._indices: Indices | None = None
        self._iterator: Iterator[Any] | None = None
        self.deal: Mapping[str, Any] | None = None  # of a pass that was divided anew
        self.round = getattr(loader, "iteration", None) if accelerated.is_adapter(loader) else None

    @property
    def mark(self) -> int:
        """Identifies the latest batch: by its indices, or a few of its values; 0 if the order cannot vary."""
        return self._indices.mark(self._count) if self._indices is not None else self._mark

    @property
    def ahead(self) -> Any:
        """The random state when a batch not yet given began to load; None if there is none."""
        is_ahead = self._indices is not None and self._indices.count > self._count
        return self._indices.drawn if self._indices is not None and is_ahead else None

    @property
    def is_exact(self) -> bool:
        """`mark` is of indices: it must be equal after a replay. Otherwise a loader may vary what it gave before."""
        return self._indices is not None

    def advance(self, skip: int, at: Mapping[str, Any] | None = None, now: Any = None) -> None:
        """Start the pass after its first `skip` batches. `at`: the saved place; `now`: the random state there.

        Raises: PositionLost if there are fewer.
        """
        self._count = skip
        if self.round is not None:
            self.round = self.round if at is None or at.get("round") is None else at["round"]
            self.loader.iteration = self.round
        if at is not None and (at.get("deal") or {}).get("done"):
            self._start_redealt(skip, at["deal"])
        elif hasattr(self.loader, "iter_from"):
            self._iterator = self.loader.iter_from(skip)
        elif _is_sequence(self.loader):
            self._iterator = (self.loader[index] for index in range(skip, len(self.loader)))
        elif _loads_here(self.loader) and accelerated.is_adapter(self.loader):
            self._iterator = self._start_ahead(skip, at, now)
        elif _loads_here(self.loader):
            clone, self._indices = with_indices(self.loader)
            self._indices.watch(self._say)
            self._iterator = iter(clone)
            self._indices.drop(skip)
        elif _resumable(self.loader) is not None:
            sampler, entries = _resumable(self.loader)
            sampler.skip_next(skip * entries)
            if skip and skip * entries >= len(sampler) + entries:
                raise PositionLost(detail="the loader's sampler ends before the saved position.")
            self._iterator = workers.begin(self.loader, self._say)
        else:
            self._is_marked = True
            self._iterator = workers.begin(self.loader, self._say)
            for done in range(skip):
                if next(self, self) is self:
                    raise PositionLost(detail=f"{done} batches come from the loader where {skip} were read before.")
            self._count = skip

    def _start_ahead(self, skip: int, at: Mapping[str, Any] | None, now: Any) -> Iterator[Any]:
        """Start a loader that reads another one a batch ahead: the next two batches are loaded when the first of them
        is requested, each with its original random numbers.
        """
        clone, self._indices = with_indices(self.loader.base_dataloader)
        self.loader.base_dataloader = clone
        self._indices.sources = self._sources
        self.loader.set_epoch(self.round)
        if skip:
            iter(clone)  # this draws, as it did before
            self._indices.drop(skip)
            self._indices.is_begun = True
        if at is not None and self._sources is not None:
            self._indices.redraw = [one for one in (at.get("ahead"), now) if one is not None]
        return iter(self.loader)

    def _start_redealt(self, skip: int, deal: Mapping[str, Any]) -> None:
        """Start behind `skip` batches, of which `deal["at"]` were read before the pass was divided anew."""
        batches = dealing.rest(self.loader, deal)
        if batches is None:
            text = "another number of processes began this epoch, and the loader, or its DistributedSampler's order, is"
            raise PositionLost(detail=f"{text} another: the rest cannot be divided anew.")
        self.deal, self._count = deal, skip - deal["at"]
        clone, indices = with_indices(self.loader)
        indices.sampler = batches[self._count :]
        self._iterator = iter(clone)

    def start_as_it_stands(self, state: Any = None, say: Callable[[str], None] = lambda text: None) -> None:
        """Start a loader that keeps its own position, from `state` if given."""
        if state is not None:
            self.loader.load_state_dict(state)
        if getattr(self.loader, "num_workers", 0):
            say("the loader keeps its position but not its workers' random numbers; a plain one does")
        self._iterator = workers.begin(self.loader, self._say)

    def __iter__(self) -> Reader:
        return self

    def __next__(self) -> Any:
        assert self._iterator is not None
        try:
            batch = next(self._iterator)
        except StopIteration:
            if self.round is not None:
                self.loader.iteration = self.round + 1  # it does not count a pass that began after its last batch
            raise
        self._count += 1
        if self._is_marked:
            self._mark = _mark(batch)
        return batch


def _is_sequence(loader: Any) -> bool:
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if isinstance(loader, (list, tuple, range)):
        return True
    if numpy is not None and isinstance(loader, numpy.ndarray):
        return True
    return torch is not None and isinstance(loader, torch.Tensor)


def _loads_here(loader: Any) -> bool:
    """A map-style DataLoader of PyTorch that loads in this process."""
    data = sys.modules.get("torch.utils.data")
    if data is None or not isinstance(loader, data.DataLoader) or loader.num_workers:
        return False
    return not isinstance(loader.dataset, data.IterableDataset)


def _resumable(loader: Any) -> Any:
    """(the ResumableSampler of a map-style DataLoader, its entries per batch), None if it has none."""
    data = sys.modules.get("torch.utils.data")
    if data is None or not isinstance(loader, data.DataLoader) or isinstance(loader.dataset, data.IterableDataset):
        return None
    if isinstance(loader.batch_sampler, ResumableSampler):
        return loader.batch_sampler, 1
    if isinstance(loader.sampler, ResumableSampler):
        return loader.sampler, loader.batch_size or 1
    return None


def _mark(batch: Any) -> int:
    """A number from the shape and the first and last bytes of everything in a batch; cheap, not a proof of equality."""
    crc, parts = 0, [batch]
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            parts.extend(part.values())
        elif isinstance(part, (list, tuple)) and len(part) < 64:
            parts.extend(part)
        elif hasattr(part, "shape") and hasattr(part, "dtype"):
            crc = zlib.crc32(f"{tuple(part.shape)} {part.dtype}".encode() + _ends(part), crc)
        else:
            crc = zlib.crc32(repr(part)[:256].encode("utf-8", "replace"), crc)
    return crc


def _ends(part: Any) -> bytes:
    if getattr(getattr(part, "device", None), "type", "cpu") not in ("cpu", ""):
        return b""  # reading from a GPU would wait for it
    flat: Any = part.reshape(-1)
    return repr([flat[:4].tolist(), flat[-4:].tolist()]).encode("utf-8")


__all__ = [
    "Batches",
    "PositionLost",
    "Reader",
    "all_generators",
    "check",
    "check_place",
    "generators",
    "is_stateful",
    "length",
    "place",
]
