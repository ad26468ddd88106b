"""The items a script names: what of them is saved, and how it is restored into the very same objects."""

from __future__ import annotations

import sys
from typing import Any, Mapping

from sojourn.train.saving import arrays
from sojourn.train.saving.distributed_shards import Shards
from sojourn.train.state import rng, size
from sojourn.train.state.gradients import Gradients
from sojourn.wire.errors import Misuse


class BadItem(Misuse):
    """{name} cannot be an item of the Checkpointer: {detail}"""

    code = "bad-item"


class OtherState(Misuse):
    """{where} does not match the script's state: {detail}"""

    code = "other-state"
    next_step = "pass the Checkpointer the items that were saved, or use another folder"


class Items:
    """The state of a training: objects with `state_dict`, arrays, tensors, dicts and lists of these; generators apart.

    An item is restored in place, so that every other reference to it in the script sees it.
    Raises: BadItem for what could be saved but not restored (a bare number, a text, None).
    """

    def __init__(self, items: Mapping[str, Any]) -> None:
        self.generators = {name: value for name, value in items.items() if rng.is_generator(value)}
        self.kept = {name: _bare(value) for name, value in items.items() if name not in self.generators}
        self.shards = Shards(self.kept)
        self.gradients = Gradients(self.kept, bool(self.shards.names))
        for name, value in self.kept.items():
            if not (_has_state(value) or isinstance(value, (dict, list)) or _is_array(value)):
                kind = type(value).__qualname__
                raise BadItem(
                    name=name, detail=f"a {kind} cannot be put back in place; keep it in a dict, {name}={{...}}"
                )

    def expected_bytes(self) -> int:
        """About the bytes of a checkpoint with them after an optimizer's first step; 0 if some are sharded."""
        return 0 if self.shards.names else size.expected_bytes(self.kept)

    def capture(self) -> dict[str, Any]:
        """The live state by item name, without sharded items; nothing is copied."""
        here = {name: value for name, value in self.kept.items() if name not in self.shards.names}
        return {name: value.state_dict() if _has_state(value) else value for name, value in here.items()}

    def check(self, saved: Mapping[str, Any], own: Mapping[str, Any], where: str) -> None:
        """Raises: OtherState unless the same items were saved. A partial match is not used at all."""
        generators, sharded = own["rng"]["named"], own.get("sharded") or []
        if sharded != self.shards.names:
            theirs, ours = ", ".join(sharded) or "nothing", ", ".join(self.shards.names) or "nothing"
            raise OtherState(where=where, detail=f"sharded in it: {theirs}; sharded here: {ours}.")
        names, now = {*saved, *generators, *sharded} - {"sojourn"}, {*self.kept, *self.generators}
        if names != now or set(generators) != set(self.generators):
            theirs, ours = ", ".join(sorted(names)) or "nothing", ", ".join(sorted(now)) or "nothing"
            raise OtherState(where=where, detail=f"it holds {theirs}; the Checkpointer was given {ours}.")

    def restore(self, saved: Mapping[str, Any], where: str) -> None:
        """Restore everything not sharded from a tree.   Raises: OtherState, and what a `load_state_dict` raises."""
        for name, value in self.kept.items():
            if name in self.shards.names:
                continue
            if _has_state(value):
                # A module copies its input; others may keep it, so they get their own memory.
                value.load_state_dict(arrays.thaw(saved[name], share=_is_module(value)))
            else:
                tree = arrays.thaw(saved[name], share=True)
                if not _takes_all(value, tree):
                    tree = arrays.thaw(saved[name])  # what replaces a value needs its own memory
                _put_back(value, tree, f"{where}: {name}")


def _bare(value: Any) -> Any:
    """The module inside DistributedDataParallel, so that a script without it can read the checkpoint."""
    parallel = sys.modules.get("torch.nn.parallel")
    return value.module if parallel is not None and isinstance(value, parallel.DistributedDataParallel) else value


def _has_state(value: Any) -> bool:
    return callable(getattr(value, "state_dict", None)) and callable(getattr(value, "load_state_dict", None))


def _is_module(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def _is_array(value: Any) -> bool:
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and isinstance(value, numpy.ndarray):
        return True
    return torch is not None and isinstance(value, torch.Tensor)


def _fits(now: Any, saved: Any) -> bool:
    """Both are arrays, or both tensors, of equal dtype and shape: the saved one can be copied into the present one."""
    return (
        _is_array(now)
        and _is_array(saved)
        and hasattr(now, "data_ptr") == hasattr(saved, "data_ptr")
        and (now.dtype, tuple(now.shape)) == (saved.dtype, tuple(saved.shape))
    )


def _takes_all(now: Any, saved: Any) -> bool:
    """Every array in `saved` can be copied into an existing one: none has to replace one."""
    if isinstance(saved, dict):
        return isinstance(now, dict) and all(_takes_all(now.get(key), value) for key, value in saved.items())
    if isinstance(saved, (list, tuple, set)):
        there = list(now) if type(now) is list and type(saved) is list else []
        there += [None] * (len(saved) - len(there))
        return all(_takes_all(before, value) for before, value in zip(there, saved))
    return not _is_array(saved) or _fits(now, saved)


def _put_back(now: Any, saved: Any, where: str) -> None:
    if _is_array(now):
        if not _fits(now, saved):
            here = f"{now.dtype} {tuple(now.shape)}"
            raise OtherState(where=where, detail=f"saved {getattr(saved, 'dtype', type(saved).__name__)} "
                             f"{tuple(getattr(saved, 'shape', ()))}, here {here}.")  # fmt: skip
        _copy(now, saved)
    elif isinstance(now, dict):
        if not isinstance(saved, dict):
            raise OtherState(where=where, detail=f"saved a {type(saved).__name__}, here a dict.")
        before = dict(now)
        now.clear()  # the saved order of keys is part of the state
        for key, value in saved.items():
            now[key] = _merged(before.get(key), value, f"{where}.{key}")
    else:
        if not isinstance(saved, list):
            raise OtherState(where=where, detail=f"saved a {type(saved).__name__}, here a list.")
        old = list(now) + [None] * len(saved)
        now[:] = [_merged(old[index], value, f"{where}.{index}") for index, value in enumerate(saved)]


def _merged(now: Any, saved: Any, where: str) -> Any:
    """The replacement for `now` inside a container: `now` itself, updated, whenever possible."""
    if _fits(now, saved):
        _copy(now, saved)
        return now
    if (isinstance(now, dict) and isinstance(saved, dict)) or (type(now) is list and type(saved) is list):
        _put_back(now, saved, where)
        return now
    return saved


def _copy(now: Any, saved: Any) -> None:
    if hasattr(now, "data_ptr"):
        with sys.modules["torch"].no_grad():
            now.copy_(saved)
    else:
        now[...] = saved
