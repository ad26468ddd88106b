"""One trial: the same commands again and again until all is done, while the schedule's blows and strikes fall."""

import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from tests.crash import judge
from tests.crash.hand import Hand, Stage, User, Verdict
from tests.crash.schedule import Schedule
from tests.crash.strikes import Striker, wait_gone
from tests.spine.conftest import Said

RUN = "digits"
ROUNDS, LIMIT_S, COMMAND_S = 30, 600.0, 300.0  # bounds on a hang, many times what it takes on a busy machine
ALIVE = ("planned", "starting", "running", "stalled")
# How many calls a verb makes differs: so do the chances of each.
MORE_FAULTS = {"status": 2.5, "down": 2.0, "watch": 1.5, "pull": 1.5}


def job(ledger: Path, site: str, epochs: int, steps: int, size: int, pause_s: float, retries: int) -> dict[str, Any]:
    """The job file of a trial."""
    made: dict[str, Any] = {
        "name": RUN,
        "site": site,
        "envs": {"LEDGER": str(ledger)},
        "run": f"{sys.executable} train.py {epochs} {steps} {size} {pause_s}",
        "outputs": list(judge.OWED),
    }
    if retries:
        made["retry"] = {"attempts": retries + 1, "on": ["preempted", "node-failure"]}
    return made


