"""What the Checkpointer puts into a checkpoint, and putting everything back from one as it was."""

from __future__ import annotations

import os
from typing import Any, Callable, Mapping, Sequence, Union

from sojourn.formats.torch import write as torch_write
from sojourn.formats.torch import zip as torch_zip
from sojourn.train.distributed import Alone
from sojourn.train.progress import finite, numbers
from sojourn.train.saving import arrays
from sojourn.train.saving.distributed_shards import ShardedPlan
from sojourn.train.state import rng
from sojourn.train.state.state import Items, OtherState
from sojourn.wire.errors import Misuse

FORMAT = 1
AnyPlan = Union[torch_write.Plan, ShardedPlan]


class NotOurs(Misuse):
    """{path} was not written by a Checkpointer of this version."""

    code = "not-our-checkpoint"


def plan(items: Items, own: Mapping[str, Any], shown: Mapping[str, Any], facts: Mapping[str, Any]) -> AnyPlan:
    """A file, or a folder, with the items as they are now. `own`: what only `Resume` needs. `shown` (step, epoch, best,
    metrics) also stands in what the file says of itself, beside `facts`.   Raises: Unsaveable, NoNumber.
    """
    kept = dict(shown, **own, format=FORMAT, sharded=items.shards.names, metrics=numbers(shown["metrics"]))
    tree = arrays.Freezer().freeze(dict(sojourn=kept, **items.capture()))
    rest = torch_write.plan(tree, dict(facts, metrics=finite(shown["metrics"])))
    return ShardedPlan(items.shards, rest) if items.shards.names else rest


class Resume:
    """One checkpoint, checked and open. `own` is what the Checkpointer wrote of itself, `position` its place in the
    data.

    The file stays mapped until nothing refers to this any more.   Raises: NotOurs, OtherState, OtherWorld.
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
        mine = team.mine(ranks, is_inside=bool(now["pass"] or now["consumed"]))
        if len(ranks) != team.size:
            say(
                f"{self.name} is of {len(ranks)} processes, now there are {team.size}: what is random goes on otherwise"
            )
        self.own: Mapping[str, Any] = dict(own, **(mine or {"rng": None, "rng_epoch": None, "rng_pass": None}))
        self.position: Mapping[str, Any] = self.own["position"]
        items.check(self._tree, own, self.name)

    @property
    def is_inside_epoch(self) -> bool:
        """It was written after the epoch's first batch and before its end."""
        return bool(self.position["pass"] or self.position["consumed"])

    def put_back(self) -> None:
        """All items and all random numbers as they were. Idempotent.   Raises: OtherState."""
        self._items.restore(self._tree, self.name)
        if self._items.shards.names:
            try:
                self._items.shards.restore(self._path, self._team)
            except ValueError as e:
                raise OtherState(where=self.name, detail=str(e)) from e
        self.set_rng("rng")

    def set_rng(self, which: str) -> Any:
        """The random numbers as they were when it was written ("rng"), or when its epoch or pass began; what was
        set. Nothing where this process was not there then.
        """
        if self.own[which] is None:
            return None
        for text in rng.restore(self.own[which], self._items.generators, self._loader_rngs):
            self._say(text)
        return self.own[which]
