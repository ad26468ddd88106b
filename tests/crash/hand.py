"""Who gives a trial's commands: a user with a home of their own, each command with the death that the schedule has for
it, and the verdict that they come to.
"""

import json
import os
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.crash import judge
from tests.crash.schedule import Blow
from tests.crash.strikes import tree
from tests.spine.conftest import Desk, Said

PAYLOAD = Path(__file__).parent / "payload/train.py"
CRASHING = str(Path(__file__).parent.parent / "spine/crashing.py")
CHANGES_NOTHING = ("pulling", "pulled", "heard")  # records of a command that had nothing left to do


class OutOfTime(Exception):
    """A command, or a trial, did not end within a time that is many times what it takes on a quiet machine."""


@dataclass
class Verdict:
    """What one trial came to. No breaches: all held. `cut`: it ran out of time, and nothing is said of the laws."""

    seed: int
    breaches: list[str] = field(default_factory=list)
    story: list[str] = field(default_factory=list)
    kills: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)  # those that took effect
    vain: Counter[str] = field(default_factory=Counter)  # those that found nothing to hit before all was done
    ends: Counter[str] = field(default_factory=Counter)  # exit statuses, by command
    attempts: int = 0
    commands: int = 0
    seconds: float = 0.0
    cut: str = ""

    def __str__(self) -> str:
        said = "; ".join(self.breaches) or self.cut or "all held"
        return (
            f"seed {self.seed}: {said} ({self.commands} commands, {self.attempts} attempts, "
            f"{self.kills.total()} kills, {self.faults.total()} faults, {self.seconds:.1f} s)"
        )

    def as_json(self) -> dict[str, Any]:
        """All of it; the story only where something broke."""
        return {**vars(self), "story": self.story if self.breaches else []}

    @classmethod
    def of(cls, said: dict[str, Any]) -> "Verdict":
        """The verdict of `as_json`."""
        counts = {name: Counter(said[name]) for name in ("kills", "faults", "vain", "ends")}
        return cls(**{**said, **counts})


@dataclass(frozen=True)
class Stage:
    """What all trials of a campaign share: a copy of the sources that nobody edits meanwhile, and its byte code."""

    source: Path
    compiled: Path
    whole: dict[tuple[int, int, int], tuple[bytes, bytes]]  # (epochs, steps, size) -> weights, best weights
    code: str = ""  # which sources these are
    keepers: Path = Path()  # what a box that was used before has in its folder of that name


class User(Desk):
    """A user of the campaign, with a home of their own; `sojourn` is started from the stage's sources."""

    def __init__(self, folder: Path, stage: Stage, job: dict[str, Any]) -> None:
        home = folder / "home"
        home.mkdir(parents=True)
        super().__init__(home, folder / "project", stage.compiled)
        for name in [name for name in self.env if name.startswith(("SOJOURN_RUN", "SOJOURN_ATT", "XDG_"))]:
            del self.env[name]
        self.env.update(HOME=str(home), PYTHONPATH=str(stage.source), OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
        (self.project / "train.py").write_bytes(PAYLOAD.read_bytes())
        self.line = folder / "line"
        self.line.mkdir()
        settings = home / ".config/sojourn/settings.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text(f'[sites.far]\ntransport = "faulty"\naddress = {json.dumps(str(self.line))}\n')
        (self.project / "sojourn.yaml").write_text("".join(f"{k}: {json.dumps(v)}\n" for k, v in job.items()))

    def spoil_line(self, seed: str, rate: float, most: int) -> None:
        """How the line to the site `far` fails during the next command."""
        (self.line / "plan.json").write_text(json.dumps({"seed": seed, "rate": rate, "most": most}))

    def faults(self) -> Counter[str]:
        """What was injected, by kind."""
        return Counter(f"{one['operation']} {one['kind']}" for one in judge.lines(self.line / "injected.jsonl"))


class Hand:
    """Gives the commands of one trial and keeps its verdict. Several threads may tell."""

    def __init__(self, user: User, seed: int, blows: Iterable[Blow], command_s: float) -> None:
        self.user, self.verdict, self._command_s = user, Verdict(seed), command_s
        self._blows = {blow.command: blow for blow in blows}
        self._began_s = time.monotonic()
        self._mouth = threading.Lock()

    @property
    def took_s(self) -> float:
        """Since the trial began."""
        return time.monotonic() - self._began_s

    def tell(self, line: str) -> None:
        """A line of the story."""
        with self._mouth:
            self.verdict.story.append(f"{self.took_s:7.3f}  {line}")

    def breach(self, line: str) -> None:
        """Something that must hold did not."""
        self.tell("BREACH: " + line)
        self.verdict.breaches.append(line)

    def records(self, kind: str = "") -> list[dict[str, Any]]:
        """The user's journal, or its records of one kind."""
        return [one for one in judge.lines(self.user.state / "journal.jsonl") if kind in ("", one["kind"])]

    def give(self, *words: str) -> Said:
        """The next command, with its death where the schedule has one; -9: it was killed. A defect is a breach.

        Raises: OutOfTime.
        """
        blow = self._blows.pop(self.verdict.commands, None)
        self.verdict.commands += 1
        said = self._struck(blow, words) if blow else self.end(self.user.start(*words), words)
        self.verdict.ends[f"{words[0]}: {'killed' if said.rc == -9 else said.rc}"] += 1
        if said.rc == 70 or "Traceback" in said.err:
            self.breach(f"a defect: {' '.join(words)}: {said.err[-3000:]}")
        return said

    def end(self, child: "subprocess.Popen[str]", words: Sequence[str]) -> Said:
        """What a command that was begun says. Raises: OutOfTime."""
        try:
            return self.user.finish(child, self._command_s)
        except subprocess.TimeoutExpired as late:
            child.kill()
            raise OutOfTime(f"{' '.join(words)} did not end within {self._command_s:.0f} s") from late

    def give_again(self, *commands: Sequence[str]) -> None:
        """All is done: the same commands answer well and leave nothing in the journal but that they looked."""
        before = len(self.records())
        for words in commands:
            said = self.end(self.user.start(*words), words)
            if said.rc != 0 or "Traceback" in said.err:
                self.breach(f"{' '.join(words)} once more: {said}")
            elif "--json" in words and said.json["did"] != "nothing":
                self.breach(f"{' '.join(words)} once more did something: {said}")
        later = [one for one in self.records()[before:] if one["kind"] not in CHANGES_NOTHING]
        if later:
            self.breach(f"repeating did something: {later}")

    def _struck(self, blow: Blow, words: Sequence[str]) -> Said:
        if blow.record:
            how = {"CRASH_AT": str(blow.record), "CRASH_WHEN": blow.how}
            said = self.end(self.user.start(*words, program=(CRASHING,), **how), words)  # type: ignore[arg-type]
            if said.rc == -9:
                self.verdict.kills[f"client {blow.how} a record"] += 1
            return said
        child = self.user.start(*words)
        try:
            child.wait(blow.delay_s)
        except subprocess.TimeoutExpired:
            for pid in tree(child.pid) if blow.how == "tree" else [child.pid]:
                try:
                    os.kill(pid, 9)
                except ProcessLookupError:
                    continue
            self.verdict.kills["client at a moment" if blow.how == "client" else "client and its calls"] += 1
        return self.end(child, words)
