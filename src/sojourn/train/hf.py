"""For the Trainer of Hugging Face: `hf.train(trainer)` in place of `trainer.train()` resumes the training.

The Trainer writes its own checkpoint, in its own format; the callback decides when, and commits it whole or not at all.
What the Trainer saves by itself (`save_strategy`) is left alone.
Source: transformers/trainer.py and trainer_callback.py of transformers 5.23, 2026-11.
"""

from __future__ import annotations

import glob
import os
import shutil
from typing import Any

from sojourn.train.guard import Guard
from sojourn.train.run_env import BadUse
from sojourn.wire import atomic

try:
    from transformers import TrainerCallback
except ImportError:  # then no Trainer can be passed either
    TrainerCallback = object

_STAGED = ".sojourn-staged.json"  # in output_dir: names the folder the Trainer is writing for us


class Checkpoints(TrainerCallback):  # type: ignore[misc]
    """Saves a Trainer's training regularly, on preemption (then it exits with 75) and at its end.

    Create it after the Trainer's arguments (they set up torch.distributed), add it to `callbacks`, and start with
    `trainer.train(resume_from_checkpoint=checkpoints.newest())`; or leave all that to `train`. Parameters and errors:
    as in `guard.Guard`. Exact on a CPU, provided the data set draws no random numbers in the main process: the Trainer
    does not restore those for the first batch.
    """

    def __init__(self, **pace: Any) -> None:
        self._guard = Guard(**pace)
        self._asked: int | None = None  # the step after which the Trainer was asked to save
        self._is_theirs = False
        self.has_trained = False

    def newest(self) -> str | None:
        """The checkpoint to resume from, every byte checked; None if there is none.   Raises: Damaged."""
        found = self._guard.newest()
        return None if found is None else found[0]

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Refuses settings that would make a resume inexact; removes a killed attempt's half-written files."""
        if args.save_only_model or args.ignore_data_skip:
            raise BadUse(detail="save_only_model and ignore_data_skip leave out what an exact resume needs.")
        marker = os.path.join(args.output_dir, _STAGED)
        left = atomic.read_json(marker) if self._guard.team.is_first else None
        if self._guard.team.is_first:
            for aside in glob.glob(glob.escape(marker) + ".*.tmp"):  # from a process killed while writing the marker
                os.unlink(aside)
        if left:
            shutil.rmtree(os.path.join(args.output_dir, os.path.basename(left["name"])), ignore_errors=True)
            os.unlink(marker)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """Asks the Trainer to save when due."""
        self.has_trained = True
        is_end = state.global_step >= state.max_steps
        if self._guard.is_due(state.global_step, state.max_steps, at_end=is_end):
            self._asked, self._is_theirs = state.global_step, control.should_save
            if self._guard.team.is_first and not self._is_theirs:
                os.makedirs(args.output_dir, exist_ok=True)
                name = f"checkpoint-{state.global_step}"
                atomic.write_json(os.path.join(args.output_dir, _STAGED), {"name": name}, durable=False)
            control.should_save = True
        return control

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Reports what the Trainer logs: loss, learning rate, evaluation results."""
        self._guard.describe(dict(logs or {}), state.epoch or 0.0)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The Trainer has written: commit it, if we asked for it."""
        if self._asked is None:
            return
        self._asked = None
        written = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
        self._guard.team.gather(None)  # all have written

        def fill(aside: str) -> None:
            if self._guard.team.is_first:
                _take(written, aside, keep=self._is_theirs)
                if not self._is_theirs:
                    os.unlink(os.path.join(args.output_dir, _STAGED))

        self._guard.commit(state.global_step, fill)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Releases the folder."""
        self._guard.close()

    def failed(self, error: Exception) -> None:
        """The training ended with this error: report it if it came during a save of ours."""
        if self._asked is not None:
            self._guard.not_saved(self._asked, error)


def train(trainer: Any, **pace: Any) -> Any:
    """`trainer.train()`, resumed from the newest checkpoint. `pace`: the parameters of `Checkpoints`."""
    checkpoints = Checkpoints(**pace)
    trainer.add_callback(checkpoints)
    newest = checkpoints.newest()
    try:
        done = trainer.train(resume_from_checkpoint=newest)
    except Exception as e:
        checkpoints.failed(e)
        raise
    if not checkpoints.has_trained:
        trainer._load_rng_state(newest)  # it was over: the Trainer does this only inside an epoch
    return done


def _take(written: str, aside: str, keep: bool) -> None:
    """Move everything in `written` to `aside`, as links if it must be kept; copied from another file system."""
    for folder, _, names in os.walk(written):
        into = os.path.join(aside, os.path.relpath(folder, written))
        os.makedirs(into, exist_ok=True)
        for name in names:
            try:
                os.link(os.path.join(folder, name), os.path.join(into, name))
            except OSError:
                shutil.copyfile(os.path.join(folder, name), os.path.join(into, name))
    if not keep:
        shutil.rmtree(written)
