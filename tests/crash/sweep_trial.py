"""One trial of a sweep over two real boxes: sweep, look, repair, pull and down again and again, while client, keepers,
queues, lines, sshd, disks and ports fail as the seed says. Judged by the cells' own ledger, the boxes and the journal.
"""

import json
import random
import shutil
import tempfile
import threading
import time
import traceback
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sojourn.wire.manifest import sha256_file
from tests.crash.hand import Hand, OutOfTime, Stage, User, Verdict
from tests.crash.schedule import Blow
from tests.crash.sweep_box import RealBox, make_keys
from tests.spine.conftest import Said

SWEEP, NAMES, OWED = "ab", ("a", "b"), ("data.jsonl", "result.json")
KINDS = ("keeper", "queue", "reset", "stall", "sshd", "disk", "port")
OFTEN = (*KINDS, "keeper", "keeper", "queue")  # these have to meet a cell's short life
# A trial ends by what it brings about, not by the clock: so many commands in a row after which nothing more was begun,
# ended, brought home or let go anywhere; or so many in all.
VAIN, MOST = 60, 400
# Bounds on a hang, many times what a trial takes on a busy machine; who meets one is played again, alone.
TRIAL_S, COMMAND_S = 900.0, 300.0
TICK_S = 0.03
ALIVE = ("planned", "queued", "starting", "running", "stalled")
# Begins only where nobody of its name is at work; a full disk fails it, and nothing else may.
CELL = """
exec 9>> "$LEDGER.$SOJOURN_RUN_ID"
flock -n 9 && alone=yes || alone=no
echo "begin $SOJOURN_RUN_ID $SOJOURN_ATTEMPT $alone $SOJOURN_RUN_DIR" >> "$LEDGER"
seq 1 $rows | sed "s/.*/{\\"step\\": &, \\"lr\\": $lr}/" > data.jsonl
sleep $rest
printf '{"cell": "%s", "lr": %s}' "$SOJOURN_RUN_ID" "$lr" > result.json
echo "done $SOJOURN_RUN_ID $SOJOURN_ATTEMPT $alone $SOJOURN_RUN_DIR" >> "$LEDGER"
"""


@dataclass(frozen=True)
class Fault:
    """`kind` befalls a box `delay_s` after there was something to befall, which is waited for from the `command`-th
    command on; for `lasts_s`.
    """

    kind: str
    box: str
    command: int
    delay_s: float
    lasts_s: float


@dataclass(frozen=True)
class SweepSchedule:
    """One trial. `early`: before which round somebody asks for `down` too soon (0: never). `again`: at the end the same
    commands are given once more. `used`: the boxes that have the keeper already.
    """

    seed: int
    cells: int
    rest_s: float
    rows: int
    blows: tuple[Blow, ...]
    faults: tuple[Fault, ...]
    early: int
    again: bool
    used: tuple[str, ...]


def sweep_schedule(seed: int) -> SweepSchedule:
    """The trial of a seed; the same for ever."""
    dice = random.Random(f"sweep {seed}")
    blows = []
    for number in sorted(dice.sample(range(8), dice.randint(0, 3))):
        if dice.random() < 0.6:
            blows.append(Blow(number, dice.randint(1, 6), 0.0, dice.choice(("before", "within", "after"))))
        else:
            blows.append(Blow(number, 0, round(dice.uniform(0.1, 1.5), 3), dice.choice(("client", "tree"))))
    faults = [_fault(dice) for _ in range(dice.randint(1, 5))]
    return SweepSchedule(
        seed=seed,
        cells=dice.choice((3, 4, 5)),
        rest_s=dice.choice((0.2, 0.8, 2.0)),
        rows=dice.choice((10, 5000)),
        blows=tuple(blows),
        faults=tuple(sorted(faults, key=lambda fault: fault.command)),
        early=dice.choice((0, 0, 2, 4)),
        again=dice.random() < 0.3,
        used=tuple(name for name in NAMES if dice.random() < 0.7),
    )


def _fault(dice: random.Random) -> Fault:
    kind, box = dice.choice(OFTEN), dice.choice(NAMES)
    if kind in ("keeper", "queue"):
        return Fault(kind, box, dice.choice((0, 0, 1, 2)), dice.choice((0.0, 0.02, 0.1, 0.3, 0.6)), 0.0)
    delay_s, lasts_s = round(dice.uniform(0.0, 1.2), 3), round(dice.uniform(0.2, 2.0), 3)
    return Fault(kind, box, dice.choice((0, 1, 1, 2, 2, 3, 4, 5, 6)), delay_s, lasts_s)


