"""A batch: what one box gets of a sweep in one go, for its queue (`enqueue`) or its scheduler (`array`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sojourn.core.need import Need
from sojourn.verbs.context import Box, Context
from sojourn.verbs.launch.push import push
from sojourn.verbs.launch.renting import moving_in
from sojourn.verbs.sweep.slots import SiteSlots

if TYPE_CHECKING:
    from sojourn.store.snapshot import Snapshot
    from sojourn.wire.documents import Spec


@dataclass(frozen=True)
class CellRequest:
    """One cell of a batch: its whole run.json, and the attempt that is asked for. `is_recoded`: the cell was begun with
    other code; `cards`: the GPUs that a plain run waits for.
    """

    spec: Spec
    attempt: int = 1
    is_recoded: bool = False
    cards: Mapping[str, Any] = field(default_factory=dict)

    @property
    def run(self) -> str:
        """The id of its run."""
        return str(self.spec["run"])


@dataclass(frozen=True)
class Batch:
    """Cells for one box, in their order. `slots.lanes`: one per cell that runs at a time; () = as the queue has now.

    `trees`: the snapshots that the cells need, by what they are; those in `slots.lacking` are pushed.
    """

    sweep: str
    slots: SiteSlots
    cells: Sequence[CellRequest]
    need: Need = field(default_factory=Need)
    trees: Sequence[tuple[str, Snapshot]] = ()
    secrets: Mapping[str, str] = field(default_factory=dict)

    @property
    def box(self) -> Box:
        """The box that gets them."""
        return self.slots.box

    @property
    def base(self) -> str:
        """The box's base folder, as it reported."""
        return str(self.slots.hello["base"])


def deliver(ctx: Context, batch: Batch) -> tuple[str, list[dict[str, Any]], list[bytes]]:
    """Journal that these cells are asked for and push what the box lacks; (their token, requests and data that are
    still to be sent along).

    Raises: NeverReady, Unreachable, WorldError.
    """
    box, token = batch.box, ctx.token()
    scheduled = {"scheduled": True} if box.scheduler else {}
    listed: list[dict[str, Any]] = [
        {"run": cell.run, "attempt": cell.attempt, "token": token, **({"spec": cell.spec} if cell.is_recoded else {})}
        for cell in batch.cells
    ]
    with moving_in(ctx, box, batch.need) as lease:
        ctx.store.append("queueing", sweep=batch.sweep, site=box.site.name, lease=lease.name, cells=listed, **scheduled)
    ops, blobs = push(ctx, box, batch.base, batch.trees, batch.slots.lacking)
    if box.keeper.train_file in batch.slots.lacking:
        box.must(box.keeper.put_train(batch.base))
    return token, ops, blobs
