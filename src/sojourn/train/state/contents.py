"""What the Checkpointer puts into a checkpoint, and restoring everything from one unchanged."""

from __future__ import annotations

import os
from typing import Any, Callable, Mapping, Sequence, Union

from sojourn.formats.torch import write as torch_write
from sojourn.formats.torch import zip as torch_zip
from sojourn.train.distributed import Alone
from sojourn.train.progress import finite, numbers
from sojourn.train.saving import arrays
from sojourn.train.saving.distributed_shards import ShardedPlan
from sojourn.train.state import accelerated, dealing, loaders, rng
from sojourn.train.state.place import Place
from sojourn.train.state.state import Items, OtherState
from sojourn.wire.errors import Misuse

FORMAT = 1
AnyPlan = Union[torch_write.Plan, ShardedPlan]


class NotOurs(Misuse):
    """{path} was not written by a Checkpointer of this version."""

    code = "not-our-checkpoint"


def plan(items: Items, own: Mapping[str, Any], shown: Mapping[str, Any], facts: Mapping[str, Any]) -> AnyPlan:
    """A file, or a folder, with the items as they are now. `own`: what only `Resume` needs. `shown` (step, epoch, best,
    metrics) is also in the file's own facts, beside `facts`.   Raises: Unsaveable, NoNumber.
    """
    kept = dict(shown, **own, format=FORMAT, sharded=items.shards.names, metrics=numbers(shown["metrics"]))
    tree = arrays.Freezer().freeze(dict(sojourn=kept, **items.capture()))
    rest = torch_write.plan(tree, dict(facts, metrics=finite(shown["metrics"])))
    return ShardedPlan(items.shards, rest) if items.shards.names else rest


def own(
    items: Items, at: Place, loader: Any, drawn: Mapping[str, Any], team: Alone, with_gradients: bool
) -> dict[str, Any]:
    """What only `Resume` needs. `drawn`: the random states, now and when the epoch and pass began."""
    kept: dict[str, Any] = dict(drawn, position=at.as_saved())
    kept["loader"] = loader.state_dict() if loaders.is_stateful(loader) else None
    kept["gradients"] = items.gradients.capture() if with_gradients else None
    kept["accelerate"] = accelerated.capture()
    kept["ranks"] = team.gather(kept) if team.size > 1 else None
    if kept["ranks"] is not None:
        kept["gradients"] = None  # each process's own is among the ranks
    return kept


def items_of(opened: torch_zip.Opened | None) -> dict[str, Any] | None:
    """The items in an open checkpoint, by name, in newly allocated memory; None for None."""
    if opened is None:
        return None
    return {name: arrays.thaw(value) for name, value in opened.tree.items() if name != "sojourn"}


class Resume:
    """One checkpoint, checked and open. `own`: the Checkpointer's own data, `position`: its place in the data.

    The file stays mapped as long as anything refers to this.   Raises: NotOurs, OtherState, OtherWorld.
    """

    def __init__(
        self,
        opened: torch_zip.Opened,
        items: Items,
        loader_rngs: Sequence[Any],
        say: Callable[[str], None],
        team: Alone,
    ) -> None:
        self.name, self.bytes, self.facts = os.path.basename(opened.path), opened.bytes, opened.facts
        self._path, self._team = opened.path, team
        self._tree, self._items, self._loader_rngs, self._say = opened.tree, items, loader_rngs, say
        own = arrays.thaw(self._tree.get("sojourn")) if isinstance(self._tree, dict) else None
        if not isinstance(own, dict) or own.get("format") != FORMAT:
            raise NotOurs(path=opened.path)
        ranks, now = own.get("ranks") or [own], own["position"]
        is_other = len(ranks) != team.size
        is_redealt = is_other and bool(now["pass"] or now["consumed"])
        redealt = {"position": dealing.redealt(ranks, team.size), "gradients": None} if is_redealt else {}
        mine = team.mine(ranks)
        if is_other:
            say(f"{self.name} is of {len(ranks)} processes, now there are {team.size}: random numbers will differ")
        self.own: Mapping[str, Any] = {
            **own,
            **(mine or {"rng": None, "rng_epoch": None, "rng_pass": None}),
            **redealt,
        }
        self.position: Mapping[str, Any] = self.own["position"]
        items.check(self._tree, own, self.name)

    @property
    def is_inside_epoch(self) -> bool:
        """Written after the epoch's first batch and before its end."""
        return bool(self.position["pass"] or self.position["consumed"])

    @property
    def mark(self) -> tuple[int, ...]:
        """The mark of a `Place` at that position."""
        return self.own["step"], self.position["epoch"], self.position["pass"], self.position["consumed"]

    def put_back(self) -> None:
        """All items and random numbers as saved. Idempotent.   Raises: OtherState."""
        self._items.restore(self._tree, self.name)
        if self._items.shards.names:
            try:
                self._items.shards.restore(self._path, self._team)
            except ValueError as e:
                raise OtherState(where=self.name, detail=str(e)) from e
        if self.own.get("gradients") is not None:
            self._items.gradients.restore(self.own["gradients"])
        accelerated.restore(self.own.get("accelerate"))
        self.set_rng("rng")

    def set_rng(self, which: str) -> Any:
        """Set the random numbers as they were when it was written ("rng"), or when its epoch or pass began; returns
        them. Nothing if this process did not exist then.
        """
        if self.own[which] is None:
            return None
        for text in rng.restore(self.own[which], self._items.generators, self._loader_rngs):
            self._say(text)
        return self.own[which]
