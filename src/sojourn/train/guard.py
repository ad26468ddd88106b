"""What the adapters for other trainers share: when to save, how to commit the folder they wrote, what to resume from.

The other trainer writes its own checkpoint, as a folder of files; here it is sealed, made durable, renamed and pointed
to with the same protocol as the Checkpointer's files (`Shelf.commit`).
"""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Mapping

from sojourn.train import distributed, preempt, run_env, trackers
from sojourn.train.pace import Pace
from sojourn.train.progress import Progress, light
from sojourn.train.run_env import say
from sojourn.train.saving import commit, sealed
from sojourn.train.saving.folder import Folder
from sojourn.wire import units


class Guard:
    """Saves a training whose loop belongs to another library. All its processes create one and call it alike.

    `keep`, `every_s`, `every_steps`, `mtbf_s`, `folder`: as in Checkpointer.
    Raises: BadPace, NoPlace, FolderBusy, SeveralProcesses.
    """

    def __init__(
        self,
        *,
        keep: int = 2,
        every_s: float | None = None,
        every_steps: int | None = None,
        mtbf_s: float | None = None,
        folder: str | os.PathLike[str] | None = None,
    ) -> None:
        if keep < 1:
            raise run_env.BadUse(detail="keep must be at least 1.")
        self.pace = Pace(every_s, every_steps, None, mtbf_s)
        self.team = distributed.join()
        run_env.hush(not self.team.is_first)
        self.path = os.path.abspath(run_env.place(folder))
        self._folder = Folder(self.path, run_env.token(), keep, say) if self.team.is_first else None
        self.path = self.team.share(self.path)
        self._progress = Progress(os.environ.get("SOJOURN_PROGRESS", "") if self.team.is_first else "")
        self._told: tuple[int, int | None] | None = None  # the last step and total reported
        self._metrics: dict[str, Any] = {}
        self._epoch = 0
        self.is_owed = False
        self._latest: dict[str, Any] | None = None
        self._is_told = False
        self._bytes = 0
        preempt.install()

    def newest(self) -> tuple[str, dict[str, Any]] | None:
        """(path, facts) of the newest checkpoint whose every byte is unchanged; reports those that are not.

        None if there is none.   Raises: Damaged if none is valid; Superseded.
        """
        found = None
        if self._folder is not None:
            found = self._folder.newest(lambda path: (path, *sealed.check(path)))
        found = self.team.share(found)
        if found is None:
            return None
        path, facts, size = found
        if not os.path.isdir(path):
            raise run_env.BadUse(detail=f"process {self.team.rank} does not see {path}: all need one folder.")
        self._latest = {"path": path, "step": facts["step"], "bytes": size}
        self.pace.goes_on(facts["step"])
        say(f"resumes from {os.path.basename(path)}: step {facts['step']}, every byte checked")
        return path, facts

    def is_due(self, step: int, total: int | None, may_save: bool = True, at_end: bool = False) -> bool:
        """After a step: whether all save now. If they must not yet, the save is due at the next step that allows it."""
        if not self._is_told:
            self._tell()
        self.pace.stepped(False)
        self.is_owed = self.team.agree(self.is_owed or at_end or self.pace.is_due(step)) or self.team.is_leaving
        self._told = step, total
        self._progress.write(step, total, self._epoch, self._metrics, self._shown())
        return self.is_owed and may_save

    def describe(self, metrics: Mapping[str, Any], epoch: float) -> None:
        """The trainer's report: numbers by name (others are left out), and the finished epochs."""
        found = {str(name): value for name, value in metrics.items() if _is_number(value)}
        self._metrics.update(light(found))
        self._epoch = int(epoch)
        if self._told is not None:
            self._progress.write(*self._told, self._epoch, self._metrics, self._shown())

    def commit(self, step: int, fill: Callable[[str], None]) -> None:
        """Let `fill(aside)` put a whole checkpoint into an empty folder, in every process; publish it. Then exit with
        75 if preempted. Errors are reported and raised: the trainer that wrote it cannot continue.

        Raises: OSError, RuntimeError (from PyTorch's writers), Superseded, RankLost, SystemExit(75).
        """
        self.is_owed, began_s, now_s = False, time.monotonic(), time.time()
        facts = {"step": step, "world_size": self.team.size, "at": units.stamp(now_s)}
        done: tuple[str, int] | None = None
        try:
            if self._folder is not None:
                self._folder.check_open()
                done = self._folder.shelf.commit_folder(
                    lambda aside: self._fill(fill, aside), self._bytes, step, now_s, facts
                )
            else:
                self._fill(fill, None)
        except (OSError, RuntimeError) as e:
            self.not_saved(step, e)
            raise
        name, size = self.team.share(done)
        took_s = time.monotonic() - began_s
        self.pace.copied(step)
        self.pace.saved(took_s, took_s)
        self._bytes, self._latest = size, {"path": os.path.join(self.path, name), "step": step, "bytes": size}
        if self.team.is_leaving:
            self._leave(step, f"saved at step {step}")

    def not_saved(self, step: int, error: Exception) -> None:
        """Report it: the error ends the training."""
        stands = commit.stands(self._latest, self.path)
        why = (str(error).splitlines() or [""])[0][:200]
        say(f"step {step} is NOT SAVED: {type(error).__name__}: {why}; {stands}, the training ends")

    def _leave(self, step: int, what: str) -> None:
        say(f"{preempt.why()} at step {step}: {what}; exiting with {preempt.AGAIN} to be run again")
        raise SystemExit(preempt.AGAIN)

    def _fill(self, fill: Callable[[str], None], aside: str | None) -> None:
        fill(self.team.share(aside))
        self.team.gather(None)  # all have written their part

    def leave_if_asked(self, step: int) -> None:
        """At a point without a save: exit with 75 if any process was asked to leave.

        Raises: SystemExit(75).
        """
        self.team.agree(False)
        if self.team.is_leaving:
            self._leave(step, "nothing new to save")

    def close(self) -> None:
        """The training is over: release the folder and the signals. Idempotent."""
        preempt.uninstall()
        preempt.forget()
        if self._folder is not None:
            self._folder.close()

    def _shown(self) -> dict[str, Any] | None:
        return self._latest and dict(self._latest, path=run_env.from_root(self._latest["path"]))

    def _tell(self) -> None:
        self._is_told = True
        say(f"checkpoints are written to {self.path} {self.pace.words()}")
        for text in (*distributed.remarks(), *trackers.remarks()):
            say(text)


def _is_number(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, (int, float)) or (hasattr(value, "item") and getattr(value, "numel", lambda: 1)() == 1)
