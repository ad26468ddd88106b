"""The Checkpointer: a training that is killed at any moment, and started again, ends with the very same weights."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Iterator

from sojourn.train import distributed, preempt, run_env, trackers
from sojourn.train.best import Best
from sojourn.train.distributed_saving import desk
from sojourn.train.pace import Pace
from sojourn.train.progress import Progress, light
from sojourn.train.run_env import BadUse, from_root, say
from sojourn.train.saving import arrays
from sojourn.train.saving.commit import Superseded
from sojourn.train.saving.saving import NotSaved
from sojourn.train.state import contents, loaders, rng
from sojourn.train.state.state import Items
from sojourn.wire import units


class Checkpointer:
    """Saves a training now and then and on preemption, and on the next start puts everything back where it stood.

    items: what the training changes, by name: objects with `state_dict` and `load_state_dict`, numpy arrays, tensors,
    dicts and lists of these, and generators of random numbers. The process-wide generators and the position in the data
    are kept without being named. They are restored here, in place, from the newest valid checkpoint.
    loader: what `batches()` reads when it is given nothing, and whose length gives the total.
    keep: how many checkpoints stay beside best.pt.   best: (metric, "max" or "min"), looked at in `end_epoch`.
    every_s, every_steps, every_epochs: when to save; several may be given. None given: as often as wastes the least
    time, from what a save costs here and `mtbf_s`, mean seconds between interruptions (None: what the job, the platform
    and this training's own history say).
    background: False: a save takes place inside `step`; True: `step` only copies the state into memory that is kept for
    that, and a process of its own does the rest; None: whichever is quicker for a state of this size.
    when_behind: "skip": a save that is due while the one before is still being written comes when that has ended;
    "wait": the training waits for it, and before a kill could cost more than `every_steps` or `every_s`.
    folder: default is the run's own, or ./checkpoints; a relative one lies in the run's root where sojourn runs it.

    `resumed` says whether there was something to go on from. `step` may return before the bytes are durable; an error
    is then told by a later call. `save`, the end of `epochs` and leaving on preemption wait until they are.
    Not for threads: all calls from one thread, the main one if signals are to be seen.
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
        self._loader = loader
        self._best = Best(best)
        self._pace = Pace(every_s, every_steps, every_epochs, mtbf_s)
        self._team = distributed.join(bool(self._items.shards.names))
        run_env.hush(not self._team.is_first)
        self._folder, self._saver = desk(self._team, run_env.place(folder), keep, self._pace, background, say)
        self._when_behind = when_behind
        self._progress = Progress(os.environ.get("SOJOURN_PROGRESS", "") if self._team.is_first else "")
        self._metrics: dict[str, Any] = {}
        self._step = self._epoch = self._pass = self._consumed = self._after = 0
        self._said: set[str] = set()
        self._epochs_asked: int | None = None
        self._steps_per_epoch: float | None = None
        self._in_epochs = self._is_blind = self._is_told = self._is_owed = False
        self._is_clean = True  # no batch was handed out since the latest step
        self._reader: loaders.Reader | None = None
        self._loader_rngs = loaders.generators(loader)
        self._loader_state: Any = None
        self._rng_epoch: dict[str, Any] | None = None
        self._rng_pass: dict[str, Any] | None = None
        self._resume: contents.Resume | None = None
        self.resumed = self._load()
        if not preempt.install():
            say("this is not the main thread: a preemption signal will not be seen here")

    @property
    def step_count(self) -> int:
        """Steps taken since the very first start, over all attempts."""
        return self._step

    @property
    def epoch(self) -> int:
        """The epoch that runs or comes next; epochs that ended, counted from 0."""
        return self._epoch

    @property
    def folder(self) -> str:
        """Absolute path of the folder with the checkpoints."""
        return self._folder.path

    def epochs(self, count: int) -> Iterator[int]:
        """The epochs from where the training stands up to `count` - 1; none where it is over. The end is saved.

        What stands between the top of an epoch and its `batches` runs again when that epoch is resumed in its middle:
        with the random numbers it had, and what it changes in the items is then put back.   Raises: NotSaved.
        """
        self._epochs_asked = count
        preempt.install()
        while self._epoch < count:
            if self._resume is not None and self._resume.is_inside_epoch:
                if self._resume.own["rng_epoch"] is not None:
                    self._resume.set_rng("rng_epoch")
            elif self._resume is not None:
                self._put_back()
            drawn, self._rng_epoch = self._rng_epoch, self._rng()
            if drawn not in (None, self._rng_epoch):
                self._say_once("random numbers were drawn after end_epoch: put it last, else a resume is not exact")
            self._in_epochs, before = True, self._epoch
            try:
                yield before
            except GeneratorExit:
                # `break`, to stop early, or an error on its way out: only behind `end_epoch` is the state surely whole.
                if self._is_clean and self._epoch != before and self._team.size == 1:
                    self.save()  # of several, one alone may be on its way out
                preempt.uninstall()
                raise
            if self._epoch == before:
                self.end_epoch()
        self._in_epochs = False
        self._finish()

    def batches(self, loader: Any = None) -> Iterator[Any]:
        """The batches of one pass over `loader` from where the training stands. Call `step` as the last thing for each.

        Raises: loaders.PositionLost where the loader can be read only once, or gives other data than before.
        """
        loader = self._loader if loader is None else loader
        if loader is None or self._reader is not None:
            why = "needs a loader, here or in Checkpointer(loader=...)" if loader is None else "inside batches()"
            raise BadUse(detail=f"batches() {why}.")
        loaders.check(loader, self._loader, [*self._items.generators.values(), *self._loader_rngs])
        at = self._resume
        if at is not None and self._pass < at.position["pass"]:
            self._pass += 1  # this pass was read to its end before
            return
        if at is not None and not at.position["consumed"]:
            self._put_back()
            at = None
        reader = self._reader = loaders.Reader(loader)
        try:
            self._rng_pass = self._rng() if at is None else at.set_rng("rng_pass")
            if loaders.is_stateful(loader):
                if self._loader_state is not None:
                    loader.load_state_dict(self._loader_state)
                self._loader_state = None
                if getattr(loader, "num_workers", 0):
                    self._say_once(
                        "the loader keeps its position but not its workers' random numbers; a plain one does"
                    )
                reader.start_as_it_stands()
            else:
                reader.advance(0 if at is None else at.position["consumed"])
            if at is not None:
                loaders.check_place(reader, at.position, say)
                self._consumed = at.position["consumed"]
                self._put_back()
            for batch in reader:
                self._consumed += 1
                self._is_clean = False
                yield batch
        except Exception as e:
            # A signal to the whole process group also ends a DataLoader's workers, which ends the loader.
            if not preempt.preempted() or self._team.size > 1:
                raise
            say(f"the loader ended with the signal: {type(e).__name__}: {str(e)[:120]}")
            self._leave()
        finally:
            self._reader = None
            self._pass, self._consumed, self._after = self._pass + 1, 0, 0

    def step(self, **metrics: Any) -> None:
        """One step was taken and all is consistent: save if it is time; if preempted, save and leave with 75.

        metrics: numbers to show, 0-dimensional tensors too.   Raises: SystemExit(75), Superseded, NoNumber, Unsaveable.
        A save that fails is told and tried again later; the training goes on.
        """
        if self._resume is not None and self._was_taken_before(self._resume):
            return
        self._step, self._is_clean = self._step + 1, True
        self._after += self._reader is None
        self._metrics.update(light(metrics))
        if self._in_epochs and self._reader is None and not self._pass:
            self._see_no_position()
        if not self._is_told:
            self._tell()
        self._pace.stepped(self._saver.is_busy)
        self._hear()
        is_time = self._team.agree(not self._is_blind and self._is_time(self._pace.is_due(self._step)))
        if self._team.is_leaving:
            self._leave()
        if is_time:
            self._save()
        if self._when_behind == "wait" and self._saver.is_busy and self._pace.is_spent(self._step):
            self._hear(self._saver.hold)
        self._show()

    def end_epoch(self, **metrics: Any) -> None:
        """The epoch is over. Saves if it is time; if the metric of `best` is better than ever, best.pt is this.

        Called by `epochs` itself where the script does not.   Raises: as `step`; BadBest; loaders.PositionLost.
        """
        if self._resume is not None:
            if self._resume.position["consumed"]:
                raise loaders.PositionLost(detail="the checkpoint stands inside a pass that this epoch never began.")
            self._put_back()
        self._metrics.update(light(metrics))
        self._epoch, self._pass, self._consumed, self._after = self._epoch + 1, 0, 0, 0
        self._is_clean, self._is_blind = True, False
        self._rng_epoch, self._rng_pass = self._rng(), None
        self._steps_per_epoch = self._step / self._epoch
        self._hear(self._saver.land if self._best.of else None)  # a best one that is not saved measures nothing
        is_best = self._team.is_first and self._best.offer(metrics, self._epoch, self._step)
        is_due = self._pace.is_due(self._step) or self._pace.is_due_after_epoch(self._epoch)
        if self._team.agree(is_best or self._is_time(is_due)) or self._team.is_leaving:
            self._save(is_best)
        self._show(force=True)
        if self._team.is_leaving:
            self._leave()

    def save(self) -> bool:
        """Save now and wait until it is durable; nothing is written where nothing changed since the latest.

        False where it could not be saved.
        """
        return self._is_clean and not self._is_blind and self._save() and self.wait()

    def wait(self) -> bool:
        """Wait until no save is under way. Whether the latest one is durable.   Raises: Superseded."""
        self._hear(self._saver.land)
        return not self._saver.why_not

    def best_state(self) -> dict[str, Any] | None:
        """The items of best.pt by name (state dicts, arrays, values), every byte checked; None where there is none.

        Nothing of the training changes; give the model `load_state_dict` of it where that is wanted.   Raises: Damaged.
        """
        self._hear(self._saver.land)
        opened = self._folder.best()
        if opened is None:
            return None
        return {name: arrays.thaw(value) for name, value in opened.tree.items() if name != "sojourn"}

    def close(self) -> None:
        """Wait for what is being written, give back signal handlers and folder. Idempotent; no script need call it."""
        preempt.uninstall()
        try:
            self._saver.close()
        finally:
            self._folder.close()

    def _load(self) -> bool:
        found = self._folder.latest_valid()
        if found is None:
            return False
        self._resume = at = contents.Resume(found, self._items, self._loader_rngs, say, self._team)
        self._step, self._epoch, self._loader_state = at.own["step"], at.position["epoch"], at.own["loader"]
        place = (self._step, self._epoch, at.position["pass"], at.position["consumed"])
        self._saver.goes_on(at.name, self._step, at.bytes, place)
        self._metrics.update(at.own["metrics"])
        self._best.restore(at.own["best"])
        self._pace.interruptions.restore(at.own.get("interruptions"))
        self._pace.goes_on(self._step)
        at.put_back()
        say(f"goes on from {at.name}: epoch {self._epoch}, step {self._step}, every byte checked")
        if at.facts.get("is_best") and self._folder.best_facts() != at.facts:
            self._saver.link_best(at.name)  # a kill came between the save and the link
        return True

    def _put_back(self) -> None:
        """Once more, where the training really goes on.

        What the script did since its start (setting up, the top of an epoch) is in the saved state already.
        """
        assert self._resume is not None
        self._resume.put_back()
        self._step, self._resume = self._resume.own["step"], None

    def _was_taken_before(self, at: contents.Resume) -> bool:
        """A step on the way to the place where the training goes on; the step that saved is that place."""
        if not at.is_inside_epoch:
            self._resume = None  # a loop without passes, which goes on from `step_count`
            return False
        self._after += 1
        if (self._pass, self._after) == (at.position["pass"], at.position["after"]):
            self._put_back()
        return True

    def _rng(self) -> dict[str, Any]:
        return rng.capture(self._items.generators, self._loader_rngs)

    def _save(self, is_best: bool = False) -> bool:
        """Save, or have it saved; False where it is known by now that it could not be."""
        place = (self._step, self._epoch, self._pass, self._consumed)
        if self._resume is not None or self._saver.has(place):
            return True  # nothing is new
        now_s, before = time.time(), self._best.before
        self._is_owed = False

        def undo() -> None:
            if is_best:
                self._best.record = before  # best.pt is never said to hold what it does not

        try:
            return self._saver.save(self._plan(is_best, now_s), self._step, now_s, place, is_best, undo)
        except Superseded:
            self._is_clean = False
            raise

    def _is_time(self, is_due: bool) -> bool:
        """Save now? Where the one before is still being written and is not to be waited for: when that has ended."""
        is_due, self._is_owed = is_due or self._is_owed, False
        if is_due and self._saver.is_busy and self._when_behind == "skip":
            self._is_owed = True
            self._saver.tell_behind()
        return is_due and not self._is_owed

    def _hear(self, ask: Callable[[], None] | None = None) -> None:
        """What came of a save under way.   Raises: Superseded."""
        try:
            (ask or self._saver.poll)()
        except Superseded:
            self._is_clean = False
            raise

    def _plan(self, is_best: bool, now_s: float) -> contents.AnyPlan:
        position = {"epoch": self._epoch, "pass": self._pass, "consumed": self._consumed, "after": self._after}
        if self._reader is not None:
            position.update(loaders.place(self._reader))
        own: dict[str, Any] = {"rng": self._rng(), "rng_epoch": self._rng_epoch, "rng_pass": self._rng_pass}
        own.update(position=position, loader=self._loader.state_dict() if loaders.is_stateful(self._loader) else None)
        own.update(ranks=self._team.gather(own) if self._team.size > 1 else None)
        own["interruptions"] = self._pace.interruptions.as_saved()
        shown = {"step": self._step, "epoch": self._epoch, "best": self._best.record}
        facts = dict(shown, token=self._folder.token, is_best=is_best, at=units.stamp(now_s))
        return contents.plan(self._items, own, dict(shown, metrics=self._metrics), facts)

    def _leave(self) -> None:
        is_saved, what = self.save(), f"saved at step {self._step}"
        if not is_saved:
            latest = self._saver.latest
            what = "nothing new could be saved" + (f", {latest['name']} stands" if latest else "")
        say(f"{preempt.why()} at step {self._step}: {what}; leaving with {preempt.AGAIN} to be run again")
        self._show(force=True)
        self._is_clean = False  # nothing else is to be saved on the way out
        raise SystemExit(preempt.AGAIN)

    def _finish(self) -> None:
        if not self._save() or not self.wait():
            raise NotSaved(detail=self._saver.why_not)
        self._rng_epoch = None
        preempt.uninstall()
        preempt.forget()
        self._show(force=True)

    def _see_no_position(self) -> None:
        """A step of an epoch whose data do not come through `batches`: one can go on only from the ends of epochs."""
        self._is_blind = True
        self._say_once("the loop does not read its data through ckpt.batches(...): only ends of epochs can be saved")

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            say(text)
        self._said.add(text)

    def _show(self, force: bool = False) -> None:
        asked, per_epoch = self._epochs_asked, self._steps_per_epoch
        if per_epoch is None:
            per_epoch = loaders.length(self._reader.loader if self._reader is not None else self._loader)
        total = None if asked is None or per_epoch is None else max(self._step, round(per_epoch * asked))
        seen, took_s = self._saver.latest, {"write_s": round(self._pace.durable_s, 3)}
        seen = seen and {"path": from_root(seen["path"]), "step": seen["step"], "bytes": seen["bytes"], **took_s}
        self._progress.write(self._step, total, self._epoch, self._metrics, seen, force)

    def _tell(self) -> None:
        """Once, before the first save: how much, how often, by whom, and whether the disk has room for it."""
        self._is_told = True
        plan = self._plan(False, 0.0)
        self._pace.expect(plan.bytes)
        by = self._saver.prepare(plan)
        say(f"a checkpoint is {units.say_bytes(plan.bytes)}, written {self._pace.words()}" + (f", {by}" if by else ""))
        budget = self._folder.budget(plan.bytes, with_best=self._best.of is not None)
        for text in (budget, *distributed.remarks(), *trackers.remarks()):
            say(text)
