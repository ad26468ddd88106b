"""The Checkpointer: a training killed at any moment and restarted ends with exactly the same weights."""

from __future__ import annotations

import os
import time
import weakref
from typing import Any, Callable, Iterator

from sojourn.train import distributed, preempt, run_env
from sojourn.train.best import Best
from sojourn.train.distributed_saving import desk
from sojourn.train.pace import Pace
from sojourn.train.progress import light
from sojourn.train.report import Report
from sojourn.train.run_env import BadUse, say
from sojourn.train.saving import commit, shared_memory
from sojourn.train.saving.saving import NotSaved
from sojourn.train.state import contents, loaders, rng
from sojourn.train.state.kept import History, Kept, caller
from sojourn.train.state.place import Place
from sojourn.train.state.state import Items
from sojourn.wire import units


class Checkpointer:
    """Saves a training regularly and on preemption; on the next start, restores everything to where it was.

    items: what the training changes, by name: objects with `state_dict` and `load_state_dict`, numpy arrays, tensors,
    dicts and lists of these, and random number generators. The process-wide generators and the position in the data are
    kept automatically. All are restored here, in place, from the newest valid checkpoint.
    loader: what `batches()` reads by default; its length gives the total.
    keep: how many checkpoints to keep beside best.pt.   best: (metric, "max" or "min"), evaluated in `end_epoch`.
    every_s, every_steps, every_epochs: when to save; several may be given. By default, the interval that wastes the
    least time, from a save's cost here and `mtbf_s`, mean seconds between interruptions (None: from the job, the
    platform and this training's own history).
    background: False: save inside `step`; True: `step` only copies the state into reserved memory, and a separate
    process does the rest; None: whichever is quicker for a state of this size.
    when_behind: a save is due while the previous one is still being written: "skip": it follows when that ends; "wait":
    the training waits, before a kill could cost more than `every_steps` or `every_s`.
    folder: default is the run's own, or ./checkpoints; a relative one is in the run's root under sojourn.

    `resumed` says whether a checkpoint was resumed. `step` may return before the bytes are durable; a later call then
    reports an error. `save`, the end of `epochs` and leaving on preemption wait until they are.
    Not thread-safe: call from one thread, the main one if signals are to be seen.
    Raises: BadItem, OtherState, BadUse, NoPlace, FolderBusy, SeveralProcesses, Damaged (no checkpoint is valid).
    """

    def __init__(
        self,
        *,
        loader: Any = None,
        keep: int = 2,
        best: tuple[str, str] | None = None,
        every_s: float | None = None,
        every_steps: int | None = None,
        every_epochs: int | None = None,
        mtbf_s: float | None = None,
        background: bool | None = None,
        when_behind: str = "skip",
        folder: str | os.PathLike[str] | None = None,
        **items: Any,
    ) -> None:
        if keep < 1 or "sojourn" in items:
            raise BadUse(detail="keep must be at least 1, and no item may be called sojourn.")
        self._items = Items(items)
        if best is not None and self._items.shards.names:
            raise BadUse(detail="best.pt is not kept of a sharded state (FSDP); leave `best` out.")
        if when_behind not in ("skip", "wait"):
            raise BadUse(detail=f'when_behind is "skip" or "wait", not {when_behind!r}.')
        self._loader, self._when_behind = loader, when_behind
        self._best = Best(best)
        self._pace = Pace(every_s, every_steps, every_epochs, mtbf_s)
        self._team = distributed.join(bool(self._items.shards.names))
        run_env.hush(not self._team.is_first)
        self._folder, self._saver = desk(self._team, run_env.place(folder), keep, self._pace, background, say)
        self._report = Report(self._team.is_first)
        self._step, self._at = 0, Place()
        self._history = History()
        self._in_epochs = self._is_blind = self._is_owed = False
        self._is_clean = True  # no batch was yielded since the latest step
        self._passing: weakref.ref[Iterator[Any]] | None = None
        self._sources = rng.Sources(self._items.generators, loaders.all_generators(loader))
        self._loader_state: Any = None
        self._rng_epoch: dict[str, Any] | None = None
        self._rng_pass: dict[str, Any] | None = None
        self._resume: contents.Resume | None = None
        self.resumed = self._load()
        self._saver.expect(shared_memory.with_room(self._items.expected_bytes()))
        if not preempt.install():
            say("this is not the main thread: a preemption signal will not be seen here")

    @property
    def step_count(self) -> int:
        """Steps taken since the very first start, over all attempts."""
        return self._step

    @property
    def epoch(self) -> int:
        """The current or next epoch: the number of finished epochs, from 0."""
        return self._at.epoch

    @property
    def folder(self) -> str:
        """Absolute path of the checkpoint folder."""
        return self._folder.path

    def epochs(self, count: int) -> Iterator[int]:
        """The epochs from the current one up to `count` - 1; none if training is over. Saves at the end.

        When an epoch is resumed in its middle, the code between its top and its `batches` runs again: with the random
        numbers it had, and its changes to the items are then undone.   Raises: NotSaved.
        """
        self._report.epochs_asked = count
        preempt.install()
        while self._at.epoch < count:
            if self._resume is not None and self._resume.is_inside_epoch:
                if self._resume.own["rng_epoch"] is not None:
                    self._resume.set_rng("rng_epoch")
            elif self._resume is not None:
                self._put_back()
            drawn, self._rng_epoch = self._rng_epoch, self._sources.capture()
            if drawn not in (None, self._rng_epoch):
                self._report.once("random numbers were drawn after end_epoch: put it last, else a resume is not exact")
            self._in_epochs, before = True, self._at.epoch
            try:
                yield before
            except GeneratorExit:
                # `break`, to stop early, or an error: only after `end_epoch` is the state surely complete.
                if self._is_clean and self._at.epoch != before and self._team.size == 1:
                    self.save()  # only one of several processes may be on its way out
                preempt.uninstall()
                raise
            if self._at.epoch == before:
                self.end_epoch()
        self._in_epochs = False
        self._finish()

    def batches(self, loader: Any = None) -> Iterator[Any]:
        """The rest of one pass over `loader`, from the current position. Call `step` last for each batch.

        Raises: loaders.PositionLost if the loader can be read only once, or yields other data than before.
        """
        passing = self._pass(loader)
        self._passing = weakref.ref(passing)
        return passing

    def enumerate(self, loader: Any = None, start: int = 0) -> Iterator[tuple[int, Any]]:
        """Like `batches`, each with its number in the whole pass, counted from `start`."""
        for batch in self.batches(loader):
            yield start + self._at.consumed - 1, batch

    def _pass(self, loader: Any) -> Iterator[Any]:
        loader = self._loader if loader is None else loader
        if loader is None or self._at.reader is not None:
            why = "needs a loader, here or in Checkpointer(loader=...)" if loader is None else "inside batches()"
            raise BadUse(detail=f"batches() {why}.")
        loaders.check(loader, self._loader, self._sources.own(), self._report.once)
        at, passing = self._resume, self._passing
        if at is not None and self._at.passes < at.position["pass"]:
            self._at.passes += 1  # this pass was fully read before
            return
        if at is not None and not at.position["consumed"]:
            self._put_back()
            at = None
        reader = self._at.reader = loaders.Reader(loader, self._sources, self._report.once)
        try:
            self._at.count(passing, None if at is None else at.position, self._report.once)
            self._rng_pass = (None if at is None else at.set_rng("rng_pass")) or self._sources.capture()
            if loaders.is_stateful(loader):
                reader.start_as_it_stands(self._loader_state, self._report.once)
                self._loader_state = None
            else:
                reader.advance(*((0,) if at is None else (at.position["consumed"], at.position, at.own["rng"])))
            if at is not None:
                loaders.check_place(reader, at.position, say)
                self._at.consumed = at.position["consumed"]
                self._put_back()
            for batch in reader:
                self._at.consumed += 1
                self._is_clean = False
                yield batch
        except Exception as e:
            # A signal to the whole process group also ends a DataLoader's workers, and so the loader.
            if not preempt.preempted() or self._team.size > 1:
                raise
            say(f"the loader ended with the signal: {type(e).__name__}: {str(e)[:120]}")
            self._leave()
        finally:
            self._at.end_pass()

    def step(self, **metrics: Any) -> None:
        """One step was taken and the state is consistent: save if due; if preempted, save and exit with 75.

        metrics: numbers to show, including 0-dimensional tensors.   Raises: SystemExit(75), Superseded, NoNumber,
        Unsaveable. A failed save is reported and retried later. Between two steps of an optimizer that accumulates
        gradients, a save waits for the second, as long as the cadence allows; else it includes the gradients.
        """
        if self._resume is not None and self._was_taken_before(self._resume):
            return
        self._step, self._is_clean = self._step + 1, True
        self._at.after += self._at.reader is None
        metrics = light(metrics)
        self._report.metrics.update(metrics)
        self._history.means.add(metrics)
        if self._in_epochs and self._at.reader is None and not self._at.passes:
            self._is_blind = True  # only ends of epochs can be resumed
            self._report.once(
                "the loop does not read its data through ckpt.batches(...): only ends of epochs are saved"
            )
        if not self._report.is_told:
            plan = self._plan(False, 0.0, with_gradients=False)
            self._report.tell(
                plan.bytes, self._pace, self._saver.prepare(plan), self._folder, self._best.of is not None
            )
        self._pace.stepped(self._saver.is_busy)
        self._items.gradients.stepped()
        self._pace.window = self._items.gradients.window
        self._hear()
        is_time = self._team.agree(not self._is_blind and self._is_time(self._pace.is_due(self._step)))
        if self._team.is_leaving and not (self._items.shards.names and self._items.gradients.is_pending()):
            self._leave()
        if is_time:
            self._save()
        if self._when_behind == "wait" and self._saver.is_busy and self._pace.is_spent(self._step):
            self._hear(self._saver.hold)
        self._show()

    def end_epoch(self, **metrics: Any) -> None:
        """The epoch is over. Saves if due; if the metric of `best` is a new best, this becomes best.pt.

        Called by `epochs` itself if the script does not.   Raises: as `step`; BadBest; loaders.PositionLost.
        """
        if self._resume is not None:
            if self._resume.position["consumed"]:
                raise loaders.PositionLost(detail="the checkpoint stands inside a pass that this epoch never began.")
            self._put_back()
        self._report.metrics.update(light(metrics))
        self._history.end_epoch(self._best.of, metrics, caller(1), self._report.once)
        self._at.end_epoch()
        self._is_clean, self._is_blind = True, False
        self._rng_epoch, self._rng_pass = self._sources.capture(), None
        self._report.steps_per_epoch = self._step / self._at.epoch
        self._hear(self._saver.land if self._best.of else None)  # an unsaved best is no yardstick
        is_best = self._team.is_first and self._best.offer(metrics, self._at.epoch, self._step)
        is_due = self._pace.is_due(self._step) or self._pace.is_due_after_epoch(self._at.epoch)
        if self._team.agree(is_best or self._is_time(is_due)) or self._team.is_leaving:
            self._save(is_best)
        self._show(force=True)
        if self._team.is_leaving:
            self._leave()

    def mean(self, metric: str) -> float:
        """The mean of the values given to `step` by this name in the current epoch, including before a resume."""
        return self._history.means.mean(metric)

    def keep(self, **values: Any) -> Kept:
        """Set values that the loop keeps, as attributes: `kept.total += 1`. A resume restores them."""
        return self._history.keep(values, None if self._resume is None else self._resume.own)

    def on_durable(self, call: Callable[[str, int], None]) -> None:
        """`call(path, step)` for each checkpoint once known to be durable; of several processes, only in the first."""
        self._saver.listeners.append(call)

    def save(self) -> bool:
        """Save now and wait until it is durable; writes nothing if nothing has changed. False if that failed."""
        if not self._is_clean or self._is_blind:
            return False
        self.wait()  # what is under way may have begun without the room that is there by now
        return self._save() and self.wait()

    def wait(self) -> bool:
        """Wait for any save under way. Returns whether the latest one is durable.   Raises: Superseded."""
        self._hear(self._saver.land)
        return not self._saver.why_not

    def best_state(self) -> dict[str, Any] | None:
        """The items of best.pt by name (state dicts, arrays, values), every byte checked; None if there is none.

        Leaves the training unchanged; pass it to the model's `load_state_dict` if wanted.   Raises: Damaged.
        """
        self._hear(self._saver.land)
        return contents.items_of(self._folder.best())

    def close(self) -> None:
        """Finish writing, restore signal handlers, release the folder. Idempotent; scripts need not call it."""
        preempt.uninstall()
        try:
            self._saver.close()
        finally:
            self._folder.close()

    def _load(self) -> bool:
        found = self._folder.latest_valid()
        if found is None:
            return False
        self._resume = at = contents.Resume(found, self._items, self._sources.of_loader, say, self._team)
        self._step, self._at.epoch, self._loader_state = at.own["step"], at.position["epoch"], at.own["loader"]
        self._saver.goes_on(at.name, self._step, at.bytes, at.mark)
        self._report.metrics.update(at.own["metrics"])
        self._best.restore(at.own["best"])
        self._pace.interruptions.restore(at.own.get("interruptions"))
        self._pace.goes_on(self._step)
        at.put_back()
        self._history.restore(at.own, at.is_inside_epoch)
        say(f"resumes from {at.name}: epoch {self._at.epoch}, step {self._step}, every byte checked")
        if at.facts.get("is_best") and self._folder.best_facts() != at.facts:
            self._saver.link_best(at.name)  # a kill came between the save and the link
        return True

    def _put_back(self) -> None:
        """Once more, at the point where the training really continues.

        What the script did since its start (setup, the top of an epoch) is in the saved state already.
        """
        assert self._resume is not None
        self._resume.put_back()
        self._history.restore(self._resume.own, self._resume.is_inside_epoch)
        self._step, self._resume = self._resume.own["step"], None

    def _was_taken_before(self, at: contents.Resume) -> bool:
        """A step on the way to the point of resumption; the step that saved is that point."""
        if not at.is_inside_epoch:
            self._resume = None  # a loop without passes, which resumes from `step_count`
            return False
        self._at.after += 1
        if (self._at.passes, self._at.after) == (at.position["pass"], at.position["after"]):
            self._put_back()
        return True

    def _save(self, is_best: bool = False) -> bool:
        """Save, or hand the save over; False if it is already known to have failed."""
        place = self._at.mark(self._step)
        if self._resume is not None or self._saver.has(place):
            return True  # nothing new
        now_s, before = time.time(), self._best.before
        self._is_owed = False

        def undo() -> None:
            if is_best:
                self._best.record = before  # best.pt must never claim what it does not contain

        try:
            return self._saver.save(self._plan(is_best, now_s), self._step, now_s, place, is_best, undo)
        except commit.Superseded:
            self._is_clean = False
            raise

    def _is_time(self, is_due: bool) -> bool:
        """Save now? Not between two steps of an optimizer that accumulates gradients, if it can wait; nor while the
        previous save is being written and is not waited for: then it follows that one.
        """
        is_due, self._is_owed = is_due or self._is_owed, False
        is_sharded = bool(self._items.shards.names)  # a sharded state's gradients are not kept
        if is_due and (is_sharded or not self._pace.is_late(self._step)) and self._items.gradients.is_pending():
            self._is_owed = True
        elif is_due and self._saver.is_busy and self._when_behind == "skip":
            self._is_owed = True
            self._saver.tell_behind()
        return is_due and not self._is_owed

    def _hear(self, ask: Callable[[], None] | None = None) -> None:
        """The result of a save under way.   Raises: Superseded."""
        try:
            (ask or self._saver.poll)()
        except commit.Superseded:
            self._is_clean = False
            raise

    def _plan(self, is_best: bool, now_s: float, with_gradients: bool = True) -> contents.AnyPlan:
        drawn = {"rng": self._sources.capture(), "rng_epoch": self._rng_epoch, "rng_pass": self._rng_pass}
        drawn.update(self._history.as_saved())
        own = contents.own(self._items, self._at, self._loader, drawn, self._team, with_gradients)
        own["interruptions"] = self._pace.interruptions.as_saved()
        shown = {"step": self._step, "epoch": self._at.epoch, "best": self._best.record}
        facts = dict(shown, token=self._folder.token, is_best=is_best, at=units.stamp(now_s))
        return contents.plan(self._items, own, dict(shown, metrics=self._report.metrics), facts)

    def _leave(self) -> None:
        is_saved, what = self.save(), f"saved at step {self._step}"
        if not is_saved:
            what = f"nothing new could be saved, {commit.stands(self._saver.latest, self._folder.path)}"
        say(f"{preempt.why()} at step {self._step}: {what}; exiting with {preempt.AGAIN} to be run again")
        self._show(force=True)
        self._is_clean = False  # nothing else must be saved on the way out
        raise SystemExit(preempt.AGAIN)

    def _finish(self) -> None:
        self.wait()
        if not self._save() or not self.wait():
            raise NotSaved(detail=self._saver.why_not)
        self._rng_epoch = None
        preempt.uninstall()
        preempt.forget()
        self._show(force=True)

    def _show(self, force: bool = False) -> None:
        loader = self._at.reader.loader if self._at.reader is not None else self._loader
        seen = self._saver.latest, self._pace.durable_s
        self._report.show(self._step, self._at.epoch, loaders.length(loader), *seen, force=force)
