"""One walk: `init`, `run`, kill, `resume`, again and again, then home, proven and let go; what was lost on the way."""

from __future__ import annotations

import json
import random
import re
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.kills.places import Place
from tests.kills.projects import Project
from tests.kills.strikes import Strike, land, wait_for_moment
from tests.spine.conftest import Desk, alive

PROJECTS = Path(__file__).parents[1] / "projects"
RUN = "theirs"
_UNDER_WAY = ("planned", "queued", "starting", "running", "stalled")
_LOOK_S = 3.0  # a look is a command, and there are thousands


@dataclass
class Walk:
    """What a walk came to. `again`: for each strike, the steps that were done twice for it. `mended`, `torn`,
    `carried`: attempts that were handed a spare, had a torn file put aside, or got a file along.
    """

    project: str
    site: str
    seed: int
    strikes: list[str] = field(default_factory=list)
    again: list[int] = field(default_factory=list)
    adopted: int = 0
    mended: int = 0
    torn: int = 0
    carried: int = 0
    seconds: int = 0
    broken: str = ""

    def as_json(self) -> str:
        return json.dumps(asdict(self))


class Broken(AssertionError):
    """What did not hold, and how far the walk had come."""

    def __init__(self, found: Walk) -> None:
        super().__init__(f"{found.project} on {found.site}, seed {found.seed}: {found.broken}")
        self.found = found


def walk(
    desk: Desk,
    project: Project,
    place: Place,
    seed: int,
    strikes: Sequence[Strike],
    tell: Callable[[str], None] = print,
) -> Walk:
    """Take the project through everything. Raises: AssertionError where something did not hold."""
    return _Walker(desk, project, place, seed, tell).walk(strikes)


