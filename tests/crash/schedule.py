"""What a seed means: the training, the commands' variations, and who is killed when. Pure; the same for ever.

A blow hits the client while its n-th command runs. A strike hits the box when something happens in the run's root.
"""

import random
from dataclasses import dataclass, replace

ALONE = ("keeper", "shim", "training", "group", "call")
TOGETHER = ("keeper+training", "keeper+shim", "keeper+group", "shim+training", "everything")
# What a strike waits for: a change of this folder or file of the root (. = the root itself), or only for time to pass.
# With how many changes at most one attempt makes there.
SIGNS = {"events.jsonl": 5, ".": 3, "exits": 3, "attempts": 1, "logs": 1, "progress": 8, "checkpoints": 15, "": 0}
OFTEN = (*SIGNS, "events.jsonl", ".", "checkpoints")
MEDDLINGS = ("", "", "", "", "", "drop-index", "spoil-home", "early-down", "stop", "crowd")


@dataclass(frozen=True)
class Blow:
    """The client's `command`-th command dies at its `record`-th journal write, or (record 0) after `delay_s`.

    `how`: before, within, after the write; or client, tree (its calls die with it).
    """

    command: int
    record: int
    delay_s: float
    how: str


@dataclass(frozen=True)
class Strike:
    """SIGKILL to `victim`, `delay_s` after `sign` has changed `count` times (since the strike before)."""

    victim: str
    sign: str
    count: int
    delay_s: float


@dataclass(frozen=True)
class Schedule:
    """One trial."""

    seed: int
    epochs: int
    steps: int
    size: int
    pause_s: float
    blows: tuple[Blow, ...]
    strikes: tuple[Strike, ...]
    meddling: str
    fault_rate: float  # of the calls of each verb's first commands; 0 = the site is `local`
    faulty_tries: int  # so many commands of each verb; after them the line is sound, and every trial comes to an end
    retries: int
    looks: str  # status, watch

    @property
    def is_gentle(self) -> bool:
        """Nothing but clients, keepers and their calls is ever killed: there must be one training."""
        return self.meddling != "stop" and all(strike.victim in ("keeper", "call") for strike in self.strikes)

    @property
    def is_bloodless(self) -> bool:
        """Nothing is ever killed, only the line fails: the run is never to be called dead."""
        return not self.blows and not self.strikes and self.meddling != "stop"


def schedule(seed: int) -> Schedule:
    """The trial of a seed."""
    dice = random.Random(f"crash {seed}")
    epochs, steps, size = dice.choice(((4, 9, 64), (3, 11, 2000), (6, 6, 300)))
    mood = dice.choice(("client", "box", "both", "both", "storm"))
    clients = {"client": (1, 4), "box": (0, 0), "both": (1, 3), "storm": (2, 6)}[mood]
    boxes = {"client": (0, 0), "box": (1, 4), "both": (1, 3), "storm": (3, 7)}[mood]
    blows = tuple(_blow(dice, number) for number in sorted(dice.sample(range(9), dice.randint(*clients))))
    return Schedule(
        seed=seed,
        epochs=epochs,
        steps=steps,
        size=size,
        pause_s=dice.choice((0.03, 0.04, 0.06)),
        blows=blows,
        strikes=tuple(_strike(dice) for _ in range(dice.randint(*boxes))),
        meddling=dice.choice(MEDDLINGS),
        fault_rate=dice.choice((0.0, 0.0, 0.0, 0.1, 0.25)),
        faulty_tries=2,
        retries=dice.choice((0, 0, 0, 2)),
        looks=dice.choice(("status", "watch")),
    )


def line_schedule(seed: int) -> Schedule:
    """The trial of a seed where nothing but the line fails, and often."""
    dice = random.Random(f"line {seed}")
    return replace(
        schedule(seed),
        epochs=4,
        steps=9,
        size=dice.choice((64, 20000)),
        pause_s=0.06,
        blows=(),
        strikes=(),
        meddling="",
        fault_rate=dice.choice((0.3, 0.4, 0.5)),
        faulty_tries=6,
        retries=dice.choice((0, 2)),
        looks=dice.choice(("status", "status", "watch")),
    )


def _blow(dice: random.Random, command: int) -> Blow:
    if dice.random() < 0.6:
        return Blow(command, dice.randint(1, 5), 0.0, dice.choice(("before", "within", "after")))
    return Blow(command, 0, round(dice.uniform(0.03, 1.2), 3), dice.choice(("client", "tree")))


def _strike(dice: random.Random) -> Strike:
    sign = dice.choice(OFTEN)
    delay_s = dice.choice((0.0, 0.0, 0.002, 0.01, 0.05, 0.2)) if sign else dice.uniform(0.05, 1.0)
    return Strike(dice.choice(ALONE + TOGETHER), sign, dice.randint(1, SIGNS[sign]) if sign else 0, round(delay_s, 3))
