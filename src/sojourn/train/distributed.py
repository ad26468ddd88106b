"""Several processes that train one model (torchrun): how they agree to save, or leave, at the same step.

Every process calls the same methods in the same order. The messages are small and use a separate gloo group, beside
whatever the training uses.
"""

from __future__ import annotations

import datetime
import os
import sys
from typing import Any, Callable

from sojourn.train import preempt
from sojourn.wire.errors import Misuse, WorldError

# Without it torchrun keeps the addresses of dead processes. Source: pytorch issue 135712, seen with torch 2.13,
# 2026-11.
_STORE_OF_ITS_OWN = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
_WAIT = datetime.timedelta(hours=1)  # for the writing process's answer; a process that is gone is noticed at once


class SeveralProcesses(Misuse):
    """{count} processes are training together, but torch.distributed is not initialized: call
    torch.distributed.init_process_group before you create the Checkpointer.
    """

    code = "several-processes"


class OtherWorld(Misuse):
    """The checkpoint was saved in the middle of an epoch by {saved} processes. Now there are {now}, and the rest of
    the epoch cannot be divided among them: {why}. To change the number of processes, resume from {where}.
    """

    code = "other-world"
    next_step = "start {saved} processes"


class RankLost(WorldError):
    """Another process of this training is gone, so process {rank} of {size} stops: {detail}.
    Saved checkpoints are intact."""

    code = "rank-lost"
    retry = True
    next_step = "start all of them again, as torchrun --max-restarts does: they resume from the newest checkpoint"


class Alone:
    """The only process."""

    rank, size, is_first = 0, 1, True
    group: Any = None  # for torch.distributed
    is_leaving = False  # some process had been asked to leave by the latest `agree`

    def ask(self, exchange: Callable[[], Any]) -> Any:
        """The result of an action that all processes do together."""
        return exchange()

    def share(self, value: Any) -> Any:
        """What the first process passed."""
        return value

    def gather(self, value: Any) -> list[Any]:
        """What every process passed, by rank."""
        return [value]

    def agree(self, claim: bool) -> bool:
        """What the first process claims. Afterwards `is_leaving` says whether any process was asked to leave."""
        self.is_leaving = preempt.preempted()
        return claim

    def mine(self, of_ranks: list[Any]) -> Any:
        """This process's part of what a checkpoint gathered; None if there were fewer processes then."""
        return of_ranks[self.rank] if self.rank < len(of_ranks) else None


class Team(Alone):
    """This process among `size`. Each method waits for all the others.   Raises: RankLost."""

    def __init__(self, dist: Any) -> None:
        self._dist = dist
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.is_first = self.rank == 0
        self.group = self.ask(lambda: dist.new_group(backend="gloo", timeout=_WAIT))

    def share(self, value: Any) -> Any:
        """What the first process passed; plain values."""
        box = [value if self.is_first else None]
        self.ask(lambda: self._dist.broadcast_object_list(box, src=0, group=self.group))
        return box[0]

    def gather(self, value: Any) -> list[Any]:
        """What every process passed, by rank; plain values."""
        out: list[Any] = [None] * self.size
        self.ask(lambda: self._dist.all_gather_object(out, value, group=self.group))
        return out

    def agree(self, claim: bool) -> bool:
        """What the first process claims. Afterwards `is_leaving` says whether any process was asked to leave."""
        torch = sys.modules["torch"]
        words = torch.tensor([preempt.preempted(), claim and self.is_first], dtype=torch.uint8)
        self.ask(lambda: self._dist.all_reduce(words, op=self._dist.ReduceOp.MAX, group=self.group))
        self.is_leaving = bool(words[0])
        if self.is_leaving and not preempt.preempted():
            preempt.ask("a signal to another process")
        return bool(words[1])

    def ask(self, exchange: Callable[[], Any]) -> Any:
        """The result of an action that all processes do together."""
        try:
            return exchange()
        except RuntimeError as e:  # raised by gloo when a connection ends
            detail = (str(e).splitlines() or ["no word"])[0][:200]
            raise RankLost(rank=self.rank, size=self.size, detail=detail) from e


def remarks() -> list[str]:
    """What a person should know about how these processes were started."""
    if os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0") == "0" or os.environ.get(_STORE_OF_ITS_OWN) == "1":
        return []
    return [f"when torchrun restarts the processes, they may wait forever for the dead ones: set {_STORE_OF_ITS_OWN}=1"]


def join(is_sharded: bool = False) -> Alone:
    """The team of this process, also if the state `is_sharded`. All of its processes must call it.

    Raises: SeveralProcesses, RankLost.
    """
    dist = sys.modules.get("torch.distributed")
    if dist is not None and dist.is_available() and dist.is_initialized():
        return Team(dist) if is_sharded or dist.get_world_size() > 1 else Alone()
    said = os.environ.get("WORLD_SIZE", "")
    if said.isdigit() and int(said) > 1:
        raise SeveralProcesses(count=int(said))
    return Alone()
