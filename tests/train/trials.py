"""One trial: a training struck by real signals at random moments, started again each time, until it ends.

A seed is a schedule: how often it saves, which signals come, when, and to which process. Moments differ a little from
machine to machine. `python -m tests.train --kind hf --seed 3` plays one alone.
"""

from __future__ import annotations

import importlib.util
import json
import random
import re
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterable

from sojourn.formats.torch.values import Damaged
from sojourn.train.saving import distributed_shards, sealed
from tests.train.forging import Forge, computed_twice

KILLS, TERMS = 5, 1  # of one trial
LONGEST_S, PAUSE = 0.25, "pause_s=0.03"  # 60 steps take 1.8 s; behind the 50th each waits for its signal to come
FROM_BIRTH = 0.3  # that part of the SIGKILLs comes at any moment from the start of the process on
EVERYDAY = {
    "persistent": "persistent workers", "iterable": "an iterable data set, two workers", "scaler": "GradScaler",
    "swa": "EMA and SWA", "gan": "two optimizers (GAN)", "recompute": "gradient checkpointing", "lora": "LoRA",
    "carried": "RNN with carried state", "evaluating": "evaluation inside the epoch",
}  # fmt: skip
if importlib.util.find_spec("peft"):  # too large for the sake of one trial
    EVERYDAY["peft"] = "LoRA by peft"
_PARALLEL = ("torch", "torch._dynamo", "torch.distributed.checkpoint.state_dict", "torch.distributed.fsdp")


@dataclass(frozen=True)
class Way:
    """Further arguments of a training."""

    args: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kind:
    """A training of `scripts/`, of `steps` steps, by so many processes; `modules` are imported once for all trials."""

    script: str
    modules: tuple[str, ...]
    epochs: int = 5
    steps: int = 60
    ranks: int = 1
    ways: tuple[Way, ...] = (Way(),)
    window: int = 1  # steps between two behind which it can be saved

    def way(self, seed: int) -> Way:
        """How it is done in the trial of this seed."""
        return self.ways[seed % len(self.ways)]


KINDS = {
    "torch": Kind(
        "torch_net.py",
        ("torch", "torch._dynamo"),  # which making an optimizer imports
        ways=(
            Way(("background=0",)),
            Way(("background=1",)),
            Way(("workers=2", "background=0")),
            Way(("generator=1", "background=1")),
        ),
    ),
    "hf": Kind("hf_net.py", ("torch", "transformers.trainer", "accelerate")),
    "lightning": Kind(
        "lightning_net.py",
        ("torch", "lightning"),
        ways=(Way(), Way(("check=5",)), Way(("stream=1",)), Way(("stateful=1",))),
    ),
    "ddp": Kind("ddp_net.py", _PARALLEL, ranks=2),
    "fsdp": Kind("fsdp_net.py", _PARALLEL, ranks=2),
    "accumulated": Kind(
        "accumulated_net.py",
        ("torch", "torch._dynamo"),
        ways=(Way(("by=raw", "background=0")), Way(("by=raw", "background=1"))),
    ),
    "accelerate": Kind("accumulated_net.py", ("torch", "accelerate"), ways=(Way(("by=accelerate",)),)),
    "hf-accumulated": Kind(
        "hf_net.py", ("torch", "transformers.trainer", "accelerate"), epochs=20, ways=(Way(("accumulate=5",)),)
    ),
    "lightning-accumulated": Kind(
        "lightning_net.py", ("torch", "lightning"), epochs=20, steps=240, ways=(Way(("accumulate=5",)),), window=5
    ),
    **{
        f"everyday-{by}": Kind(
            "everyday_net.py",
            ("torch", "torch._dynamo", "torch.utils.checkpoint"),
            ways=(Way((f"by={by}", "background=0")), Way((f"by={by}", "background=1"))),
        )
        for by in EVERYDAY
    },
    "hf2": Kind("hf_net.py", ("torch", "transformers.trainer", "accelerate"), ranks=2),
    "lightning2": Kind("lightning_net.py", ("torch", "lightning"), ranks=2),
}


@dataclass
class Verdict:
    """What came of a trial. `twice`: steps computed once more, by attempt; `breaches`: what did not hold."""

    kind: str
    seed: int
    every: int = 0
    kills: int = 0
    terms: int = 0
    attempts: int = 0
    twice: list[int] = field(default_factory=list)
    breaches: list[str] = field(default_factory=list)
    story: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        held = "; ".join(self.breaches) or "held"
        return f"{self.kind} seed {self.seed}: every {self.every}, twice {self.twice}: {held}"


