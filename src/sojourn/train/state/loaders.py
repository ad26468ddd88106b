"""The position in the data: start a loader over where it stood, load as little as possible twice, refuse what cannot be
done.
"""

from __future__ import annotations

import copy
import sys
import zlib
from typing import Any, Callable, Iterable, Iterator, Mapping

from sojourn.train.state import rng
from sojourn.train.state.sampler import ResumableSampler
from sojourn.wire.errors import Misuse


class PositionLost(Misuse):
    """The position in the data cannot be saved: {detail}"""

    code = "position-lost"


class Batches:
    """Mini-batches of arrays of equal length: each pass yields tuples of `size` rows, in a new order drawn from `rng`.

    With `rng` None the order stays as it is. `rng` is any numpy Generator; a Checkpointer that iterates over this keeps
    it by itself. Skipping to a position loads nothing.   Raises: ValueError for arrays of unequal length, size < 1.
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
        """One pass without its first `skip` batches; draws the same order as a whole one, and draws it now."""
        order = None if self.generator is None else self.generator.permutation(len(self.arrays[0]))
        return self._yield(order, skip)

    def _yield(self, order: Any, skip: int) -> Iterator[tuple[Any, ...]]:
        for start in range(skip * self.size, len(self) * self.size, self.size):
            rows = slice(start, start + self.size) if order is None else order[start : start + self.size]
            yield tuple(array[rows] for array in self.arrays)


def is_stateful(loader: Any) -> bool:
    """It keeps its own position, as torchdata's StatefulDataLoader does."""
    return callable(getattr(loader, "state_dict", None)) and callable(getattr(loader, "load_state_dict", None))


def check(loader: Any, declared: Any, generators_kept: Iterable[Any]) -> None:
    """Whether the position in `loader` can be kept, given the loader and the generators the Checkpointer was told of.

    Raises: PositionLost for what can be read only once, or draws from a generator that nobody keeps.
    """
    name = type(loader).__qualname__
    if not hasattr(loader, "__iter__") and not hasattr(loader, "__getitem__"):
        raise PositionLost(detail=f"a {name} cannot be iterated over.")
    if is_stateful(loader):
        if loader is not declared:
            raise PositionLost(detail=f"a {name} keeps its own position; give it as Checkpointer(loader=...).")
    elif hasattr(loader, "__next__"):  # an iterator or generator: what was taken from it is gone
        text = "can be read only once. Give what it is made from (a DataLoader, a list, sojourn.train.Batches), or an"
        raise PositionLost(detail=f"a {name} {text} object with __iter__ that starts anew each time.")
    kept = list(generators_kept)
    if any(all(mine is not other for other in kept) for mine in generators(loader)):
        text = f"the {name} draws its order from a generator of its own"
        raise PositionLost(
            detail=f"{text}. Give Checkpointer(loader=...) the loader, or name the generator as an item."
        )


def place(reader: Reader) -> dict[str, Any]:
    """What of a running pass is compared after its replay."""
    return {"length": length(reader.loader), "mark": reader.mark}


def check_place(reader: Reader, saved: Mapping[str, Any], say: Callable[[str], None]) -> None:
    """Whether a replayed pass stands where the saved one stood. A loader that may vary its batches is only warned of.

    Raises: PositionLost.
    """
    now = length(reader.loader)
    if saved["length"] != now:
        raise PositionLost(
            detail=f"the loader had {saved['length']} batches when the checkpoint was written, now {now}."
        )
    if saved["mark"] != reader.mark and reader.is_exact:
        text = "the loader comes in another order than when the checkpoint was written"
        raise PositionLost(detail=f"{text}. Name the generator its sampler draws from as an item of the Checkpointer.")
    if saved["mark"] != reader.mark:
        say("the loader gave other values when it was replayed; if its order differs too, the result will")


def length(loader: Any) -> int | None:
    """Batches in one pass, None where the loader does not say."""
    try:
        return len(loader)
    except (TypeError, NotImplementedError):
        return None


def generators(loader: Any) -> list[Any]:
    """Generators that the loader draws its order from, its samplers' included; the process-wide ones are not among
    them.
    """
    found: list[Any] = []
    for path in ("generator", "sampler.generator", "batch_sampler.generator", "batch_sampler.sampler.generator"):
        value = loader
        for name in path.split("."):
            value = getattr(value, name, None)
        if value is not None and rng.is_generator(value) and all(value is not other for other in found):
            found.append(value)
    return found


