"""Saves under way: made here at once if the state is tiny, else copied and left to the writer process.

The `Checkpointer` decides what to save and when; the results appear here, at the next `poll` or `land`.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any, Callable, Mapping

from sojourn.formats.torch.write import Plan
from sojourn.train.pace import Pace
from sojourn.train.saving import commit, shared_memory
from sojourn.train.saving.background import Background, WriterEnded, wait
from sojourn.train.saving.commit import Superseded
from sojourn.train.saving.folder import Folder
from sojourn.wire import units
from sojourn.wire.errors import WorldError

HERE_BYTES = 1 << 20  # up to this size, writing takes hardly longer than handing over, and leaves the other cores alone
_RESERVE_S = 600.0
_DEATHS = 3  # writers that may die in a row before saves are made without one


class NotSaved(WorldError):
    """The final state was not saved: {detail}. Earlier checkpoints are intact."""

    code = "not-saved"


@dataclass(frozen=True)
class Flight:
    """A save made by another process. Times on the monotonic clock."""

    step: int
    place: tuple[int, ...]
    bytes: int
    began_s: float
    stall_s: float
    undo: Callable[[], None]


class Saver:
    """Saves plans into `folder`, in the background or not (None: by size), and reports the time taken to `pace`.

    `latest`: {"name", "step", "bytes"} of the newest durable one, None before the first. `place`: the Checkpointer's
    label for it. `why_not`: of the latest failure.
    """

    def __init__(self, folder: Folder, pace: Pace, background: bool | None, say: Callable[[str], None]) -> None:
        self.folder, self.pace, self.say = folder, pace, say
        self.latest: dict[str, Any] | None = None
        self.place: tuple[int, ...] = ()
        self.why_not = ""
        self.listeners: list[Callable[[str, int], None]] = []  # called with path and step of each durable one
        self._wanted = background
        self._background: Background | None = None
        self._reserving = 0
        self._deaths = self._failures = 0
        self._is_next_here = False  # a writer died of the latest save: do not give the next one to another
        self._flight: Flight | None = None
        self._is_behind_told = False

    @property
    def is_busy(self) -> bool:
        """A save is under way, and not known to have ended."""
        return self._flight is not None

    def has(self, place: tuple[int, ...]) -> bool:
        """The state at `place` is saved, or being saved."""
        if self._flight is not None:
            return place == self._flight.place
        return place == self.place and (self.latest is None or os.path.exists(self.latest["path"]))

    def goes_on(self, name: str, step: int, size_bytes: int, place: tuple[int, ...]) -> None:
        """The training resumes from this checkpoint."""
        self.place = place
        self.latest = {"name": name, "step": step, "bytes": size_bytes, "path": os.path.join(self.folder.path, name)}

    def expect(self, size_bytes: int) -> None:
        """Saves of about this size will come: the writer starts and reserves memory meanwhile, if there is room."""
        if not size_bytes or self._background is not None or not self._is_wanted(size_bytes):
            return
        try:
            self._check_room(size_bytes)
            self._background = Background()
            self._background.reserve(size_bytes)
            self._reserving = size_bytes
        except OSError:
            self._background = None  # `prepare` says what is missing, once the size is known

    def prepare(self, plan: Plan) -> str:
        """Get ready for saves like this: the writer starts and reserves memory meanwhile. Returns the size in words."""
        if not self._is_wanted(plan.bytes) or not self._start(plan):
            return ""
        return (
            f"written by another process from a copy of {units.say_bytes(shared_memory.wanted_bytes(plan))} of memory"
        )

    def save(
        self, plan: Plan, step: int, at_s: float, place: tuple[int, ...], is_best: bool, undo: Callable[[], None]
    ) -> bool:
        """Save, or have a copy saved; False if it has already failed. `undo` is called on failure, now or later.

        Waits first for any save under way.   Raises: Superseded, FolderBusy, Orphaned.
        """
        self.land()
        self.folder.check_open()
        began_s = time.monotonic()
        if self._is_wanted(plan.bytes) and not self._is_next_here and self._start(plan):
            try:
                if self._hand_over(plan, step, at_s, is_best):
                    stall_s = time.monotonic() - began_s
                    self._flight = Flight(step, place, plan.bytes, began_s, stall_s, undo)
                    self.pace.copied(step)
                    return True
            except WriterEnded as e:
                self._lost(e)
        try:
            name = self.folder.commit(plan, step, at_s)
        except OSError as e:
            self._failed(step, f"{e.strerror or e} ({e.filename or self.folder.path})", undo)
            return False
        took_s = time.monotonic() - began_s
        self.pace.copied(step)
        self.pace.saved(took_s, took_s)
        self._saved(name, step, plan.bytes, place)
        if is_best:
            self.link_best(name)
        if self._is_next_here:
            self._is_next_here = False
            self.prepare(plan)  # another writer gets ready meanwhile
        return True

    def save_folder(
        self,
        fill: Callable[[str], None],
        size_bytes: int,
        step: int,
        at_s: float,
        place: tuple[int, ...],
        facts: Mapping[str, Any],
    ) -> bool:
        """Save what `fill` writes (`Shelf.commit_folder`), right here; False if it failed.

        Raises: Superseded, FolderBusy, and what `fill` raises except OSError.
        """
        self.folder.check_open()
        began_s = time.monotonic()
        try:
            name, size_bytes = self.folder.shelf.commit_folder(fill, size_bytes, step, at_s, facts)
        except OSError as e:
            self._failed(step, f"{e.strerror or e} ({e.filename or self.folder.path})", lambda: None)
            return False
        took_s = time.monotonic() - began_s
        self.pace.copied(step)
        self.pace.saved(took_s, took_s)
        self._saved(name, step, size_bytes, place)
        return True

    def poll(self) -> None:
        """Take up the result of a save under way, if there is one. A few microseconds.   Raises: Superseded."""
        if self._background is None or not (self._flight or self._reserving):
            return
        try:
            answer = self._background.receive()
        except WriterEnded as e:
            self._lost(e)
            return
        if answer is not None and self._flight is None:
            self._reserved(answer)
        elif answer is not None:
            self._landed(answer)

    def land(self) -> None:
        """Wait until no save is under way.   Raises: Superseded."""
        flight = self._flight
        if flight is None or self._background is None:
            return
        try:
            self._landed(wait(self._background, f"the disk to take step {flight.step}"))
        except WriterEnded as e:
            self._lost(e)

    def hold(self) -> None:
        """Like `land`; of several processes, only for the one that writes."""
        self.land()

    def tell_behind(self) -> None:
        """Once: saves are due faster than they can be written."""
        if not self._is_behind_told and self._flight is not None:
            self._is_behind_told = True
            spent_s = time.monotonic() - self._flight.began_s
            self.say(
                f"the disk is behind: step {self._flight.step} is being written for {units.say_seconds(spent_s)}; the "
                "next save waits for it, the training does not (when_behind)"
            )

    def link_best(self, name: str) -> None:
        """Make best.pt `name`; report what prevents it."""
        try:
            self.folder.shelf.make_best(name)
        except OSError as e:
            self.say(f"best.pt is NOT brought up to date: {e.strerror}; {name} holds the best state")

    def close(self) -> None:
        """Wait for any save under way and end the writer. Idempotent.   Raises: Superseded."""
        try:
            self.land()
        finally:
            if self._background is not None:
                self._background.close()
                self._background = None

    def _is_wanted(self, size_bytes: int) -> bool:
        if self._deaths >= _DEATHS:
            return False
        return size_bytes > HERE_BYTES if self._wanted is None else self._wanted

    def _start(self, plan: Plan) -> bool:
        """Have a writer with enough memory, or memory on its way."""
        wanted = shared_memory.wanted_bytes(plan)
        try:
            if self._background is None:
                if not shared_memory.is_possible():
                    raise OSError(0, "this system has no memory that processes can share so")
                self._check_room(wanted)
                self._background = Background()
            if not self._reserving and self._background.arena.bytes < shared_memory.least_bytes(plan):
                self._check_room(wanted - self._background.arena.bytes)
                self._background.reserve(wanted)
                self._reserving = wanted
        except OSError as e:
            self._without(e.strerror or str(e))
            return False
        return True

    def _check_room(self, size_bytes: int) -> None:
        room = shared_memory.room_bytes()
        if size_bytes > 0.8 * room:
            text = f"a copy takes {units.say_bytes(size_bytes)} of memory, {units.say_bytes(max(0, room))} are left"
            raise OSError(0, text)

    def _hand_over(self, plan: Plan, step: int, at_s: float, is_best: bool) -> bool:
        """Copy the state and send it off. False if there is no memory for it.   Raises: WriterEnded."""
        while self._background is not None and self._reserving:
            self._reserved(wait(self._background, "memory for a copy of the state", _RESERVE_S))
            if self._background is not None:
                self._start(plan)  # the state may have grown since
        if self._background is None:
            return False
        shelf = self.folder.shelf
        request = {"path": shelf.path, "token": shelf.token, "keep": shelf.keep, "damaged": sorted(shelf.damaged)}
        request.update(step=step, at_s=at_s, best=is_best)
        self._background.save(plan, request)
        return True

    def _reserved(self, answer: dict[str, Any]) -> None:
        if answer["ok"]:
            self._reserving = 0
        else:
            self._without(str(answer["detail"]))

    def _landed(self, answer: dict[str, Any]) -> None:
        flight, self._flight = self._flight, None
        assert flight is not None
        for text in answer.get("said", ()):
            self.say(text)
        if answer["ok"]:
            self._deaths = 0
            self.folder.shelf.damaged.clear()
            self.pace.saved(flight.stall_s, time.monotonic() - flight.began_s)
            self._saved(answer["name"], flight.step, flight.bytes, flight.place)
        elif "superseded" in answer:
            raise Superseded(theirs=answer["superseded"], ours=self.folder.token, folder=self.folder.path)
        else:
            self._failed(flight.step, f"{answer['detail']} ({answer['file'] or self.folder.path})", flight.undo)

    def _lost(self, error: WriterEnded) -> None:
        """The writer is gone, with the save it was making. The next save starts another writer."""
        flight, self._flight = self._flight, None
        if self._background is not None:
            self._background.close()
        self._background, self._reserving = None, 0
        self._deaths += 1
        if flight is not None:
            self._is_next_here = True
            self._failed(flight.step, error.strerror or str(error), flight.undo, is_lost=True)
        if self._deaths == _DEATHS:
            self._without(error.strerror or str(error))

    def _without(self, why: str) -> None:
        """From now on every save is made here."""
        self._deaths = _DEATHS
        if self._background is not None:
            self._background.close()
        self._background, self._reserving = None, 0
        self.say(f"saves are made by the training itself, which waits for the disk: {why}")

    def _saved(self, name: str, step: int, size_bytes: int, place: tuple[int, ...]) -> None:
        self._failures, self.why_not = 0, ""
        self.goes_on(name, step, size_bytes, place)
        for call in self.listeners:
            call(os.path.join(self.folder.path, name), step)
        news = self.pace.news()
        if news:
            self.say(f"a checkpoint is now written {news}")

    def _failed(self, step: int, why: str, undo: Callable[[], None], is_lost: bool = False) -> None:
        """`is_lost`: not for lack of anything, so the next step can be saved at once."""
        self._failures, self.why_not = self._failures + 1, why
        (self.pace.lost if is_lost else self.pace.failed)()
        undo()
        times = f" ({self._failures} times now)" if self._failures > 1 else ""
        then = "; it saves the next step itself" if is_lost else ""
        self.say(f"step {step} is NOT SAVED: {why}{times}; {self.stands()}, training continues{then}")

    def stands(self) -> str:
        """The existing checkpoint, in words."""
        return commit.stands(self.latest, self.folder.path)
