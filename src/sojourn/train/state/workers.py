"""What a DataLoader draws out of the training's sight: in workers that outlive a pass, and inside its data set.

A worker starts with seeds drawn by the loader. Persistent workers start once, so in later passes their random numbers,
and those of the loader itself, depend on all passes before; a restarted training has others. Here they get, for each
pass, the seeds that new workers would get.
Source: torch/utils/data/dataloader.py and _utils/worker.py of PyTorch 2.13, 2026-11.
"""

from __future__ import annotations

import importlib
import random
import sys
from types import FunctionType, ModuleType
from typing import Any, Callable, Iterator, List, Sequence, Tuple

from sojourn.train.state import rng

_DEEPEST, _MOST = 6, 5000  # of what is looked at inside a data set
_PLAIN = (str, bytes, bytearray, int, float, complex, bool, type(None), type, FunctionType, ModuleType)


class _Seeds:
    """Travels to a persistent worker in the message that starts a pass; arrives there as None, the worker reseeded."""

    def __init__(self, base_seed: int) -> None:
        self._base_seed = base_seed

    def __reduce__(self) -> Tuple[Callable[[int], None], Tuple[int]]:
        return reseed, (self._base_seed,)


def begin(loader: Any, say: Callable[[str], None]) -> Iterator[Any]:
    """`iter(loader)`, with the random numbers of a loader whose workers are new in each pass."""
    inner = getattr(loader, "base_dataloader", loader)
    alive = inner.__dict__.get("_iterator") if getattr(inner, "persistent_workers", False) else None
    if alive is None:
        return iter(loader)
    if not _can_reseed(inner, alive):
        say(
            "persistent_workers: this loader's workers are started anew in each pass, since they run a worker_init_fn "
            "or cannot be reseeded; a resume would not be exact with the old ones"
        )
        del alive
        inner._iterator = None
        return iter(loader)
    torch = sys.modules["torch"]
    drawn = torch.empty((), dtype=torch.int64).random_(generator=inner.generator)  # as in _BaseDataLoaderIter
    alive._shared_seed = _Seeds(int(drawn.item()))
    return iter(loader)


def reseed(base_seed: int) -> None:
    """In a worker: seed Python, PyTorch and numpy as in a new worker with this base seed."""
    worker = importlib.import_module("torch.utils.data._utils.worker")
    info = worker.get_worker_info()
    if info is None:
        return  # not in a worker
    seed = base_seed + info.id
    random.seed(seed)
    importlib.import_module("torch").manual_seed(seed)
    if worker.HAS_NUMPY:
        importlib.import_module("numpy").random.seed(worker._generate_state(base_seed, info.id))
    object.__setattr__(info, "seed", seed)  # it refuses an assignment


def _can_reseed(loader: Any, alive: Any) -> bool:
    worker = sys.modules.get("torch.utils.data._utils.worker")
    known = all(hasattr(worker, name) for name in ("HAS_NUMPY", "_generate_state", "get_worker_info"))
    shared = getattr(alive, "_shared_seed", 0)  # None unless the data set is a data pipe, or by us
    return known and loader.worker_init_fn is None and (shared is None or isinstance(shared, _Seeds))


def remarks(loader: Any, kept: Sequence[Any]) -> list[str]:
    """What about this loader makes a resume in mid-epoch inexact, and what to change; one line each. `kept`: generators
    whose state is saved.
    """
    inner = getattr(loader, "base_dataloader", loader)
    inside = generators_inside(inner)
    if not getattr(inner, "num_workers", 0):
        if all(any(one is other for other in kept) for one in inside):
            return []
        return ["the data set draws from a generator of its own, which is not saved: give Checkpointer(loader=...)"]
    found = []
    if not getattr(inner, "in_order", True):
        found.append("in_order=False yields batches as workers finish them, so a resume is not exact: leave it out")
    if getattr(inner, "persistent_workers", False) and inside:
        found.append(
            "the data set draws from a generator of its own, which persistent workers carry from pass to pass, so a "
            "resume is not exact: set persistent_workers=False, or draw from random, numpy.random or torch"
        )
    return found


def generators_inside(loader: Any) -> list[Any]:
    """Random generators that objects of the loader's data set hold: numpy Generators, those of albumentations.

    In the order of attributes. Containers of more than a few entries are taken for data.
    """
    data = getattr(getattr(loader, "base_dataloader", loader), "dataset", None)
    found: List[Any] = []
    level: List[Any] = [data, getattr(loader, "collate_fn", None)]
    seen = {id(one) for one in level}
    for _ in range(_DEEPEST):
        below: List[Any] = []
        for outer in level:
            for value in _parts(outer):
                if id(value) in seen or isinstance(value, _PLAIN) or len(seen) > _MOST:
                    continue
                seen.add(id(value))
                (found if rng.is_generator(value) else below).append(value)
        level = below
    return found


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)) and len(value) <= 64:
        yield from value
    elif isinstance(value, dict) and len(value) <= 64:
        yield from value.values()
    elif not isinstance(value, (list, tuple, dict)):
        yield from list(getattr(value, "__dict__", {}).values())
