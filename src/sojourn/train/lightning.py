"""For the Trainer of Lightning: `lightning.fit(trainer, module, loader)` in the place of `trainer.fit(module, loader)`
goes on where it stood.

Lightning writes its own checkpoint, which anything that reads Lightning's can read; the callback says when, adds the
random numbers and the place in the data, which Lightning does not keep, and commits it so that it is whole or absent.
Source: lightning/pytorch/loops/{fit_loop,training_epoch_loop}.py of lightning 2.6, 2026-11.
"""

from __future__ import annotations

import os
from typing import Any, Iterator, Mapping

from sojourn.train import loaders, preempt, rng
from sojourn.train.around import BadUse, say
from sojourn.train.guard import Guard

try:
    from lightning.pytorch.callbacks import Checkpoint
except ImportError:  # then there is no Trainer to give this to
    Checkpoint = object

FILE = "lightning.ckpt"


class Checkpoints(Checkpoint):  # type: ignore[misc]
    """Saves a Lightning training now and then, on preemption (then it leaves with 75) and at its end.

    Give it to the Trainer's callbacks, wrap the loader by `batches`, and start with `trainer.fit(module,
    checkpoints.batches(loader), ckpt_path=checkpoints.newest())`; or leave all that to `fit`.
    Parameters and errors: as of `guard.Guard`. It saves behind batches, never behind the last one of an epoch nor
    before a validation or inside accumulated gradients: a save that is due there comes a batch later.
    """

    def __init__(self, **pace: Any) -> None:
        self._pace = pace
        self._made: Guard | None = None
        self._loader: Placed | None = None
        self._ended: tuple[int, Any] | None = None  # the training was over at this step, and what was random stood so
        self._steps = 0
        self._is_over = False

    def batches(self, loader: Any) -> Placed:
        """The same loader, whose passes begin where the training stands. Only one is kept track of."""
        self._loader = Placed(loader)
        return self._loader

    def newest(self) -> str | None:
        """The checkpoint to resume from, every byte checked; None where there is none.   Raises: Damaged."""
        found = self._guard.newest()
        return None if found is None else os.path.join(found[0], FILE)

    @property
    def _guard(self) -> Guard:
        if self._made is None:
            self._made = Guard(**self._pace)
        return self._made

    def state_dict(self) -> dict[str, Any]:
        """What Lightning keeps for this callback: every process's random numbers and place in the data."""
        ranks = [] if self._loader is None else self._guard.team.gather(dict(self._loader.place(self._is_over)))
        return {"steps": self._steps, "ranks": ranks, "is_over": self._is_over}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from there.   Raises: OtherWorld."""
        self._steps = state_dict["steps"]
        if state_dict["ranks"] and self._loader is not None:
            mine = self._guard.team.mine(state_dict["ranks"], is_inside=not state_dict["is_over"])
            if not state_dict["is_over"]:
                self._loader.go_on(mine)
            elif mine is not None:
                self._ended = (self._steps, mine["rng"])

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Refuses what would make a resume inexact."""
        loader = self._loader
        if loader is None or trainer.train_dataloader is not loader:
            raise BadUse(detail="Lightning reads another loader than batches() gave: the place in the data is unknown.")
        if trainer.num_training_batches == 1:
            raise BadUse(detail="an epoch of a single batch can not be saved inside; accumulate over more batches.")
        if trainer.world_size > 1 and not hasattr(loader.sampler, "num_replicas"):
            raise BadUse(detail="of several processes each would read all data: give the loader a DistributedSampler.")
        preempt.reclaim()  # Lightning's own handler ends the training behind a batch, saved or not
        self._guard.leave_if_asked(self._steps)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Saves where it is time."""
        self._steps += 1
        done, total = batch_idx + 1, trainer.num_training_batches
        checks = trainer.enable_validation and done % trainer.val_check_batch == 0
        may_save = done != total and done % trainer.accumulate_grad_batches == 0 and not checks
        epochs = trainer.max_epochs if trainer.max_epochs and trainer.max_epochs > 0 else None
        steps = round(total * epochs) if epochs and total != float("inf") else None
        if self._guard.is_due(self._steps, steps, may_save):
            self._save(trainer)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Saves the end."""
        if not self._is_over and not trainer.interrupted:
            self._is_over = True
            self._save(trainer)
        self._guard.close()

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """Where it was over before: what is drawn next is what was drawn then."""
        if self._ended is not None and self._ended[0] == self._steps and self._loader is not None:
            self._loader.put_back(self._ended[1])

    def _save(self, trainer: Any) -> None:
        self._guard.commit(self._steps, lambda aside: trainer.save_checkpoint(os.path.join(aside, FILE)))


def fit(trainer: Any, module: Any, loader: Any, val_dataloaders: Any = None, **pace: Any) -> None:
    """`trainer.fit(module, loader)`, going on from the newest checkpoint. `pace`: the parameters of `Checkpoints`."""
    if trainer.world_size > 1:
        if not trainer.strategy.cluster_environment.creates_processes_externally:
            raise BadUse(detail="Lightning would start the other processes itself, too late: start all by torchrun.")
        trainer.strategy.setup_environment()  # all are asked what to go on from; a second call does nothing
    checkpoints = Checkpoints(**pace)
    trainer.callbacks.append(checkpoints)
    placed = checkpoints.batches(loader)
    trainer.fit(module, placed, val_dataloaders, ckpt_path=checkpoints.newest())


class Placed:
    """A loader whose pass can begin in its middle, with the random numbers it had."""

    def __init__(self, loader: Any) -> None:
        loaders.check(loader, loader, [])
        if loaders.is_stateful(loader):
            raise BadUse(detail="a loader that keeps its own place needs no batches(): Lightning asks it by itself.")
        self.loader = loader
        self._rngs = loaders.generators(loader)
        self._reader: loaders.Reader | None = None
        self._drawn: dict[str, Any] | None = None
        self._consumed = 0
        self._resume: Mapping[str, Any] | None = None

    def __len__(self) -> int:
        """Batches in one pass."""
        return len(self.loader)

    def __getattr__(self, name: str) -> Any:
        if name == "loader":
            raise AttributeError(name)  # a half-made copy
        return getattr(self.loader, name)

    def __iter__(self) -> Iterator[Any]:
        """One pass, from where it stood. Nothing is drawn before its first batch is asked for."""
        at, self._resume = self._resume, None
        self._drawn = rng.capture({}, self._rngs) if at is None else self.put_back(at["rng_pass"])
        self._reader = reader = loaders.Reader(self.loader)
        self._consumed = 0 if at is None else at["consumed"]
        reader.advance(self._consumed)
        if at is not None:
            loaders.check_place(reader, at, say)
            self.put_back(at["rng"])
        for batch in reader:
            self._consumed += 1
            yield batch

    def place(self, is_over: bool) -> dict[str, Any]:
        """Where the pass stands, and what it was drawn with."""
        kept = {"consumed": self._consumed, "rng": rng.capture({}, self._rngs), "rng_pass": self._drawn}
        if self._reader is not None and not is_over:
            kept.update(loaders.place(self._reader))
        return kept

    def go_on(self, place: Mapping[str, Any]) -> None:
        """Let the next pass begin there."""
        self._resume = place

    def put_back(self, saved: Any) -> Any:
        """Let all random numbers go on from there; gives `saved`."""
        for text in rng.restore(saved, {}, self._rngs):
            say(text)
        return saved
