"""Gradients that wait for the next step of an optimizer: whether there are any, and keeping them in a checkpoint.

A loop that accumulates gradients steps its optimizer every few batches. A checkpoint between two steps is exact only
with the gradients gathered by then; right after a step there are none to keep.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from typing import Any, Dict, Iterator, Mapping, Tuple

_LONGEST = 64  # steps of the loop that a save of a sharded state waits for the optimizer
_watching: weakref.WeakSet[Gradients] = weakref.WeakSet()
_watched: list[Any] = []  # the handle of the hook after every optimizer's step


class Gradients:
    """The gradients of all parameters in `items`. `window`: steps of the loop per step of an optimizer.

    A gradient is used up if an optimizer took it, in a step since the last but one `stepped`, and it has not changed.
    PyTorch before 2.1 cannot show this: then all that are not zero count as waiting.
    """

    def __init__(self, items: Mapping[str, Any], is_sharded: bool) -> None:
        self._items, self._is_sharded = items, is_sharded
        self._used: Dict[int, Tuple[int, int]] = {}  # id of a parameter -> (id, version) of the gradient taken
        self._took, self._since = False, 0
        self._windows: deque[int] = deque(maxlen=8)
        _watching.add(self)
        _watch()

    @property
    def window(self) -> int:
        """1 if every step of the loop has one of an optimizer."""
        return max(self._windows, default=1)

    def stepped(self) -> None:
        """The loop took a step."""
        _watch()
        self._since += 1
        if self._took:
            self._windows.append(self._since)
            self._since = 0
        else:
            self._used.clear()  # a new gradient may have an old one's id
        self._took = False

    def taken(self, optimizer: Any) -> None:
        """An optimizer took a step."""
        self._took = True
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._used[id(parameter)] = _mark(parameter.grad)

    def is_pending(self) -> bool:
        """Some gradient waits for the next step of an optimizer. May wait for a GPU.

        For a sharded state, whose gradients may accumulate out of sight: the optimizer did not step in the loop's
        latest step, and probably will soon.
        """
        if self._is_sharded:
            return 0 < self._since <= max(_LONGEST, 2 * self.window)
        return any(not _is_zero(gradient) for _, _, gradient in self._waiting())

    def capture(self) -> dict[str, Any]:
        """{item: {parameter: gradient, or None if it is zero}} of those not used up. Nothing is copied."""
        found: dict[str, Any] = {}
        if not self._is_sharded:
            for item, name, gradient in self._waiting():
                found.setdefault(item, {})[name] = None if _is_zero(gradient) else gradient
        return found

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Restore gradients. Those that a parameter has but `saved` lacks are set to zero, in place."""
        torch = sys.modules.get("torch")
        if torch is None or self._is_sharded:
            return
        with torch.no_grad():
            for item, name, parameter in self._parameters():
                there = saved.get(item, {})
                before = there.get(name) if name in there else None
                if parameter.grad is not None and before is None:
                    parameter.grad.zero_()
                elif parameter.grad is not None:
                    parameter.grad.copy_(before)
                elif name in there:
                    parameter.grad = torch.zeros_like(parameter) if before is None else before.to(parameter.device)

    def _waiting(self) -> Iterator[tuple[str, str, Any]]:
        for item, name, parameter in self._parameters():
            gradient = parameter.grad
            if gradient is not None and self._used.get(id(parameter)) != _mark(gradient):
                yield item, name, gradient

    def _parameters(self) -> Iterator[tuple[str, str, Any]]:
        """(item, name in it, parameter), each once: of modules, then those known only to an optimizer."""
        torch = sys.modules.get("torch")
        if torch is None:
            return
        seen = set()
        for item, value in self._items.items():
            for name, parameter in _named(value, torch):
                if id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield item, name, parameter


def _named(value: Any, torch: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, torch.nn.Module):
        yield from value.named_parameters()
        return
    groups = value.param_groups if isinstance(value, torch.optim.Optimizer) else []
    for group, entries in enumerate(groups):
        for index, parameter in enumerate(entries["params"]):
            yield f"{group}.{index}", parameter


def _mark(gradient: Any) -> tuple[int, int]:
    return id(gradient), gradient._version


def _is_zero(gradient: Any) -> bool:
    return gradient.layout == sys.modules["torch"].strided and not bool(gradient.any())


def _watch() -> None:
    """Observe the steps of all optimizers, once PyTorch is loaded."""
    module = sys.modules.get("torch.optim.optimizer")
    if _watched or module is None:
        return
    register = getattr(module, "register_optimizer_step_post_hook", None)
    _watched.append(None if register is None else register(_on_step))


def _on_step(optimizer: Any, args: Any, kwargs: Any) -> None:
    for gradients in list(_watching):
        gradients.taken(optimizer)
