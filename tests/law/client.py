"""One user's machine in the campaign: a home and records of its own, and the verbs, given in this very process."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from sojourn.backends.launcher import setsid
from sojourn.backends.provider import unmetered
from sojourn.store.home import Store
from sojourn.store.settings import read_site
from sojourn.verbs.confirm import Ask
from sojourn.verbs.context import Box, Context
from sojourn.verbs.rent.gone import LOOK_S
from tests.law.machine import ByHand, Line, Machine, Rented, WatchedKeeper

FOLDERS = {
    "HOME": "",
    "XDG_CONFIG_HOME": ".config",
    "XDG_STATE_HOME": ".local/state",
    "XDG_DATA_HOME": ".local/share",
    "XDG_CACHE_HOME": ".cache",
}


class Client:
    """A home with three names for one machine: `paid` (on a meter), `twin` (the same base, as if it were free) and
    `other` (another base of it, free). `answers`: what the person at the prompt does with a question.
    """

    def __init__(self, folder: Path, machine: Machine, *, is_by_hand: bool) -> None:
        self.folder, self.name, self.machine, self.is_by_hand = folder, folder.name, machine, is_by_hand
        self.project = folder / "project"
        self.project.mkdir(parents=True)
        (self.project / "hook.sh").touch()
        (folder / ".config/sojourn").mkdir(parents=True)
        base, second = (json.dumps(str(one)) for one in machine.bases)
        self.bases = {"paid": machine.bases[0], "twin": machine.bases[0], "other": machine.bases[1]}
        (folder / ".config/sojourn/settings.toml").write_text(
            f'[sites.paid]\nbase = {base}\nprovider = "by_hand"\nrate = "2 EUR/h"\nstop = "delete it"\n'
            f"[sites.twin]\nbase = {base}\n[sites.other]\nbase = {second}\n"
        )
        self.later_s = 0.0  # added to this machine's clock

    @property
    def state(self) -> Path:
        return self.folder / ".local/state/sojourn"

    @property
    def home(self) -> Path:
        """Where `pull` puts what comes home."""
        return self.folder / ".local/share/sojourn/home"

    @contextmanager
    def at_work(self) -> Iterator[Context]:
        """One command's context. The process takes on this user's environment."""
        for name, below in FOLDERS.items():
            os.environ[name] = str(self.folder / below)
        boxes = {name: self._box(name) for name in self.bases}
        with Context(Store(), now_s=lambda: time.time() + self.later_s, boxes=boxes, sleep=self._sleep) as ctx:
            yield ctx

    def job(self, name: str, script: str, outputs: list[str], hook: str, persist: Sequence[str] = ()) -> str:
        """Write a job file; its path. Hooks run in the project's folder."""
        path = self.project / "sojourn.yaml"
        job: dict[str, Any] = {"name": name, "run": script, "outputs": outputs}
        if persist:
            job["persist"] = list(persist)
        if hook:
            job["hooks"] = {"before_down": hook}
        path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in job.items()))
        return str(path)

    def _sleep(self, seconds: float) -> None:
        """Waiting for a provider costs no time here; waiting for a process does."""
        if seconds < LOOK_S:
            time.sleep(seconds)
        else:
            self.later_s += seconds

    def _box(self, name: str) -> Box:
        site = read_site(name)
        site = replace(site, provider="unmetered" if name != "paid" else site.provider)
        line = Line(self.machine, site)
        provider: Any = unmetered.Backend(site)
        if name == "paid" and self.is_by_hand:
            provider = ByHand(self.machine, site)
        elif name == "paid":
            provider = Rented(self.machine, site)
        return Box(site, line, setsid.Backend(), provider, WatchedKeeper(self.machine, line, site))


def typed(first: Callable[[], None], *, is_script: bool, name: str, lines: list[str]) -> Callable[[Ask], str | None]:
    """Who answers a question: notes what it lists, does `first` while it waits, gives `name` ("" = the one asked for).

    A script has given the name beforehand: it says nothing to a list that is another one than it was shown.
    """

    def answer(ask: Ask) -> str | None:
        lines[:] = [*lines, *ask.lines]
        first()
        if is_script and getattr(ask, "is_again", False):
            return None
        return name or ask.name

    return answer