class Trials:
    """Trials of one kind, in `folder`. `forge` has its modules."""

    def __init__(self, kind: str, forge: Forge, folder: Path) -> None:
        self.name, self.kind, self.forge, self.folder = kind, KINDS[kind], forge, folder
        self._whole: dict[Way, list[bytes]] = {}

    def whole(self, way: Way) -> list[bytes]:
        """Final bytes of every process of the uninterrupted training."""
        if way not in self._whole:
            folder = self.folder / f"{self.name}-whole{len(self._whole)}"
            folder.mkdir()
            rcs = self._run(folder, "every_steps=7", *way.args, said=folder / "said")
            assert set(rcs) == {0}, (folder / "said").read_text()
            self._whole[way] = outcome(folder)
        return self._whole[way]

    def play(self, seed: int, kills: int = KILLS, terms: int = TERMS) -> Verdict:
        """Strike a training until all the signals of `seed` have come, and let it end."""
        dice, folder = random.Random(f"{self.name} {seed}"), self.folder / f"{self.name}-{seed}"
        folder.mkdir()
        way = self.kind.way(seed)
        signals = [signal.SIGKILL] * kills + [signal.SIGTERM] * terms
        dice.shuffle(signals)
        verdict = Verdict(self.name, seed, every=dice.choice([1, 3, 5]))
        args = (PAUSE, f"every_steps={verdict.every}", f"log={folder / 'log'}", *way.args)
        for number in [*signals, None]:
            if not self._attempt(verdict, number, dice, folder, args):
                return verdict
        verdict.twice = computed_twice(folder / "log")
        if outcome(folder) != self.whole(way):
            verdict.breaches.append("it ended with other bytes")
        if max(verdict.twice, default=0) > max(verdict.every, self.kind.window):
            verdict.breaches.append(f"{max(verdict.twice)} steps were computed twice, saved every {verdict.every}")
        if {int(line) for line in (folder / "log").read_text().split()} != set(range(1, self.kind.steps + 1)):
            verdict.breaches.append("not every step was computed")
        verdict.breaches += left_over(folder)
        return verdict

    def _attempt(
        self, verdict: Verdict, number: signal.Signals | None, dice: random.Random, folder: Path, args: tuple[str, ...]
    ) -> bool:
        """One start, and its end by the signal. False where the trial is broken."""
        out = folder / f"said{verdict.attempts}"
        victim, after_s = dice.randrange(self.kind.ranks), dice.uniform(0.0, LONGEST_S)
        is_from_birth = dice.random() < FROM_BIRTH and number == signal.SIGKILL
        after_s *= 4 if is_from_birth else 1
        strike = {"strike": number, "after_s": after_s, "victim": victim, "is_from_birth": is_from_birth}
        if number is not None:
            hold = folder / f"struck{verdict.attempts}"
            args, strike = (*args, f"hold={hold}"), {**strike, "hold": hold}
        rcs = self._run(folder, *args, said=out, **strike)
        verdict.attempts += 1
        verdict.kills += number == signal.SIGKILL
        verdict.terms += number == signal.SIGTERM
        verdict.story.append(f"--- {number!r} to {victim} after {after_s:.2f} s (from birth: {is_from_birth}): {rcs}")
        verdict.story += [path.read_text() for path in sorted(folder.glob(out.name + "*")) if path.suffix != ".store"]
        if number == signal.SIGKILL:  # what the others do then is not theirs to choose
            is_right = rcs[victim] == -signal.SIGKILL and 0 not in rcs
        else:
            is_right = rcs == [0 if number is None else 75] * self.kind.ranks
        if not is_right:
            verdict.breaches.append(f"attempt {verdict.attempts} ended with {rcs} after {number!r}")
        verdict.breaches += lost(folder)
        return is_right

    def _run(self, folder: Path, *args: object, **more: object) -> list[int]:
        fixed = (self.kind.script, folder / "ckpt", folder / "out", self.kind.epochs)
        return self.forge.run(*fixed, *args, ranks=self.kind.ranks, **more)  # type: ignore[arg-type]


def campaign(kind: str, seeds: Iterable[int], forge: Forge, folder: Path) -> list[Verdict]:
    """The trials of these seeds, one after the other."""
    played = Trials(kind, forge, folder)
    return [played.play(seed) for seed in seeds]


def stories(verdicts: list[Verdict]) -> str:
    """The broken ones, each with what happened."""
    return "\n\n".join("\n".join([str(one), *one.story]) for one in verdicts if one.breaches)


def outcome(folder: Path) -> list[bytes]:
    """Final bytes of every process."""
    return [path.read_bytes() for path in sorted(folder.glob("out*")) if path.is_file()]


def lost(folder: Path) -> list[str]:
    """What the pointer calls saved, and is not there or not whole."""
    pointer = folder / "ckpt" / "latest.json"
    if not pointer.exists():
        return []
    name = json.loads(pointer.read_text())["path"]
    return [f"{name} was called saved: {why}" for why in damage(folder / "ckpt" / name)]


def left_over(folder: Path) -> list[str]:
    """What is in the folder of a training that is over and should not be, or is not whole."""
    ours = [path for path in sorted((folder / "ckpt").iterdir()) if re.fullmatch(r"ckpt-.*|best\.pt", path.name)]
    others = {path.name for path in (folder / "ckpt").iterdir()} - {path.name for path in ours}
    found = [f"{path.name}: {why}" for path in ours for why in damage(path)]
    found += [f"{name} was left over" for name in sorted(others - {"latest.json", ".lock"})]
    work = folder / "out.work"  # where the other trainers write
    return found + [f"{path.name} was left over" for path in (sorted(work.iterdir()) if work.exists() else ())]


def damage(path: Path) -> list[str]:
    """Why a checkpoint does not count; nothing where every byte is as it was written."""
    try:
        distributed_shards.open_shards(str(path)) if path.is_file() else sealed.check(str(path))
    except (OSError, Damaged) as e:
        return [str(e)]
    return []
