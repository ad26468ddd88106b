"""Dividing the rest of an epoch anew when another number of processes resumes in its middle.

A DistributedSampler deals one order, the same for all, to its processes in turn. What they have read when all stand at
the same batch is the beginning of that order; the rest is dealt to the new processes, each sample once (but for what a
DistributedSampler repeats at the end, so that all take as many steps).
Source: torch/utils/data/distributed.py of PyTorch 2.13, 2026-11.
"""

from __future__ import annotations

import copy
import sys
from typing import Any, Mapping, Sequence

from sojourn.train.distributed import OtherWorld


def describe(loader: Any, deal: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What it takes to divide this pass anew; None if it cannot be done. `deal`: of a pass that was divided before.

    `done`: samples read in all processes before the division; `at`: the batches read in each by then; `batch`: samples
    per batch; `order`: what the order depends on.
    """
    data = sys.modules.get("torch.utils.data")
    sampler = getattr(loader, "sampler", None)
    if data is None or sampler is None or type(sampler) is not data.distributed.DistributedSampler:
        return None
    if not isinstance(loader, data.DataLoader) or type(loader.batch_sampler) is not data.BatchSampler:
        return None
    before = {"done": 0, "at": 0} if deal is None else {"done": deal["done"], "at": deal["at"]}
    order = [int(sampler.seed), bool(sampler.shuffle), int(sampler.epoch), len(sampler.dataset)]
    return dict(before, batch=int(loader.batch_size), order=order)


def redealt(ranks: Sequence[Mapping[str, Any]], size: int) -> dict[str, Any]:
    """The position for each of `size` processes, from those of a checkpoint's processes.   Raises: OtherWorld."""
    places = [rank["position"] for rank in ranks]
    first = places[0]
    deal, left = first.get("deal"), (first.get("length") or 0) - first["consumed"]
    marks = {(place["pass"], place["consumed"]) for place in places}
    if deal is None:
        why = "its loader does not divide the data by a DistributedSampler"
    elif len(marks) > 1 or not first["consumed"]:
        why = "its processes do not all stand behind the same batch"
    elif any(rank.get("gradients") for rank in ranks):
        why = "it holds gradients that wait for the next step of the optimizer"
    else:
        done = deal["done"] + (first["consumed"] - deal["at"]) * deal["batch"] * len(ranks)
        return dict(first, deal=dict(deal, done=done, at=first["consumed"]), is_redealt=True)
    where = f", {left} batches on" if left > 0 else ""
    raise OtherWorld(saved=len(ranks), now=size, why=why, where=f"the end of epoch {first['epoch']}{where}")


def rest(loader: Any, deal: Mapping[str, Any]) -> list[list[int]] | None:
    """The indices of this process's batches after `deal`; None if the loader divides its data in another way."""
    now = describe(loader, deal)
    if now is None or now["order"] != list(deal["order"]):
        return None
    sampler, whole = loader.sampler, copy.copy(loader.sampler)
    whole.num_replicas, whole.rank = 1, 0
    whole.num_samples = whole.total_size = len(sampler.dataset)
    left = list(whole)[deal["done"] :]
    over, count = len(left) % sampler.num_replicas, len(left)
    if over and sampler.drop_last:
        left = left[: count - over]
    elif over:
        left += [left[index % count] for index in range(sampler.num_replicas - over)]
    mine = left[sampler.rank :: sampler.num_replicas]
    size = int(loader.batch_size)
    batches = [mine[at : at + size] for at in range(0, len(mine), size)]
    return batches[:-1] if loader.drop_last and batches and len(batches[-1]) < size else batches
