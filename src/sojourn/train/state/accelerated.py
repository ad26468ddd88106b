"""Under Accelerate: which batch of an accumulation comes next, which an `Accelerator` counts but never saves.

Source: accelerate/{accelerator,data_loader}.py of accelerate 1.15, 2026-11.
"""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any, List

_LOOKS = 2  # searches of all memory for an Accelerator
_found: List[weakref.ref[Any]] = []
_looks: List[int] = []


def capture() -> list[Any] | None:
    """[batches counted, whether the latest ended a window]; None if no Accelerator accumulates."""
    for one in _accelerators():
        return [int(one.step), bool(one.gradient_state.sync_gradients)]
    return None


def restore(saved: list[Any] | None) -> None:
    """Let every Accelerator continue counting from there. None does nothing."""
    if saved is None:
        return
    for one in _accelerators():
        one.step = saved[0]
        one.gradient_state._set_sync_gradients(saved[1])


def is_adapter(loader: Any) -> bool:
    """A loader from `accelerator.prepare`: it reads another one, `base_dataloader`, one batch ahead."""
    module = sys.modules.get("accelerate.data_loader")
    return module is not None and issubclass(type(loader), module.DataLoaderAdapter)


def _accelerators() -> list[Any]:
    """Those of this process that accumulate. Searched for at the start and at the first step."""
    module = sys.modules.get("accelerate")
    if module is None or not hasattr(module, "Accelerator"):
        return []
    alive = [one for one in (ref() for ref in _found) if one is not None]
    if not alive and len(_looks) < _LOOKS:
        _looks.append(1)
        alive = [one for one in gc.get_objects() if issubclass(type(one), module.Accelerator)]
        _found[:] = [weakref.ref(one) for one in alive]
    return [one for one in alive if one.gradient_accumulation_steps > 1]