class _Walker:
    def __init__(self, desk: Desk, project: Project, place: Place, seed: int, tell: Callable[[str], None]) -> None:
        desk.base = place.base
        self.desk, self.project, self.place, self.tell = desk, project, place, tell
        self.chance = random.Random(seed)
        self.found = Walk(project.name, "ssh" if place.pids else "local", seed)
        self.last, self.began_s = 0, time.monotonic()
        self.looked_s, self.was_over = 0.0, False

    def walk(self, strikes: Sequence[Strike]) -> Walk:
        self.last = round(self.project.every * (4 + 3 * len(strikes)))
        self.begin()
        for strike in strikes:
            if not self.struck(strike):
                break
        self.home()
        self.count_events()
        self.found.seconds = round(time.monotonic() - self.began_s)
        return self.found

    def begin(self) -> None:
        """As the README has it: the folder as it stands, `init`, its command made to last, `run`."""
        shutil.rmtree(self.desk.project)
        shutil.copytree(PROJECTS / self.project.name, self.desk.project)
        self.desk("init", "--name", RUN)
        file = self.desk.project / "sojourn.yaml"
        file.write_text(re.sub(r'(?m)^(run|resume): ("?)(.*?)\2(    #.*)?$', self.lengthened, file.read_text()))
        with file.open("a") as f:  # steps of the same length beside other work
            f.write('envs: {OMP_NUM_THREADS: "1"}\n')
        self.desk("run", "--site", self.place.site)

    def lengthened(self, hit: re.Match[str]) -> str:
        command = hit[3].replace('\\"', '"')
        return f"{hit[1]}: |\n  " + self.project.command.format(command, last=self.last)

    def struck(self, strike: Strike) -> bool:
        """One strike and what it takes to go on; False where the run had ended before."""
        number = self.attempt()
        copy = self.desk.root(RUN) / f"attempts/{number}"
        sent: list[int] = []
        while not sent:  # the keeper may have left, or the payload not have begun
            wait_for_moment(strike, self.project, copy, lambda: bool(self.steps(number)) or self.is_over())
            if self.is_over():
                return False
            sent = land(strike, self.place, self.desk.keeper(RUN), self.desk.payload(RUN), self.chance)
        furthest = max(max(self.steps(n) or [0]) for n in range(1, number + 1))
        self.found.strikes.append(str(strike))
        self.say(f"attempt {number}, step {furthest}: {strike}, {len(sent)} processes")
        self.wait(lambda: not any(alive(pid) for pid in sent), "those who were killed are gone")
        self.resume(number)
        first = self.first_step(number + 1) if self.attempt() > number else furthest + 1
        again = max(0, furthest - first + 1)
        self.found.again.append(again)
        most = self.project.every + self.project.slack
        self.must(
            again <= most, f"reached {furthest}, {strike}, resumed at {first}: {again} steps again, {most} at most"
        )
        if len(self.found.strikes) % 5 == 1:
            self.show_progress()
        return True

    def resume(self, number: int) -> None:
        """Give `resume` when status says that nothing runs, or that what runs has no keeper."""
        row: dict[str, Any] = {}

        def is_clear() -> bool:
            row.update(self.desk.row(RUN))
            has_keeper = self.place.pid(self.desk.keeper(RUN)) != 0
            return row["state"] not in _UNDER_WAY or not has_keeper

        self.wait(is_clear, "an end, or a run without a keeper", each_s=1.0)
        if row["state"] == "succeeded":
            return
        was = row["state"]
        did = self.desk("resume", RUN, "--json").json["did"]
        self.looked_s, self.was_over = time.monotonic(), False
        self.found.adopted += did == "adopted"
        self.say(f"{was}: resume {did}")

    def first_step(self, number: int) -> int:
        self.wait(lambda: bool(self.steps(number)) or self.is_over(), f"a step of attempt {number}")
        return min(self.steps(number) or [self.last + 1])

    def show_progress(self) -> None:
        """`status` shows a step, or a part of an epoch (the Trainer without its bar)."""

        def is_shown() -> bool:
            progress = self.desk.row(RUN)["progress"]
            return progress["step"] is not None or "epoch" in progress["metrics"]

        if self.steps(self.attempt()):
            self.wait(lambda: self.is_over() or is_shown(), "progress in status", each_s=2.0)

    def home(self) -> None:
        self.wait(lambda: self.state() not in _UNDER_WAY, "the end", 900, each_s=2.0)
        self.must(self.state() == "succeeded", f"it ended as {self.desk.row(RUN)}")
        # A Trainer that resumes at its last step does one more.
        self.must(max(self.steps(self.attempt()) or [self.last]) >= self.last, "its last attempt did not reach the end")
        self.wait(lambda: not self.place.pid(self.desk.keeper(RUN)), "its keeper has left")
        self.desk("pull", RUN, "--to", "home", timeout_s=900)
        self.desk("verify", "home")
        lease = self.desk.row(RUN)["site"]
        self.desk("down", lease, "--confirm", lease)

    def count_events(self) -> None:
        for event in self.desk.events(RUN):
            if event["kind"] == "prepared":
                for name in ("mended", "torn", "carried"):
                    setattr(self.found, name, getattr(self.found, name) + bool(event.get(name)))

    def state(self) -> str:
        return str(self.desk.row(RUN)["state"])

    def is_over(self) -> bool:
        """As status had it up to `_LOOK_S` ago."""
        if time.monotonic() - self.looked_s > _LOOK_S:
            self.was_over, self.looked_s = self.state() not in _UNDER_WAY, time.monotonic()
        return self.was_over

    def attempt(self) -> int:
        """The number of the newest attempt."""
        return max(int(path.name) for path in (self.desk.root(RUN) / "attempts").iterdir() if path.name.isdigit())

    def steps(self, number: int) -> list[int]:
        log = self.desk.log(RUN, number)
        return [round(float(step) * self.project.scale) for step in re.findall(self.project.step, log)]

    def say(self, what: str) -> None:
        self.tell(f"{time.monotonic() - self.began_s:4.0f} s  {what}")

    def wait(self, holds: Callable[[], bool], what: str, within_s: float = 300, each_s: float = 0.2) -> None:
        deadline_s = time.monotonic() + within_s
        while not holds():
            self.must(time.monotonic() < deadline_s, f"not within {within_s:.0f} s: {what}")
            time.sleep(each_s)

    def must(self, holds: bool, what: str) -> None:
        if not holds:
            self.found.broken = what
            raise Broken(self.found)