class Reader:
    """One pass over a loader that can begin in its middle.

    `advance(n)` puts it behind the n-th batch; where the loader allows (Batches, sequences, a map-style DataLoader that
    loads in this process or has a ResumableSampler) nothing is loaded for that. Others load and drop the batches; so
    the random numbers of a DataLoader's workers stand where they stood.
    """

    def __init__(self, loader: Any) -> None:
        self.loader = loader
        self._mark = 0
        self._is_marked = False
        self._indices: _Indices | None = None
        self._iterator: Iterator[Any] | None = None

    @property
    def mark(self) -> int:
        """Names the latest batch: by its indices, or by a few of its values; 0 where the order can only be the same."""
        return self._indices.mark if self._indices is not None else self._mark

    @property
    def is_exact(self) -> bool:
        """`mark` is of indices: after a replay it must be the same. Otherwise a loader may vary what it gave before."""
        return self._indices is not None

    def advance(self, skip: int) -> None:
        """Start the pass behind its first `skip` batches. Raises: PositionLost where there are fewer."""
        if hasattr(self.loader, "iter_from"):
            self._iterator = self.loader.iter_from(skip)
        elif _is_sequence(self.loader):
            self._iterator = (self.loader[index] for index in range(skip, len(self.loader)))
        elif _loads_here(self.loader):
            clone, self._indices = _with_indices(self.loader)
            self._iterator = iter(clone)
            for _ in range(skip):
                self._indices.drop()
        elif _resumable(self.loader) is not None:
            sampler, entries = _resumable(self.loader)
            sampler.skip_next(skip * entries)
            if skip and skip * entries >= len(sampler) + entries:
                raise PositionLost(detail="the loader's sampler ends before the place where it stood.")
            self._iterator = iter(self.loader)
        else:
            self._is_marked = True
            self._iterator = iter(self.loader)
            for done in range(skip):
                if next(self, self) is self:
                    raise PositionLost(detail=f"{done} batches come from the loader where {skip} were read before.")

    def start_as_it_stands(self) -> None:
        """Start a loader that keeps its own position."""
        self._iterator = iter(self.loader)

    def __iter__(self) -> Reader:
        return self

    def __next__(self) -> Any:
        assert self._iterator is not None
        batch = next(self._iterator)
        if self._is_marked:
            self._mark = _mark(batch)
        return batch


class _Indices:
    """A sampler's order on its way into a DataLoader: can drop the first of it, and knows which came last.

    It begins when first asked, as inside the loader: what a DataLoader itself draws, it draws before.
    """

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler
        self.latest: Any = None
        self.iterator: Iterator[Any] | None = None

    @property
    def mark(self) -> int:
        return zlib.crc32(repr(self.latest).encode("utf-8"))

    def __iter__(self) -> _Indices:
        self.iterator = None
        return self

    def __next__(self) -> Any:
        if self.iterator is None:
            self.iterator = iter(self.sampler)
        self.latest = next(self.iterator)
        return self.latest

    def __len__(self) -> int:
        return len(self.sampler)

    def drop(self) -> None:
        try:
            next(self)
        except StopIteration:
            raise PositionLost(detail="the loader's sampler ends before the place where it stood.") from None


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
    """(the ResumableSampler of a map-style DataLoader, its entries a batch), None where it has none."""
    data = sys.modules.get("torch.utils.data")
    if data is None or not isinstance(loader, data.DataLoader) or isinstance(loader.dataset, data.IterableDataset):
        return None
    if isinstance(loader.batch_sampler, ResumableSampler):
        return loader.batch_sampler, 1
    if isinstance(loader.sampler, ResumableSampler):
        return loader.sampler, loader.batch_size or 1
    return None


def _with_indices(loader: Any) -> tuple[Any, _Indices]:
    """A twin of the DataLoader that takes its indices through an `_Indices`. The loader itself stays as it is.

    The twin's attributes are set in its `__dict__`: a DataLoader refuses a new sampler after it was made, and one made
    anew would not have what a subclass added.   Can go when DataLoader itself can start at a position.
    """
    twin = copy.copy(loader)
    name = "sampler" if loader.batch_sampler is None else "batch_sampler"
    indices = _Indices(getattr(loader, name))
    twin.__dict__[name] = indices
    twin.__dict__["_iterator"] = None
    return twin, indices


def _mark(batch: Any) -> int:
    """A number from the shape and the first and last bytes of everything in a batch; cheap, so no proof of equality."""
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
        return b""  # asking a GPU would wait for it
    flat: Any = part.reshape(-1)
    return repr([flat[:4].tolist(), flat[-4:].tolist()]).encode("utf-8")
