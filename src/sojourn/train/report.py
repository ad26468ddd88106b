"""A Checkpointer's reports: lines on stderr, each once, and its progress for observers."""

from __future__ import annotations

import os
from typing import Any, Mapping

from sojourn.train import distributed, trackers
from sojourn.train.distributed_saving import TeamFolder
from sojourn.train.pace import Pace
from sojourn.train.progress import Progress
from sojourn.train.run_env import from_root, say
from sojourn.train.saving.folder import Folder
from sojourn.wire import units


class Report:
    """`is_first`: the one of several processes that reports progress. `metrics`: the latest of each name."""

    def __init__(self, is_first: bool) -> None:
        self._progress = Progress(os.environ.get("SOJOURN_PROGRESS", "") if is_first else "")
        self._said: set[str] = set()
        self.metrics: dict[str, Any] = {}
        self.epochs_asked: int | None = None
        self.steps_per_epoch: float | None = None
        self.is_told = False
        self._shown: Mapping[str, Any] | None = None

    def once(self, text: str) -> None:
        """Say it, unless it was said before."""
        if text not in self._said:
            say(text)
        self._said.add(text)

    def tell(self, size_bytes: int, pace: Pace, by: str, folder: Folder | TeamFolder, with_best: bool) -> None:
        """Before the first save: how much, how often, `by` whom, whether the disk has room for it; and what a person
        should know about how the processes were started.
        """
        self.is_told = True
        pace.expect(size_bytes)
        size = f"a checkpoint is {units.say_bytes(size_bytes)}, written {pace.words()}" + (f", {by}" if by else "")
        for text in (size, folder.budget(size_bytes, with_best), *distributed.remarks(), *trackers.remarks()):
            say(text)

    def show(
        self, step: int, epoch: int, batches: int | None, latest: Mapping[str, Any] | None, write_s: float, force: bool
    ) -> None:
        """Write the progress. `batches`: per pass, if known; `latest`: as in Saver; `write_s`: of a save.

        A new checkpoint in it is written at once: anyone waiting for one need not wait longer.
        """
        force, self._shown = force or latest is not self._shown, latest
        asked, per_epoch = self.epochs_asked, self.steps_per_epoch
        per_epoch = batches if per_epoch is None else per_epoch
        total = None if asked is None or per_epoch is None else max(step, round(per_epoch * asked))
        seen = latest and {"path": from_root(latest["path"]), "step": latest["step"], "bytes": latest["bytes"]}
        seen = seen and {**seen, "write_s": round(write_s, 3)}
        self._progress.write(step, total, epoch, self.metrics, seen, force)