class SweepTrial:
    """A schedule, played in a folder that nobody else uses."""

    def __init__(self, plan: SweepSchedule, folder: Path, stage: Stage) -> None:
        self.plan, self.ledger = plan, folder / "ledger"
        lrs = [round(0.1 * (n + 1), 1) for n in range(plan.cells)]
        self.wanted = {f"{SWEEP}-lr{lr}": lr for lr in lrs}
        told: dict[str, Any] = {
            "name": SWEEP,
            "candidates": list(NAMES),
            "envs": {"LEDGER": str(self.ledger), "rows": str(plan.rows), "rest": str(plan.rest_s)},
            "run": CELL,
            "outputs": list(OWED),
            "sweep": {"matrix": {"lr": lrs}},
        }
        self.user = User(folder, stage, told)
        self.hand = Hand(self.user, plan.seed, plan.blows, COMMAND_S)
        self.verdict, self.tell, self.breach = self.hand.verdict, self.hand.tell, self.hand.breach
        self.sockets = tempfile.mkdtemp(prefix="sj-")  # short: a socket's path is limited
        self.user.env.update(XDG_RUNTIME_DIR=self.sockets)
        make_keys(folder / "keys")
        self.boxes = {name: RealBox(name, folder, self.user.home, folder / "keys") for name in NAMES}
        for name in plan.used:
            shutil.copytree(stage.keepers, self.boxes[name].disk / "keepers")
        settings = self.user.home / ".config/sojourn/settings.toml"
        settings.write_text("".join(box.settings() for box in self.boxes.values()))
        self.timers: list[threading.Thread] = []
        self.over = threading.Event()
        self.brought, self.in_vain = 0, 0

    def play(self) -> Verdict:
        """The whole trial; never raises for what the product did."""
        self.tell(str(self.plan))
        try:
            self._until_done()
            self._calm()
            if self.plan.again and not self.verdict.breaches:
                leases = [("down", name) for name in self._leases()]
                self.hand.give_again(("sweep", "--json"), ("pull", SWEEP), ("reconcile", SWEEP), *leases)
            self._judge()
        except OutOfTime as late:
            self.verdict.cut = str(late)
            self.tell(self.verdict.cut)
        except Exception:  # noqa: BLE001 - a trial that breaks the judge is a breach with its story
            self.breach(traceback.format_exc())
        finally:
            self._calm()
            for box in self.boxes.values():
                box.close()
            self.user.end_all()
            shutil.rmtree(self.sockets, ignore_errors=True)
        self.verdict.seconds = self.hand.took_s
        return self.verdict

    def _until_done(self) -> None:
        number = 1
        while not self._is_stuck():
            if number == self.plan.early:
                self._too_early()
            if self._round():
                return
            number += 1
        self.breach(f"no end after {self.verdict.commands} commands, the last {self.in_vain} of them in vain")

    def _is_stuck(self) -> bool:
        return self.in_vain > VAIN or self.verdict.commands > MOST

    def _round(self) -> bool:
        """One way through the commands, as a patient user goes it; whether all is home and let go."""
        if self.ask("sweep").rc != 0 or not self._see_end():
            return False
        self.ask("pull", SWEEP)
        said = self.ask("reconcile", SWEEP, "--json")
        if said.rc != 0:
            self.ask("reconcile", SWEEP, "--repair")
            return False
        return all(self.ask("down", name, "--confirm", name).rc == 0 for name in self._leases())

    def _leases(self) -> list[str]:
        """The boxes that got cells: one that did not answer at first may have none."""
        return sorted({str(record["lease"]["name"]) for record in self.hand.records("leased")})

    def _see_end(self) -> bool:
        """Look until no cell is alive; False where that took too long or the line is down."""
        while not self._is_stuck():
            said = self.ask("status", SWEEP, "--json")
            if said.rc not in (0, 3):
                return False
            rows = said.json["runs"]
            if not any(row["state"] in ALIVE for row in rows):
                return True
            if any(row["state"] == "planned" for row in rows):
                return False  # the identical `sweep` moves it on
            time.sleep(0.5)
        return False

    def _too_early(self) -> None:
        """No box may be let go while something on it is owed."""
        placed = self.hand.records("queueing")
        if not placed:
            return
        name = self._leases()[0]
        owed = {cell["run"] for record in placed if record["site"] == name for cell in record["cells"]}
        if owed - {record["run"] for record in self.hand.records("pulled")}:
            said = self.ask("down", name, "--confirm", name)
            if said.rc == 0:
                self.breach("down let go before all of it was home")

    def ask(self, *words: str) -> Said:
        """One command as the schedule has it, judged by what every command must hold to."""
        for fault in self.plan.faults:
            if fault.command == self.verdict.commands:
                thread = threading.Thread(target=self._befall, args=(fault,), daemon=True)
                self.timers.append(thread)
                thread.start()
        if self.hand.took_s > TRIAL_S:
            raise OutOfTime(f"no end after {TRIAL_S:.0f} s, and {self.verdict.commands} commands")
        said = self.hand.give(*words)
        last = (said.err.strip() or said.out.strip()).splitlines()[-1:] if "--json" not in words else [_told(said)]
        self.tell(f"{' '.join(words)}: {said.rc} {' '.join(last)[:200]}")
        if said.rc not in (-9, 0, 1, 3, 4, 5, 10, 11) and not (said.rc == 2 and words[0] != "sweep"):
            self.breach(f"{' '.join(words)}: {said.rc} {said.err[-500:]}")
        brought = self._brought()
        self.in_vain = 0 if brought != self.brought else self.in_vain + 1
        self.brought = brought
        return said

    def _brought(self) -> int:
        """What only grows while the sweep comes on: what cells told, boxes wrote down, the journal has."""
        told = len(self.ledger.read_bytes()) if self.ledger.exists() else 0
        events = sum(event["kind"] != "beat" for box in self.boxes.values() for event in box.events())
        return told + events + sum(one["kind"] not in ("heard", "pulling") for one in self.hand.records())

    def _befall(self, fault: Fault) -> None:
        box = self.boxes[fault.box]
        try:
            hit = 0
            while not hit:
                while fault.kind != "disk" and not box.prey(fault.kind):
                    if self.over.wait(TICK_S):
                        self.verdict.vain[fault.kind] += 1
                        return
                time.sleep(fault.delay_s)
                hit = box.begin(fault.kind)
            self.verdict.faults[fault.kind] += 1
            if fault.kind not in ("disk", "stall"):
                self.verdict.kills[f"by {fault.kind}"] += hit
            self.tell(f"{fault.kind} at {fault.box} for {fault.lasts_s} s ({hit} hit)")
            time.sleep(fault.lasts_s)
            box.heal(fault.kind)
            self.tell(f"{fault.kind} at {fault.box} is over")
        except Exception:  # noqa: BLE001 - of this harness, and it must not pass for a trial that held
            self.breach("the harness: " + traceback.format_exc())

    def _calm(self) -> None:
        """No fault any more."""
        self.over.set()
        for thread in self.timers:
            thread.join(60)

    def _judge(self) -> None:
        told = [line.split() for line in self.ledger.read_text().splitlines()] if self.ledger.exists() else []
        self.verdict.attempts = sum(words[0] == "begin" for words in told)
        for name in self.wanted:
            mine = [words for words in told if words[1] == name]
            begins = [words for words in mine if words[0] == "begin"]
            if any(words[3] == "no" for words in begins):
                self.breach(f"doubled: {name} was at work twice at once: {begins}")
            if len({words[4] for words in begins}) > 1:
                self.breach(f"doubled: {name} was begun on two boxes: {begins}")
            if len({words[2] for words in begins}) < len(begins):
                self.breach(f"doubled: an attempt of {name} was begun twice: {begins}")
            if not self.verdict.faults["disk"] and len(begins) != 1:
                self.breach(f"no disk was full, and {name} was begun {len(begins)} times: {begins}")
            if not any(words[0] == "done" for words in mine):
                self.breach(f"lost: {name} was never done")
            self._judge_home(name)
        ends = Counter(name for name in self.wanted for _ in self._successes(name))
        if any(ends[name] != 1 for name in self.wanted):
            self.breach(f"succeeded otherwise than once: {dict(ends)}")
        released = Counter(record["lease"] for record in self.hand.records("released"))
        if self.verdict.breaches or released == dict.fromkeys(self._leases(), 1):
            return
        self.breach(f"let go: {dict(released)}")

    def _judge_home(self, name: str) -> None:
        pulled = [record for record in self.hand.records("pulled") if record["run"] == name]
        receipts = {one["path"]: one for one in pulled[-1]["receipts"]} if pulled else {}
        if sorted(receipts) != sorted(OWED):
            self.breach(f"lost: {name} is home with {sorted(receipts)}")
            return
        for one in receipts.values():
            if sha256_file(one["home"]) != (one["bytes"], one["sha256"]) or "load" not in one["proved"]:
                self.breach(f"falsely verified: {name}: {one['path']}")
        result = json.loads(Path(receipts["result.json"]["home"]).read_text())
        rows = Path(receipts["data.jsonl"]["home"]).read_text().splitlines()
        wanted = [{"step": n + 1, "lr": self.wanted[name]} for n in range(self.plan.rows)]
        if result != {"cell": name, "lr": self.wanted[name]} or list(map(json.loads, rows)) != wanted:
            self.breach(f"falsely verified: {name} holds {result} and {len(rows)} rows")

    def _successes(self, name: str) -> list[dict[str, Any]]:
        return [
            event
            for box in self.boxes.values()
            for event in box.events(name)
            if event["kind"] == "ended" and event["state"] == "succeeded"
        ]


def _told(said: Said) -> str:
    try:
        document = said.json
    except ValueError:
        return said.err.strip()[-200:]
    if "runs" in document:
        return str(dict(Counter(row["state"] for row in document["runs"])))
    return str(
        {key: len(document[key]) for key in ("loaded", "present", "missing", "failed", "unknown") if key in document}
    )
