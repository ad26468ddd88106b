"""Folder and saver of a team: the first process has real ones, the others wait only for its word."""

from __future__ import annotations

import os
from typing import Any, Callable, Union, cast

from sojourn.formats.torch import zip as torch_zip
from sojourn.train import run_env
from sojourn.train.distributed import Alone, Team
from sojourn.train.pace import Pace
from sojourn.train.saving import distributed_shards
from sojourn.train.saving.distributed_shards import ShardedPlan
from sojourn.train.saving.folder import Folder
from sojourn.train.saving.saving import Saver
from sojourn.train.state.contents import AnyPlan
from sojourn.wire import units


def desk(
    team: Alone, path: str, keep: int, pace: Pace, background: bool | None, say: Callable[[str], None]
) -> tuple[Union[Folder, TeamFolder], TeamSaver]:
    """(folder, saver): this process's own if it is alone, else its team's.   Raises: NoPlace, FolderBusy."""
    if not isinstance(team, Team):
        folder = Folder(path, run_env.token(), keep, say)
        return folder, cast(TeamSaver, Saver(folder, pace, background, say))  # same methods; nothing sharded
    shared = TeamFolder(team, path, run_env.token(), keep, say)
    return shared, TeamSaver(shared, pace, background, say)


class TeamFolder:
    """What a Checkpointer needs of a Folder, for each process of a team. Only the first one creates and locks it."""

    def __init__(self, team: Alone, path: str, token: int | None, keep: int, say: Callable[[str], None]) -> None:
        self.team = team
        self.real = Folder(path, token, keep, say) if team.is_first else None
        self.path, self.token = team.share(None if self.real is None else (self.real.path, self.real.token))

    def latest_valid(self) -> torch_zip.Opened | None:
        """The newest valid checkpoint, as found by the first process; each process reads and checks it."""
        found = None if self.real is None else self.real.latest_valid()
        path = self.team.share(None if found is None else found.path)
        if path is None or found is not None:
            return found
        if not os.path.exists(path):
            raise run_env.BadUse(detail=f"process {self.team.rank} does not see {path}: all need one folder.")
        return distributed_shards.open_shards(path, is_checked=True)

    def best(self) -> torch_zip.Opened | None:
        """best.pt, every byte checked; None if there is none.   Raises: Damaged, OSError."""
        try:
            return torch_zip.read_zip(os.path.join(self.path, "best.pt"))
        except FileNotFoundError:
            return None

    def best_facts(self) -> Any:
        """As in Folder; {} if this process does not write."""
        return {} if self.real is None else self.real.best_facts()

    def budget(self, size_bytes: int, with_best: bool) -> str:
        """As in Folder; "" if this process does not write."""
        return "" if self.real is None else self.real.budget(size_bytes, with_best)

    def close(self) -> None:
        """As in Folder. Does not wait."""
        if self.real is not None:
            self.real.close()


class TeamSaver:
    """What a Checkpointer needs of a Saver, for each process of a team. `latest` and `why_not`: as last reported."""

    def __init__(self, folder: TeamFolder, pace: Pace, background: bool | None, say: Callable[[str], None]) -> None:
        self.team = folder.team
        self.real = None if folder.real is None else Saver(folder.real, pace, background, say)
        self.latest: dict[str, Any] | None = None
        self.why_not = ""

    @property
    def is_busy(self) -> bool:
        """A save is under way; only the first process knows."""
        return self.real is not None and self.real.is_busy

    @property
    def listeners(self) -> list[Callable[[str, int], None]]:
        """As in Saver; those of other processes are never called."""
        return [] if self.real is None else self.real.listeners

    def has(self, place: tuple[int, ...]) -> bool:
        """As in Saver; the first process's answer."""
        return bool(self.team.share(None if self.real is None else self.real.has(place)))

    def goes_on(self, name: str, step: int, size_bytes: int, place: tuple[int, ...]) -> None:
        """As in Saver. Does not wait."""
        if self.real is not None:
            self.real.goes_on(name, step, size_bytes, place)
            self.latest = self.real.latest

    def expect(self, size_bytes: int) -> None:
        """As in Saver. Does not wait."""
        if self.real is not None:
            self.real.expect(size_bytes)

    def prepare(self, plan: AnyPlan) -> str:
        """As in Saver. Does not wait."""
        if isinstance(plan, ShardedPlan):
            return "by all processes together, which wait for the disk"
        return "" if self.real is None else self.real.prepare(plan)

    def save(
        self, plan: AnyPlan, step: int, at_s: float, place: tuple[int, ...], is_best: bool, undo: Callable[[], None]
    ) -> bool:
        """As in Saver: all learn whether the first process could hand it over, or write it.

        Each process writes its part of a sharded one.
        """
        if isinstance(plan, ShardedPlan):
            return bool(self._word(self._save_sharded(plan, step, at_s, place)))
        done = None if self.real is None else self.real.save(plan, step, at_s, place, is_best, undo)
        return bool(self._word(done))

    def poll(self) -> None:
        """As in Saver. Does not wait."""
        if self.real is not None:
            self.real.poll()
            self.latest, self.why_not = self.real.latest, self.real.why_not

    def land(self) -> None:
        """Wait until the first process reports that no save is under way.   Raises: Superseded, RankLost."""
        if self.real is not None:
            self.real.land()
        self._word(None)

    def hold(self) -> None:
        """Wait until no save is under way, if this process writes; the others wait at their next exchange."""
        if self.real is not None:
            self.real.hold()
            self.latest, self.why_not = self.real.latest, self.real.why_not

    def tell_behind(self) -> None:
        """As in Saver. Does not wait."""
        if self.real is not None:
            self.real.tell_behind()

    def link_best(self, name: str) -> None:
        """As in Saver. Does not wait."""
        if self.real is not None:
            self.real.link_best(name)

    def close(self) -> None:
        """As in Saver. Does not wait."""
        if self.real is not None:
            self.real.close()

    def _save_sharded(self, plan: ShardedPlan, step: int, at_s: float, place: tuple[int, ...]) -> bool:
        if self.real is None:
            aside = self.team.share(None)
            try:
                if aside is not None:
                    plan.shards.write(aside, self.team)
            except OSError:
                pass  # in all processes alike; the first one reports it
            return False
        began = []

        def fill(aside: str) -> None:
            began.append(aside)
            plan.shards.write(self.team.share(aside), self.team)
            plan.write_rest(aside)

        facts = {"step": step, "world_size": self.team.size, "at": units.stamp(at_s)}
        try:
            return self.real.save_folder(fill, plan.bytes, step, at_s, place, facts)
        finally:
            if not began:
                self.team.share(None)

    def _word(self, done: Any) -> Any:
        told = self.team.share(None if self.real is None else (done, self.real.latest, self.real.why_not))
        done, self.latest, self.why_not = told
        return done
