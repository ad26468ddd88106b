"""For the Trainer of Lightning: `lightning.fit(trainer, module, loader)` in place of `trainer.fit(module, loader)`
resumes the training.

Lightning writes its own checkpoint, readable by anything that reads Lightning's; the callback decides when, adds the
random numbers and the place in the data, which Lightning does not keep, and commits it whole or not at all.
Source: lightning/pytorch/loops/{fit_loop,training_epoch_loop}.py of lightning 2.6, 2026-11.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from typing import Any, Iterator, Mapping

from sojourn.train import preempt
from sojourn.train.distributed import OtherWorld
from sojourn.train.guard import Guard
from sojourn.train.run_env import BadUse, say
from sojourn.train.state import loaders, rng

try:
    from lightning.pytorch.callbacks import Checkpoint
except ImportError:  # then no Trainer can be passed either
    Checkpoint = object

FILE = "lightning.ckpt"


class Checkpoints(Checkpoint):  # type: ignore[misc]
    """Saves a Lightning training regularly, on preemption (then it exits with 75) and at its end.

    Add it to the Trainer's callbacks, wrap the loader with `batches`, and start with `trainer.fit(module,
    checkpoints.batches(loader), ckpt_path=checkpoints.newest())`; or leave all that to `fit`. Parameters and errors: as
    in `guard.Guard`. It saves after batches. Resuming a save made before Lightning's work after an epoch's last batch,
    or before a validation, would skip that work: such a save comes afterwards, before the next batch is learnt from. It
    never saves while gradients accumulate: that save comes after the batches before.
    """

    def __init__(self, **pace: Any) -> None:
        self._pace = pace
        self._made: Guard | None = None
        self._loader: Placed | None = None
        self._ended: tuple[int, Any] | None = None  # the training was over at this step, with these random states
        self._behind: Mapping[str, Any] | None = None  # the place to save if not the current one
        self._steps = 0
        self._is_over = False

    def batches(self, loader: Any) -> Placed:
        """The same loader, whose passes start at the current position. Only one is tracked."""
        self._loader = Placed(loader)
        return self._loader

    def newest(self) -> str | None:
        """The checkpoint to resume from, every byte checked; None if there is none.   Raises: Damaged."""
        found = self._guard.newest()
        return None if found is None else os.path.join(found[0], FILE)

    @property
    def _guard(self) -> Guard:
        if self._made is None:
            self._made = Guard(**self._pace)
        return self._made

    def state_dict(self) -> dict[str, Any]:
        """What Lightning keeps for this callback: every process's random numbers and place in the data."""
        place = self._behind
        if place is None and self._loader is not None:
            place = self._loader.place(self._is_over)
        ranks = [] if place is None else self._guard.team.gather(place)
        return {"steps": self._steps, "ranks": ranks, "is_over": self._is_over}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from there.   Raises: OtherWorld."""
        self._steps = state_dict["steps"]
        if state_dict["ranks"] and self._loader is not None:
            saved, team = len(state_dict["ranks"]), self._guard.team
            if saved != team.size and not state_dict["is_over"]:
                why = "Lightning counts its batches by the old division"
                raise OtherWorld(saved=saved, now=team.size, why=why, where="the end of an epoch")
            mine = team.mine(state_dict["ranks"])
            if not state_dict["is_over"]:
                self._loader.go_on(mine)
            elif mine is not None:
                self._ended = (self._steps, mine["rng"])

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Refuses settings that would make a resume inexact."""
        loader = self._loader
        if loader is None or trainer.train_dataloader is not loader:
            raise BadUse(
                detail="Lightning does not read the loader from batches(): the position in the data is unknown."
            )
        if trainer.world_size > 1 and not hasattr(loader.sampler, "num_replicas"):
            raise BadUse(
                detail="with several processes, each would read all the data: give the loader a DistributedSampler."
            )
        preempt.reclaim()  # Lightning's own handler ends the training after a batch, saved or not
        self._guard.leave_if_asked(self._steps)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Saves when due."""
        self._steps += 1
        if self._loader is not None:
            self._loader.done = batch_idx + 1
        total, loop = trainer.num_training_batches, trainer.fit_loop.epoch_loop
        is_between = loop._num_ready_batches_reached() or loop._should_check_val_fx(trainer.fit_loop._data_fetcher)
        self._guard.pace.window = trainer.accumulate_grad_batches
        epochs = trainer.max_epochs if trainer.max_epochs and trainer.max_epochs > 0 else None
        steps = round(total * epochs) if epochs and total != float("inf") else None
        self._guard.describe(trainer.callback_metrics, trainer.current_epoch)
        if self._guard.is_due(self._steps, steps, not is_between and not loop._should_accumulate()):
            self._save(trainer)
        if self._loader is not None:
            self._loader.is_owed = self._guard.is_owed

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Makes a save that is due, as of before this batch was read."""
        if self._loader is None or not self._guard.is_owed or batch_idx % trainer.accumulate_grad_batches:
            return
        self._behind = self._loader.before
        try:
            with _before_it(trainer.fit_loop.epoch_loop):
                self._save(trainer)
        finally:
            self._behind = None

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Saves the end."""
        if not self._is_over and not trainer.interrupted:
            self._is_over = True
            self._save(trainer)
        self._guard.close()

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """If it was over before: the next draws are those drawn then."""
        if self._ended is not None and self._ended[0] == self._steps and self._loader is not None:
            self._loader.put_back(self._ended[1])

    def _save(self, trainer: Any) -> None:
        self._guard.commit(self._steps, lambda aside: trainer.save_checkpoint(os.path.join(aside, FILE)))


@contextlib.contextmanager
def _before_it(loop: Any) -> Iterator[None]:
    """Lightning's counts at the start of a batch, as they were after the previous one, where it can resume."""
    batches, is_last = loop.batch_progress, loop.batch_progress.is_last_batch

    def move(by: int) -> None:
        loop._batches_that_stepped += by
        for counts in (batches.total, batches.current):
            counts.ready += by
            counts.completed += by

    move(-1)
    batches.is_last_batch = False
    try:
        yield
    finally:
        batches.is_last_batch = is_last
        move(1)


def fit(trainer: Any, module: Any, loader: Any, val_dataloaders: Any = None, **pace: Any) -> None:
    """`trainer.fit(module, loader)`, resumed from the newest checkpoint. `pace`: the parameters of `Checkpoints`."""
    if trainer.world_size > 1:
        if not trainer.strategy.cluster_environment.creates_processes_externally:
            raise BadUse(
                detail="Lightning would start the other processes itself, too late: start all of them with torchrun."
            )
        trainer.strategy.setup_environment()  # all are asked what to resume from; a second call does nothing
    checkpoints = Checkpoints(**pace)
    trainer.callbacks.append(checkpoints)
    placed = checkpoints.batches(loader)
    trainer.fit(module, placed, val_dataloaders, ckpt_path=checkpoints.newest())


class Placed:
    """A loader whose pass can start in its middle, with the random numbers it had."""

    def __init__(self, loader: Any) -> None:
        self._rngs = loaders.all_generators(loader)
        loaders.check(loader, loader, self._rngs, say)
        self.loader, self._is_stateful = loader, loaders.is_stateful(loader)
        if self._is_stateful and int(getattr(loader, "num_workers", 0)):
            say("the loader keeps its position but not its workers' random numbers; a plain one does")
        self._reader: loaders.Reader | None = None
        self._drawn: dict[str, Any] | None = None
        self._consumed = 0
        self.done = 0  # batches of this pass learnt from; without a length Lightning reads one ahead
        self._latest: dict[str, Any] = {}  # the place before that one
        self.is_owed = False  # then the place before the next batch is recorded when it is read
        self.before: Mapping[str, Any] | None = None
        self._resume: Mapping[str, Any] | None = None

    def __len__(self) -> int:
        """Batches in one pass."""
        return len(self.loader)

    def __getattr__(self, name: str) -> Any:
        if name == "loader":
            raise AttributeError(name)  # a half-made copy
        return getattr(self.loader, name)

    def __iter__(self) -> Iterator[Any]:
        """One pass, from the current position. Nothing is drawn before its first batch is requested."""
        at, self._resume = self._resume, None
        self._drawn = rng.capture({}, self._rngs) if at is None else self.put_back(at["rng_pass"])
        self._reader = reader = loaders.Reader(self.loader)
        self._consumed = self.done = 0 if at is None else at["consumed"]
        if self._is_stateful:
            if at is not None:
                self.loader.load_state_dict(at["loader"])
            reader.start_as_it_stands()
        else:
            reader.advance(self._consumed)
        if at is not None:
            loaders.check_place(reader, at, say)
            self.put_back(at["rng"])
        for count in itertools.count():
            if count == 1 and at is not None and "after" in at:
                self.put_back(at["after"])
            self.before = self.place(False) if self.is_owed else None
            if loaders.length(self.loader) is None:
                self._latest = self._now()
            batch = next(reader, self)
            if batch is self:
                return
            self._consumed += 1
            yield batch

    def place(self, is_over: bool) -> Mapping[str, Any]:
        """The pass's position, and the random numbers it was drawn with."""
        if is_over:
            return {"rng": rng.capture({}, self._rngs)}
        if self._latest and self._consumed > self.done:
            return dict(self._latest, after=rng.capture({}, self._rngs))
        return self._now()

    def _now(self) -> dict[str, Any]:
        kept = {"consumed": self._consumed, "rng": rng.capture({}, self._rngs), "rng_pass": self._drawn}
        kept["loader"] = self.loader.state_dict() if self._is_stateful else None
        return kept if self._reader is None else dict(kept, **loaders.place(self._reader))

    def go_on(self, place: Mapping[str, Any]) -> None:
        """Let the next pass start there."""
        self._resume = place

    def put_back(self, saved: Any) -> Any:
        """Restore all random numbers from there; returns `saved`."""
        for text in rng.restore(saved, {}, self._rngs):
            say(text)
        return saved
