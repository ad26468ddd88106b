"""What a run of the campaign does, attempt by attempt: a shell script drawn by seed."""

from __future__ import annotations

import random
import shlex
from dataclasses import dataclass
from pathlib import Path

from tests.law.blobs import Blobs

OUTPUTS = ["out/*", "result.json", "m.npy", "best/*.json", "keep/*"]
PERSIST = ["keep"]  # handed on from attempt to attempt, each of which may remove what it finds there
UNNAMED = ["runs/*.pt"]  # what no output names: weights all the same
LINKED = "best/"  # a link to the folder beside it
PATHS = {
    "out/a.json": "json",
    "out/x.npy": "npy",
    "out/w.pt": "pt",
    "out/n.txt": "txt",
    "result.json": "json",
    "m.npy": "npy",
    "best/b.json": "json",
    "keep/1.pt": "pt",
    "keep/2.pt": "pt",
    "runs/w.pt": "pt",
}
ENDS = {"succeeds": "exit 0", "fails": "exit 3", "hangs": "exec sleep 900"}


@dataclass(frozen=True)
class Act:
    """One attempt. drops: what it removes first of what an earlier one handed on; saves: a place to write to -> a
    content's file, in this order; end: a word of ENDS.
    """

    saves: tuple[tuple[str, Path], ...]
    checkpoints: tuple[tuple[int, Path], ...]
    end: str
    drops: tuple[str, ...] = ()


@dataclass(frozen=True)
class Play:
    """A run: its name, and what each attempt does; what comes after the last does as the last did."""

    name: str
    acts: tuple[Act, ...]

    def act(self, attempt: int) -> Act:
        return self.acts[min(attempt, len(self.acts)) - 1]

    def script(self, begun: Path) -> str:
        """The shell script of all attempts. `begun`: a folder where each leaves its number once it has saved."""
        lines = ["n=$SOJOURN_ATTEMPT"]
        for number, act in enumerate(self.acts, 1):
            pattern = str(number) if number < len(self.acts) else "*"
            lines += [
                f"case $n in {pattern})",
                *(f"rm -f {path}; echo {path} >> {shlex.quote(str(begun))}/{self.name}.dropped" for path in act.drops),
                *_lines(act),
                f": > {shlex.quote(str(begun))}/{self.name}.$n; {ENDS[act.end]};;",
                "esac",
            ]
        return "\n".join(lines)


def draw(dice: random.Random, name: str, blobs: Blobs, most: int = 3) -> Play:
    """Up to `most` attempts; often the first saves something and a later one dies before it has saved."""
    count = dice.randint(1, most)
    return Play(name, tuple(_act(dice, blobs, is_last=number == count) for number in range(1, count + 1)))


def _act(dice: random.Random, blobs: Blobs, *, is_last: bool) -> Act:
    saves: list[tuple[str, Path]] = []
    checkpoints: list[tuple[int, Path]] = []
    if dice.random() < 0.8:
        for path in dice.sample(sorted(PATHS), dice.randint(1, 3)):
            place = '"$SOJOURN_RUN_DIR"/' if dice.random() < 0.15 else ""
            saves.append((place + path, blobs.draw(dice, PATHS[path]).path))
    if dice.random() < 0.45:
        steps = sorted(dice.sample(range(1, 500), dice.randint(1, 3)))
        checkpoints = [(step, blobs.draw(dice, "pt").path) for step in steps]
    ends = ["succeeds", "succeeds", "fails", "hangs"] if is_last else ["fails", "fails", "hangs"]
    drops = tuple(path for path in ("keep/1.pt", "keep/2.pt") if dice.random() < 0.25)
    return Act(tuple(saves), tuple(checkpoints), dice.choice(ends), drops)


def _lines(act: Act) -> list[str]:
    lines = []
    for place, content in act.saves:
        top, linked, _ = place.rpartition(LINKED)
        if linked:
            lines += [f"mkdir -p {top}real", f"ln -sfn real {top}best"]
        lines += [f"mkdir -p $(dirname {place})", f"cp {shlex.quote(str(content))} {place}"]
    for step, content in act.checkpoints:
        name = f'"$SOJOURN_CHECKPOINT_DIR"/$(printf ckpt-t%06d-s%08d.pt $SOJOURN_TOKEN {step})'
        lines += [
            f'cp {shlex.quote(str(content))} "$SOJOURN_CHECKPOINT_DIR"/.aside',
            f'mv "$SOJOURN_CHECKPOINT_DIR"/.aside {name}',
        ]
    return lines
