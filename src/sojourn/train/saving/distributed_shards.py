"""Items split over processes (FSDP, DTensor): written and read by torch.distributed.checkpoint.

It writes a folder that any number of processes can read, since it is organized by parameter names.
Source: torch/distributed/checkpoint/{state_dict,filesystem}.py of PyTorch 2.13, 2026-11.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from dataclasses import dataclass
from typing import Any, Iterator, Mapping

from sojourn.formats.torch import zip as torch_zip
from sojourn.formats.torch.write import Plan
from sojourn.train.distributed import Alone
from sojourn.train.saving import sealed

REST = "sojourn.pt"  # in the folder: everything not sharded


class Shards:
    """The sharded ones among a training's items: modules, and their parameters' optimizers, by item name."""

    def __init__(self, items: Mapping[str, Any]) -> None:
        torch = sys.modules.get("torch")
        self._modules = {name: it for name, it in items.items() if torch and _is_sharded_module(it, torch)}
        self._optimizers: dict[str, tuple[Any, Any]] = {}
        for name, item in items.items() if self._modules else ():
            if torch and isinstance(item, torch.optim.Optimizer):
                owned = {id(p) for group in item.param_groups for p in group["params"]}
                for module in self._modules.values():
                    if owned & {id(p) for p in module.parameters()}:
                        self._optimizers[name] = (module, item)
        self.names = sorted({*self._modules, *self._optimizers})

    def bytes(self) -> int:
        """Bytes of the modules and current optimizer states over all processes, without asking them."""
        kept = [p for module in self._modules.values() for p in _kept(module)]
        kept += [p for _, item in self._optimizers.values() for state in item.state.values() for p in state.values()]
        # A DTensor reports the size of the whole, the first FSDP's flat parameters that of this process's part.
        is_part = any(map(_is_flat, self._modules.values()))
        parts = int(sys.modules["torch.distributed"].get_world_size()) if is_part else 1
        return parts * sum(int(p.numel() * p.element_size()) for p in kept if hasattr(p, "element_size"))

    def write(self, path: str, team: Alone) -> None:
        """This process's part into the folder `path`; all of `team` together.   Raises: RankLost; OSError, in all."""
        self._run("save", path, team, self._state())

    def restore(self, path: str, team: Alone) -> None:
        """Restore everything, in place, from the folder `path`; all of `team` together.

        Raises: RankLost; OSError; ValueError if it does not fit.
        """
        state, how = self._state(), importlib.import_module("torch.distributed.checkpoint.state_dict")
        self._run("load", path, team, state)
        for name, module in self._modules.items():
            how.set_model_state_dict(module, state[name])
        for name, (module, optimizer) in self._optimizers.items():
            how.set_optimizer_state_dict(module, optimizer, optim_state_dict=state[name])

    def _state(self) -> dict[str, Any]:
        how = importlib.import_module("torch.distributed.checkpoint.state_dict")
        state = {name: how.get_model_state_dict(module) for name, module in self._modules.items()}
        state.update({name: how.get_optimizer_state_dict(*pair) for name, pair in self._optimizers.items()})
        return state

    def _run(self, verb: str, path: str, team: Alone, state: Any) -> None:
        dcp = importlib.import_module("torch.distributed.checkpoint")
        try:
            team.ask(lambda: getattr(dcp, verb)(state, checkpoint_id=path, process_group=team.group))
        except dcp.api.CheckpointException as e:  # not an Exception: it would pass every handler
            first = next(iter(e.failures.values()))[0]
            number = first.errno if isinstance(first, OSError) and first.errno else errno.EIO
            if verb == "load" and not isinstance(first, OSError):
                raise ValueError(str(first)[:200]) from e
            raise OSError(number, f"{type(first).__name__}: {str(first)[:200]}", path) from e


@dataclass(frozen=True)
class ShardedPlan:
    """What to save when items are sharded: these, and the plan of the rest."""

    shards: Shards
    rest: Plan

    @property
    def bytes(self) -> int:
        """About its size, over all processes."""
        return self.rest.bytes + self.shards.bytes()

    def write_rest(self, folder: str) -> None:
        """Everything not sharded, as a file in the folder.   Raises: OSError."""
        fd = os.open(os.path.join(folder, REST), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            self.rest.write_to(fd)
        finally:
            os.close(fd)


def open_shards(path: str, is_checked: bool = False) -> torch_zip.Opened:
    """A checkpoint of ours: a file, or a sealed folder, with every byte compared (unless it `is_checked`).

    Raises: Damaged, OSError.
    """
    if not os.path.isdir(path):
        return torch_zip.read_zip(path)
    size = 0 if is_checked else sealed.check(path)[1]
    rest = torch_zip.read_zip(os.path.join(path, REST))
    return torch_zip.Opened(path, size or rest.bytes, rest.tree, rest.facts)


def _is_sharded_module(item: Any, torch: Any) -> bool:
    tensor = sys.modules.get("torch.distributed.tensor")
    if not isinstance(item, torch.nn.Module):
        return False
    return _is_flat(item) or (tensor is not None and any(isinstance(p, tensor.DTensor) for p in _kept(item)))


def _is_flat(module: Any) -> bool:
    fsdp = sys.modules.get("torch.distributed.fsdp")
    return fsdp is not None and any(isinstance(part, fsdp.FullyShardedDataParallel) for part in module.modules())


def _kept(module: Any) -> Iterator[Any]:
    yield from module.parameters()
    yield from module.buffers()
