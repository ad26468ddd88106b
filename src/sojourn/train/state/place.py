"""A training's position in its data: the epoch, the pass over the data in it, the batches read in that pass."""

from __future__ import annotations

import weakref
from typing import Any, Callable, Mapping

from sojourn.train.state import counting, loaders


class Place:
    """`passes`: over the data, finished in this epoch; `consumed`: batches read in the current one; `after`: steps
    after the latest pass; `counted`: the first number of `enumerate` in the current pass, None if not counted;
    `reader`: of the current pass, None outside.
    """

    def __init__(self) -> None:
        self.epoch = self.passes = self.consumed = self.after = 0
        self.counted: int | None = None
        self.reader: loaders.Reader | None = None

    def mark(self, step: int) -> tuple[int, ...]:
        """Identifies the place: two saves at the same place have the same state."""
        return step, self.epoch, self.passes, self.consumed

    def as_saved(self) -> dict[str, Any]:
        """Plain values for a checkpoint."""
        saved = {"epoch": self.epoch, "pass": self.passes, "consumed": self.consumed, "after": self.after}
        return saved if self.reader is None else dict(saved, counted=self.counted, **loaders.place(self.reader))

    def end_pass(self) -> None:
        """The pass is over, or was left."""
        self.reader = None
        self.passes, self.consumed, self.after = self.passes + 1, 0, 0

    def end_epoch(self) -> None:
        """The epoch is over."""
        self.epoch, self.passes, self.consumed, self.after = self.epoch + 1, 0, 0, 0

    def count(
        self, iterator: weakref.ref[Any] | None, saved: Mapping[str, Any] | None, say: Callable[[str], None]
    ) -> None:
        """If a loop counts its batches with `enumerate`: record the start, or continue from a `saved` place.

        Call it when its first batch is requested. `iterator`: what it reads from.
        """
        at = None if iterator is None else iterator()
        found = None if at is None else counting.find(at, everywhere=saved is not None)
        now = None if found is None else counting.count(found)
        self.counted = now if saved is None else saved.get("counted")
        if saved is None or now is None:
            return
        if self.counted is None:
            self.counted = 0
        if now != self.counted + saved["consumed"] and not counting.move(found, self.counted + saved["consumed"]):
            say(
                "enumerate counts this pass from its start again: write `for i, batch in ckpt.enumerate(loader)`, "
                "which counts on"
            )
