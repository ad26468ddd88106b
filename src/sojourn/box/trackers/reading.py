"""A training's progress by its log, line after line: true, or absent. Where several readings of a line are possible,
only the epoch is told, or nothing.
"""

from __future__ import annotations

import re

from sojourn.box.trackers import bars, lines, numbers, plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Mapping

    from sojourn.box.trackers.lines import Place

_DICT = re.compile(r"^\{['\"][\w/() -]+['\"]: .*['\"]epoch['\"]: ['\"]?(?P<epoch>" + numbers.NUMBER + r")")
_LIGHTNING = re.compile(
    r"GPU available: |`Trainer|Restor(?:ing|ed) (?:all )?states from the checkpoint|Sanity Checking"
)
_OLD_LIGHTNING = re.compile(r"\bloss=[^,]*, v_num=")  # its bar may count the batches of the validation, too
_WHOLE = re.compile(r"\bsteps?\b|total|overall|progress", re.I)  # titles of bars that count the whole training
_SILENT = 1000
NOWHERE: Dict[str, Any] = {"step": None, "total": None, "unit": None}


class Reading:
    """Of one attempt's log. `planned`: {"epochs", "steps"} by its command line, as far as that says."""

    def __init__(self, planned: Mapping[str, int]) -> None:
        self._plan = dict(planned)
        self._bars = bars.Bars()
        self._tables = numbers.Tables()
        self._leader = ""  # of several ranks or workers, the one that is read
        self._passed = 0
        self._epoch: int | None = None
        self._epochs: int | None = None
        self._first: int | None = None  # the first epoch told
        self._is_from_0 = False
        self._is_begun = False
        self._has_steps = False  # then a line with only an epoch says less
        self._has_own_epochs = False  # lines of their own tell the epochs
        self._has_epoch_bar = self._has_bar_before = False
        self._is_lightning = self._is_evaluating = False
        self._of = 0  # Keras: the steps of an epoch
        self._alone: int | None = None  # a step that was told without a metric
        self._is_by_alone = False  # such steps are all that this log tells
        self._last: tuple[int, int] | None = None  # epoch and count of the last line with both
        self._is_within: bool | None = None  # such a count begins again in each epoch; None: not known yet

    def read(self, line: str) -> Dict[str, Any]:
        """What a line tells: "step", "total", "epoch", "unit" (None: no longer known) and "metrics"."""
        speaker, line = lines.heard(line)
        if self._leader and speaker and speaker != self._leader and not self._is_led_by(speaker):
            return {}
        self._plan.update(plan.of_line(line))
        self._is_lightning = self._is_lightning or bool(_LIGHTNING.search(line))
        row = self._tables.row(line)
        if row is not None:
            self._note(lines.Place(**row[0]))
            return {**self._by_epochs(True), "metrics": row[1]} if row[1] else self._by_epochs(True)
        is_dict = _DICT.match(line)
        is_evaluation = not is_dict and bool(lines.EVALUATION.search(line))
        place = None if is_evaluation else lines.place(line, bool(numbers.metrics(line, False)))
        if place is not None and speaker and not self._leader:
            self._leader = speaker
        if is_evaluation or (place is not None and not place.is_bar):
            self._is_evaluating = is_evaluation
        found = numbers.metrics(line, not is_dict and self._is_evaluating and (place is None or place.is_bar))
        if place is not None and place.is_bar and bars.OTHER.search(place.title):
            found = {}
        out = self._placed(place, found, bool(is_dict)) if place is not None else {}
        if is_dict:
            out.setdefault("epoch", int(float(is_dict.group("epoch").replace(",", ""))))
            found["epoch"] = float(is_dict.group("epoch").replace(",", ""))
        if any(map(numbers.is_of_training, found)) and (place is None or not place.is_bar):
            self._bars.tell_loss()
        if found and (out or is_dict or self._is_begun):
            out["metrics"] = found
        self._is_begun = self._is_begun or bool(out)
        return out

    def _is_led_by(self, speaker: str) -> bool:
        """Whether another rank is the one to read: a lower one, or any once the leader is silent."""
        self._passed += 1
        is_lower = speaker.isdigit() and self._leader.isdigit() and int(speaker) < int(self._leader)
        if is_lower or self._passed > _SILENT:
            self._leader, self._passed = "" if self._passed > _SILENT else speaker, 0
            return True
        return False

    def _note(self, place: Place) -> None:
        if place.epoch is None:
            return
        self._epoch = place.epoch
        self._epochs = place.epochs or self._epochs
        self._first = place.epoch if self._first is None else self._first
        self._is_from_0 = self._is_from_0 or place.epoch == 0

    def _placed(self, place: Place, found: Dict[str, float], is_dict: bool) -> Dict[str, Any]:
        if is_dict and place.step is None:
            return {}
        self._note(place)
        self._passed = 0
        if place.is_bar:
            return self._bar(place, found)
        if place.is_keras:
            assert place.within is not None and place.of is not None
            if self._epoch is None or (self._of and place.of != self._of):
                return {}  # not of the training: evaluate() and predict()
            self._of = place.of
            return self._within(place.within, place.of, 1)
        if place.within is not None and place.of is not None:
            if place.is_counted and self._goes_on(place.within, place.of):
                return self._at(place.within, place.of)
            return self._within(place.within, place.of, self._base(place), place.unit)
        if place.step is None:
            self._has_own_epochs = self._has_own_epochs or not is_dict
            return self._by_epochs(place.is_sure)
        if place.is_batch:
            if self._epoch is None or place.total is None:
                return self._only_epoch()
            return self._within(place.step, place.total, self._base(place))
        if place.of and self._epoch is not None:  # torchtune: of the epoch
            epochs = self._epochs or self._plan.get("epochs")
            return self._at(place.step, epochs * place.of if epochs else None)
        if self._has_own_epochs and place.epoch is None and place.total and not self._has_steps:
            if not self._goes_on(place.step, place.total):  # of this epoch, or of all?
                return (
                    self._within(place.step, place.total, self._base(place)) if self._is_within else self._only_epoch()
                )
        if place.epoch is not None and place.total is None and self._begins_again(place.step):
            return self._only_epoch()
        if not place.is_sure and not self._is_by_alone:
            if self._has_steps or self._alone is None or place.step <= self._alone:
                self._alone = place.step
                return {}
            self._is_by_alone = True
        return self._at(place.step, place.total)

    def _begins_again(self, step: int) -> bool:
        """Whether a step that is told with an epoch, and without a total, counts within it."""
        assert self._epoch is not None
        if self._last is not None and self._epoch > self._last[0] and step <= self._last[1]:
            self._is_within = True
        self._last = (self._epoch, step)
        return self._is_within is True

    def _base(self, place: Place) -> int | None:
        """What the first epoch is called, as far as the form or the log tells."""
        if place.base is not None:
            return place.base
        if self._first in (0, 1):
            return self._first
        return 1 if self._epochs and not place.epochs else None

    def _goes_on(self, count: int, of: int) -> bool:
        """Whether a count told with epochs does not begin again in each: by what it did when the epoch changed."""
        if self._epoch is None:
            return False
        if self._last is not None and self._epoch > self._last[0]:
            self._is_within = count < self._last[1] or self._last[1] >= of
        self._last = (self._epoch, count)
        return self._is_within is False

    def _bar(self, place: Place, found: Dict[str, float]) -> Dict[str, Any]:
        title, step, total = place.title, place.step or 0, place.total
        unit = bars.unit_of(place.rate)
        if place.epoch is not None:
            return {} if bars.EVALUATION.search(title) else self._epoch_bar(place)
        if re.search(r"\bepochs?\b", title, re.I) and not bars.OTHER.search(title) or unit in ("epoch", "epochs"):
            self._has_epoch_bar = True
            return {**self._at(step, total, "epoch"), "epoch": step}
        rank = bars.rank(title, place.rate)
        if self._has_epoch_bar or rank < 0:
            return {}
        if total is None:
            return self._at(step, None) if rank > 0 else {}
        has_loss = any(map(numbers.is_of_training, found))
        verdict = self._bars.move(title, rank, step, total, has_loss)
        if verdict == bars.IGNORED:
            return {}
        if not self._has_own_epochs:
            self._has_bar_before = True
        if self._has_own_epochs and not self._has_bar_before and not _WHOLE.search(title):
            return self._within(step, total, self._base(place))
        is_planned = self._plan.get("epochs", 1) > 1 and (has_loss or rank == 2) and not _WHOLE.search(title)
        # a loop over one epoch, or over all?
        return dict(NOWHERE) if verdict == bars.UNSURE or is_planned else self._at(step, total)

    def _epoch_bar(self, place: Place) -> Dict[str, Any]:
        """A bar whose title names the epoch."""
        is_lightning = self._is_lightning or "v_num=" in place.more
        if place.total is None:
            return self._at(place.step or 0, None) if self._epoch == 0 else self._only_epoch()
        if _OLD_LIGHTNING.search(place.more):
            return self._only_epoch()
        return self._within(place.step or 0, place.total, 0 if is_lightning else self._base(place))

    def _within(self, step: int, of: int, base: int | None, unit: str = "") -> Dict[str, Any]:
        """A count within an epoch, as one of the whole training."""
        base = 0 if self._is_from_0 else base
        if base is None or self._epoch is None:
            return self._only_epoch()
        epochs = self._epochs or self._plan.get("epochs")
        return self._at(max(0, self._epoch - base) * of + step, epochs * of if epochs else None, unit)

    def _at(self, step: int, total: int | None, unit: str = "") -> Dict[str, Any]:
        self._has_steps = self._has_steps or unit != "epoch"
        planned = self._plan.get("steps") if not unit else None
        if planned and step <= planned:
            total = min(total, planned) if total else planned
        out: Dict[str, Any] = {"step": step, "total": total if total and step <= total else None, "unit": unit or None}
        return dict(out, epoch=self._epoch) if self._epoch is not None else out

    def _by_epochs(self, is_sure: bool) -> Dict[str, Any]:
        """If only epochs are counted, they are the steps."""
        if self._epoch is None:
            return {}
        if self._has_steps or not is_sure:
            return {"epoch": self._epoch}
        return self._at(self._epoch, self._epochs or self._plan.get("epochs"), "epoch")

    def _only_epoch(self) -> Dict[str, Any]:
        return dict(NOWHERE, epoch=self._epoch) if self._epoch is not None else {}
