"""Which of the progress bars in a log is the training's: data work and evaluations draw bars, too."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Tuple

# Titles of bars that count something other than training steps.
OTHER = re.compile(
    r"download|fetch|load|map|filter|generat|token|shard|writ|extract|upload|valid|eval|test|sanity|predict|sampl"
    r"|resolv|compil|captur|prepar|cach|scan|convert|process|dataset|\bdata\b|truncat|pack|adding|template|rollout"
    r"|comput|encod|embed|infer|collect|read|sav",
    re.I,
)
EVALUATION = re.compile(r"valid|\bval\b|eval|\btest", re.I)
_TRAINING = re.compile(r"\btrain|\bsteps?\b|\biter|progress|optimi|\bupdat|fine-?tun|\bfit", re.I)
_UNIT = re.compile(r"([A-Za-z]+)/s\b|s/([A-Za-z]+)")
_SPEED = re.compile(r" *(\d+(?:\.\d+)?) *[A-Za-z]+/s\b")
_AGAIN = 4
_FASTEST = 1000.0  # steps a second
_OF_TRAINING = frozenset("it step steps batch batches b ba iter iters kit update updates".split())

SHOWN, IGNORED, UNSURE = "shown", "ignored", "unsure"


def rank(title: str, rate: str) -> int:
    """2: titled as a training. 1: without a title. 0: any other title, or faster than trainings are. -1: it counts
    something else.
    """
    unit = unit_of(rate)
    if OTHER.search(title):
        return -1
    if _TRAINING.search(title):
        return 2
    if unit and unit not in _OF_TRAINING:
        return -1
    return 0 if title.strip() or speed(rate) > _FASTEST else 1


def unit_of(rate: str) -> str:
    """ "it" of "3.1it/s" and of "1.2s/it"; "" if it tells none."""
    hit = _UNIT.search(rate)
    return (hit.group(1) or hit.group(2)).lower() if hit else ""


def speed(rate: str) -> float:
    """Counts a second; 0 if it takes longer than that, or is not told."""
    hit = _SPEED.match(rate)
    return float(hit.group(1)) if hit else 0.0


class _Bar:
    def __init__(self, key: Tuple[str, int], rank: int) -> None:
        self.key = key
        self.rank = rank
        self.step = -1
        self.is_confirmed = False  # a loss of the training was told in it or beside it
        self.rounds = 0  # how often it began again

    @property
    def is_complete(self) -> bool:
        return self.step >= self.key[1]


class Bars:
    """The bars of one log, in the order of their lines."""

    def __init__(self) -> None:
        self._bar: _Bar | None = None
        self._other: _Bar | None = None  # the last one to move, if it is not the training's
        self.is_each_epoch = False  # the training's began again: it counts one epoch

    def move(self, title: str, rank: int, step: int, total: int, has_loss: bool) -> str:
        """Whether the bar that was drawn is the training's."""
        key = (re.sub(r"\d+", "#", title), total)
        bar = self._bar
        if bar is not None and bar.key == key:
            if step * _AGAIN < bar.step:  # far back; ranks that draw one bar each differ by little
                bar.rounds += 1
                self.is_each_epoch = True
            bar.step, bar.is_confirmed, self._other = step, bar.is_confirmed or has_loss, None
            return UNSURE if bar.rounds else SHOWN
        if self._other is None or self._other.key != key:
            self._other = _Bar(key, rank)
        other = self._other
        other.step, other.is_confirmed = step, other.is_confirmed or has_loss
        return self._judged(other)

    def tell_loss(self) -> None:
        """A loss of the training stands in the log: it is told of the bar that moved last."""
        moved = self._other or self._bar
        if moved is not None:
            moved.is_confirmed = True
        if self._other is not None and (self._bar is None or self._bar.is_complete or not self._bar.is_confirmed):
            self._bar, self._other = self._other, None

    def _judged(self, other: _Bar) -> str:
        bar = self._bar
        if bar is None:
            is_it = other.rank > 0 or other.is_confirmed
        elif other.rank != bar.rank:
            is_it = other.rank > bar.rank or (other.is_confirmed and not bar.is_confirmed)
        elif bar.is_complete:
            if not other.is_confirmed:
                return IGNORED if bar.is_confirmed or self.is_each_epoch else UNSURE
            if bar.is_confirmed:
                return UNSURE  # a second stage, or an evaluation
            is_it = True
        else:
            is_it = other.is_confirmed and not bar.is_confirmed
        if not is_it:
            return IGNORED
        self._bar, self._other = other, None
        return SHOWN
