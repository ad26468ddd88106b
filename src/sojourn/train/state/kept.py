"""What a loop keeps beside its items: means over the steps of an epoch, and its own values."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from types import SimpleNamespace
from typing import Any, Callable, Dict, Mapping, Optional, Set, Tuple

from sojourn.train.run_env import BadUse


class Means:
    """Sums of the metrics from the steps of the current epoch, as 64-bit floats, in order: after a resume a mean is
    equal to the last bit. A tensor on a GPU is summed there, so no step waits for it.
    """

    def __init__(self) -> None:
        self._sums: Dict[str, Tuple[Any, int]] = {}

    def add(self, metrics: Mapping[str, Any]) -> None:
        """Add one step's metrics. Anything but a single number is left out."""
        for name, value in metrics.items():
            if hasattr(value, "double"):
                if value.numel() != 1:
                    continue
                plain = value.reshape(()).double() if value.device.type not in ("cpu", "mps") else float(value)
            else:
                try:
                    plain = float(value)
                except (TypeError, ValueError):
                    continue
            total, count = self._sums.get(name, (0.0, 0))
            self._sums[name] = (plain + total, count + 1)

    def mean(self, name: str) -> float:
        """Of the epoch so far.   Raises: BadUse if no step gave one."""
        if name not in self._sums:
            given = ", ".join(sorted(self._sums)) or "nothing"
            raise BadUse(detail=f"no step of this epoch was given {name}, of which to take the mean; given: {given}.")
        total, count = self._sums[name]
        return float(total) / count

    def has(self, name: str, value: Any) -> bool:
        """`value` is the `mean` of this name."""
        return name in self._sums and self.mean(name) == value

    def clear(self) -> None:
        """An epoch starts."""
        self._sums = {}

    def as_saved(self) -> dict[str, Any]:
        """Plain values."""
        return {name: [float(total), count] for name, (total, count) in self._sums.items()}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Continue from there."""
        self._sums = {name: (total, count) for name, (total, count) in saved.items()}


class Kept(SimpleNamespace):
    """Values that a loop keeps, by name, as attributes."""


class History:
    """`means` of the current epoch, and `kept`. `began_inside`: an earlier start began the current epoch."""

    def __init__(self) -> None:
        self.means, self.kept = Means(), Kept()
        self.began_inside = False

    def keep(self, values: Mapping[str, Any], saved: Mapping[str, Any] | None) -> Kept:
        """Set these, to their `saved` values if present."""
        before = (saved or {}).get("kept") or {}
        vars(self.kept).update({name: before.get(name, value) for name, value in values.items()})
        return self.kept

    def as_saved(self) -> dict[str, Any]:
        """Plain values, and those the loop keeps."""
        return {"means": self.means.as_saved(), "kept": dict(vars(self.kept))}

    def restore(self, saved: Mapping[str, Any], is_inside_epoch: bool) -> None:
        """Continue from there; does nothing for a checkpoint without."""
        self.began_inside = is_inside_epoch
        self.means.restore(saved.get("means") or {})
        vars(self.kept).update(saved.get("kept") or {})

    def end_epoch(
        self, best: Tuple[str, str] | None, metrics: Mapping[str, Any], code: Any, say: Callable[[str], None]
    ) -> None:
        """The epoch is over. Reports if the metric of `best` lacks what an earlier start computed. `code`: of the
        function that passed the metrics.
        """
        name = best[0] if best is not None and self.began_inside else ""
        if name in metrics and not self.means.has(name, metrics[name]):
            variable = gathered(code, name)
            if variable is not None:
                say(
                    f"{name}, handed to best=, comes from `{variable}`, which began in the middle of the epoch: use "
                    f"ckpt.mean({name!r}), or keep it in ckpt.keep({variable}=...)"
                )
        self.began_inside = False
        self.means.clear()


def gathered(code: Any, metric: str) -> Optional[str]:
    """The loop variable passed to `end_epoch` as this metric and gathered batch by batch: by `+=` or `append` in a
    loop, initialized outside it. None if there is none, or no source to find it in.

    `code`: of the function that calls `end_epoch`.
    """
    try:
        lines, _ = inspect.getsourcelines(code)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError, TypeError, ValueError):
        return None
    return gathered_in(tree, metric)


def gathered_in(tree: ast.AST, metric: Optional[str]) -> Optional[str]:
    """Like `gathered`, for a tree; for any metric if that is None."""
    handed = set()
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "end_epoch":
            for given in call.keywords:
                if metric in (None, given.arg):
                    handed |= _names(given.value)
    for _ in range(3):  # mean = total / count
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and any(_names(target) & handed for target in node.targets):
                handed |= _names(node.value)
    for loop in ast.walk(tree):
        if isinstance(loop, ast.For) and _reads_batches(loop.iter):
            for name in sorted(handed & _added_to(loop)):
                return name
    return None


def _reads_batches(value: ast.AST) -> bool:
    return any(isinstance(one, ast.Attribute) and one.attr in ("batches", "enumerate") for one in ast.walk(value))


def _added_to(loop: ast.For) -> Set[str]:
    found: Set[str] = set()
    for node in ast.walk(loop):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            if isinstance(node.value, ast.BinOp) and node.targets[0].id in _names(node.value):
                found.add(node.targets[0].id)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("append", "extend") and isinstance(node.func.value, ast.Name):
                found.add(node.func.value.id)
    return found


def _names(value: ast.AST) -> Set[str]:
    return {one.id for one in ast.walk(value) if isinstance(one, ast.Name)}


def caller(depth: int) -> Any:
    """The code of the function `depth` frames up the call stack."""
    return sys._getframe(depth + 1).f_code