class Trial:
    """A schedule, played in a folder that nobody else uses."""

    def __init__(self, plan: Schedule, folder: Path, stage: Stage) -> None:
        self.plan, self.stage, self.ledger = plan, stage, folder / "ledger.jsonl"
        self.site = "far" if plan.fault_rate else "local"
        told = job(self.ledger, self.site, plan.epochs, plan.steps, plan.size, plan.pause_s, plan.retries)
        self.user = User(folder, stage, told)
        self.hand = Hand(self.user, plan.seed, plan.blows, COMMAND_S)
        self.verdict, self.tell, self.breach = self.hand.verdict, self.hand.tell, self.hand.breach
        self.striker = Striker(self.user.root(), self.user.home, plan.strikes, self.tell)
        self.meddling = plan.meddling
        self.tries: Counter[str] = Counter()
        self.was_stopped = False
        self.let_go_early = 0

    def play(self) -> Verdict:
        """The whole trial; never raises for what the product did."""
        self.tell(str(self.plan))
        self.striker.start()
        try:
            self._until_done()
            self.striker.stop()
            if not self.verdict.breaches:
                self._once_more()
            self._judge()
        except Exception:  # noqa: BLE001 - a trial that breaks the judge is a breach with its story
            self.breach(traceback.format_exc())
        finally:
            self.striker.stop()
            self.user.end_all()
        self.verdict.kills += self.striker.kills
        self.verdict.faults += self.user.faults()
        self.verdict.seconds = self.hand.took_s
        return self.verdict

    def _until_done(self) -> None:
        """run, look, pull, down: from the start again after whatever went wrong."""
        for _ in range(ROUNDS):
            if self._round():
                return
            if self.hand.took_s > LIMIT_S:
                break
        self.breach(f"no end after {self.verdict.commands} commands")

    def _round(self) -> bool:
        self._meddle()
        self._crowd()
        going = ("resume", RUN) if self.was_stopped else ("run",)
        rc = self.do(*going)
        if rc == 2:  # what is stopped wants `resume`, what has succeeded wants no `resume`: each says so
            self.was_stopped = not self.was_stopped
        if rc not in (0, 1) or not self._see_end():
            return False
        self._spoil_home()
        return self.do("pull", RUN) == 0 and self._spoil_home() and self.do("down", RUN, "--confirm", self.site) == 0

    def _see_end(self) -> bool:
        """Look until it is final; whether it has succeeded."""
        while self.hand.took_s < LIMIT_S:
            if self.plan.looks == "watch" and self.do("watch", RUN, "--every", "0.3s", "--limit", "20s") == -9:
                continue
            row = self.row_now()
            if row is not None and row["state"] == "running" and self.meddling in ("early-down", "stop"):
                self._meddle()
                continue
            if row is not None and row["state"] not in ALIVE:
                return bool(row["state"] == "succeeded")
            if row is not None and (row["state"] == "planned" or "keeper is gone" in (row["reason"] or "")):
                return False  # the identical `run` moves it on
            time.sleep(0.4)
        return False

    def row_now(self) -> dict[str, Any] | None:
        """The run's row of one `status`, judged; None where the command did not get through."""
        said = self.ask("status", RUN, "--json")
        if said.rc not in (0, 3):
            return None
        row: dict[str, Any] = said.json["runs"][0]
        reach = row["reach"]
        if reach["ok"] is False and row["state"] in ("lost", "killed", "failed", "oom"):
            living = [kind for _, kind in self.striker.living() if kind in ("training", "shell")]
            if living:
                self.breach(f"not reached, called {row['state']}, and it lives: {living}")
        if self.plan.is_bloodless and row["state"] not in (*ALIVE, "succeeded"):
            self.breach(f"nothing was killed, and it is called {row['state']}")
        return row

    def do(self, *words: str) -> int:
        """One command; its exit status (-9: killed)."""
        return self.ask(*words).rc

    def ask(self, *words: str) -> Said:
        """One command as the schedule has it, judged by what every command must hold to."""
        number = self.verdict.commands
        self.tries[words[0]] += 1
        is_spoilt = self.tries[words[0]] <= self.plan.faulty_tries
        rate = min(0.9, self.plan.fault_rate * MORE_FAULTS.get(words[0], 1.0)) if is_spoilt else 0.0
        self.user.spoil_line(f"{self.plan.seed} {number}", rate, 4)
        said = self.hand.give(*words)
        last = (said.err.strip() or said.out.strip()).splitlines()[-1:] if words[0] != "status" else [_state(said)]
        self.tell(f"{' '.join(words)}: {said.rc} {' '.join(last)[:200]}")
        if said.rc not in (-9, 0, 1, 3, 4, 5, 100, 101, 103, 110, 111, 112, 113) and not self._may_misuse(words, said):
            self.breach(f"{' '.join(words)}: {said.rc} {said.err[-500:]}")
        self._see_nothing_let_go_unproven()
        return said

    def _may_misuse(self, words: tuple[str, ...], said: Said) -> bool:
        """2 is right for a run that is not known or not launched yet, and for `run` after a stop."""
        return said.rc in (2, 102) and (
            words[0] != "run" or self.was_stopped or self.meddling == "stop" or "stopped" in said.err
        )

    def _see_nothing_let_go_unproven(self) -> None:
        journal = self.hand.records()
        if sum(record["kind"] == "released" for record in journal) > self.let_go_early:
            pulled = [record for record in journal if record["kind"] == "pulled"][-1:]
            if not pulled or len(pulled[0]["receipts"]) < len(judge.OWED):
                self.breach("the lease was let go, and not everything is home")

    def _meddle(self) -> None:
        """Once a trial, what a user or a disk may do between two commands."""
        if self.meddling == "drop-index":
            for path in self.user.state.glob("index*"):
                path.unlink()
                self.tell(f"{path.name} was deleted")
                self.meddling = ""
        elif self.meddling == "early-down" and self.hand.records():
            self.meddling = ""
            was_there = (self.user.root() / "run.json").exists()
            # With nothing of the run on the box there is nothing to lose, and letting go is right.
            self.let_go_early = 0 if was_there else 1
            self.do("down", RUN, "--confirm", self.site)
            self.let_go_early = min(self.let_go_early, sum(r["kind"] == "released" for r in self.hand.records()))
        elif self.meddling == "stop" and self.user.root().exists():
            rc = self.do("stop", RUN, "--confirm", RUN)
            self.was_stopped = self.was_stopped or (self.user.root() / "stop.json").exists()
            if rc == 0:
                self.meddling = ""

    def _crowd(self) -> None:
        """Two more clients that do the same at the same time."""
        if self.meddling == "crowd":
            self.meddling = ""
            both = [self.user.start("run") for _ in range(2)]
            self.do("run")
            for said in [self.hand.end(child, ("run",)) for child in both]:
                self.tell(f"beside it: {said.rc} {said.err.strip()[-150:]}")
                if said.rc not in (0, 1, 3, 5, -9):
                    self.breach(f"run beside others: {said}")

    def _spoil_home(self) -> bool:
        """One byte at home changes after it was brought and proven: `down` must see it. True: go on."""
        pulled = [record for record in self.hand.records() if record["kind"] == "pulled"]
        if self.meddling != "spoil-home" or not pulled or not pulled[-1]["receipts"]:
            return True
        self.meddling = ""
        path = Path(pulled[-1]["receipts"][0]["home"])
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 4
        path.write_bytes(data)
        self.tell(f"a bit of {path.name} at home was flipped")
        if self.do("down", RUN, "--confirm", self.site) == 0:
            self.breach("down let go though a file at home had changed")
        return self.do("pull", RUN) == 0

    def _once_more(self) -> None:
        """All is done: the same commands change nothing and say so."""
        self.user.spoil_line("", 0.0, 0)
        self.hand.give_again(("run", "--json"), ("pull", RUN), ("down", RUN), ("status", RUN, "--exit-status"))

    def _judge(self) -> None:
        root = self.user.root()
        self.verdict.attempts = sum(line["kind"] == "begin" for line in judge.lines(self.ledger))
        for breach in judge.breaches_of_training(self.ledger, self.plan.is_gentle):
            self.breach(breach)
        if self.verdict.breaches:
            return
        weights, best = self.stage.whole[self.plan.epochs, self.plan.steps, self.plan.size]
        for found in (
            judge.breaches_of_events(root, self.ledger),
            judge.breaches_of_home(root, self.hand.records(), weights, best),
            judge.breaches_of_lease(self.hand.records(), self.let_go_early),
        ):
            for breach in found:
                self.breach(breach)
        left = wait_gone(self.striker, 60.0)
        if left:
            self.breach(f"still running: {left}")


def _state(said: Said) -> str:
    try:
        row = said.json["runs"][0]
    except (ValueError, LookupError):
        return said.err.strip()[-200:]
    reach = "" if row["reach"]["ok"] is not False else f", not reached: {row['reach']['error']}"
    return f"{row['state']}, attempt {row['attempt']}{reach} {row['reason'] or ''}"
