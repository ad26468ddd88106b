"""How large the items of a training will be once its optimizers have taken a step, before any has."""

from __future__ import annotations

import sys
from typing import Any, Iterable, Mapping

# Copies of a parameter that an optimizer keeps. Source: torch/optim/*.py of PyTorch 2.13, 2026-11. Of those not named
# here nothing is expected: memory for them is reserved at the first step.
_COPIES = {"Adam": 2, "AdamW": 2, "NAdam": 2, "RAdam": 2, "Adamax": 2, "Adadelta": 2, "Rprop": 2, "Adagrad": 1,
           "RMSprop": 1, "Muon": 1}  # fmt: skip
_ENTRY_BYTES = 512  # in the file, for each array: names, headers, the directory


def expected_bytes(items: Mapping[str, Any]) -> int:
    """About the bytes of a checkpoint with these items. Shared storages count once for each item that holds them."""
    return sum(_bytes_of(item) for item in items.values())


def _bytes_of(item: Any) -> int:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(item, torch.nn.Module):
        return _sum([*item.parameters(), *item.buffers()])
    if torch is not None and isinstance(item, torch.optim.Optimizer):
        return _of_optimizer(item)
    if torch is not None and isinstance(item, torch.Tensor):
        return _sum([item])
    if hasattr(item, "nbytes"):
        return int(item.nbytes) + _ENTRY_BYTES
    if isinstance(item, (bytes, bytearray)):
        return len(item)
    if isinstance(item, dict):
        return sum(map(_bytes_of, item.values()))
    if isinstance(item, (list, tuple)) and item and not isinstance(item[0], (int, float, str)):
        return sum(map(_bytes_of, item))
    return 0


def _of_optimizer(item: Any) -> int:
    total = 0
    for group in item.param_groups:
        copies = _COPIES.get(type(item).__name__, 0) + bool(group.get("amsgrad")) + bool(group.get("centered"))
        copies += bool(group.get("momentum")) if type(item).__name__ in ("SGD", "RMSprop") else 0
        for parameter in group["params"]:
            kept = item.state.get(parameter)
            total += _sum(kept.values()) if kept else copies * _sum([parameter])
    return total


def _sum(values: Iterable[Any]) -> int:
    """Of the tensors among them."""
    total = 0
    for one in values:
        try:
            total += int(one.numel() * one.element_size()) + _ENTRY_BYTES if hasattr(one, "element_size") else 0
        except (RuntimeError, ValueError):
            pass  # without a size yet (a lazy module's), or of a kind that the save will refuse
    return total
