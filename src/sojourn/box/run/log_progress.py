"""Progress from the usual lines of a training log, for scripts that report none: step, total, epoch, metrics.

Bars (tqdm, Keras, Lightning, Ultralytics), the dicts of the Hugging Face Trainer, nanoGPT, "Epoch [3/10]", the lines of
torchvision, timm, MMEngine, Megatron and DeepSpeed, or whatever the job's `progress: {pattern}` matches. The newest
line wins.
"""

from __future__ import annotations

import os
import re
import time

from sojourn.box.run.ledger import complain
from sojourn.box.system import bounded
from sojourn.wire import units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

_MOST_BYTES = 64 << 10  # of new text per look: the newest
_LINE_CHARS = 1000
_PATTERN_S = 2.0
METRICS = 20
_NAME_CHARS = 40
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x08")
_NUMBER = r"[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"

# A bar: "  12%|#2   | 120/1000 [00:10<01:14, 11.8it/s, loss=0.3]", also with "?" for the total.
_BAR = re.compile(r"(?P<step>\d+)/(?P<total>\d+|\?) \[(?:\d+:)?\d+:\d\d<")
# Bars that count something other than training steps.
_OTHER = re.compile(
    r"download|fetch|load|map|filter|generat|token|shard|writ|extract|upload|valid|eval|test|sanity|predict|sampl"
    r"|resolv|compil|captur|prepar|cach|scan|convert|process",
    re.I,
)
_WITHIN_EPOCH = re.compile(r"valid|\bval\b|eval|\btest", re.I)
_KERAS = re.compile(r"^ *(?P<step>\d+)/(?P<total>\d+) (?:\[[=>.]+\]|[\u2501\u2578\u257a]+)")
_EPOCHS = (
    re.compile(r"\bepochs?:? *[\[(]? *(?P<epoch>\d+) */ *(?P<epochs>\d+)", re.I),  # Epoch [3/10], Epoch 3/10
    re.compile(r"\bepoch:? *\[? *(?P<epoch>\d+)\b", re.I),  # Epoch: [3], Epoch 3
)
_ULTRALYTICS = re.compile(r"^ +(?P<epoch>\d+)/(?P<epochs>\d+) +[\d.]+[GM]B? ")
_STEPS = (
    re.compile(
        r"\b(?:step|steps|iter|iteration|iters|it|batch)s?\b[:= ]*[\[(]? *(?P<step>\d+) */ *(?P<total>\d+)", re.I
    ),
    re.compile(r"\b(?:step|global[_ ]step|iter|iteration|iters)s?\b[:= ]+\[? *(?P<step>\d+)\b(?!\.\d)", re.I),
    re.compile(r"\bIter\(train\) *\[ *(?P<step>\d+)/(?P<total>\d+)\]"),  # MMEngine by iterations
)
_WITHIN = (  # the step within an epoch
    re.compile(r"\bEpoch\(train\) *\[(?P<epoch>\d+)\]\[ *(?P<step>\d+)/(?P<total>\d+)\]"),  # MMEngine by epochs
    re.compile(r"^Epoch: *\[(?P<epoch>\d+)\] *\[ *(?P<step>\d+)/(?P<total>\d+)\]"),  # torchvision
    re.compile(r"^Train: *(?P<epoch>\d+) *\[ *(?P<step>\d+)/(?P<total>\d+)"),  # timm
    re.compile(r"^Train Epoch: *(?P<epoch>\d+) *\[(?P<step>\d+)/(?P<total>\d+) "),  # PyTorch's MNIST
)
_DICT = re.compile(r"^\{'[\w/]+': .*'epoch': ")
_PAIR = re.compile(r"'?(?P<name>[A-Za-z][\w./ -]*?)'?(?: *[:=] *| +)'?(?P<value>" + _NUMBER + r"|nan|-?inf)\b")
_PARTS = re.compile(r" - |[,|\t\[\]{}]|/step")
METRIC = re.compile(
    r"loss|acc|^lr$|learning_rate|f1|auc|bleu|rouge|perplexity|^ppl$|psnr|ssim|map|iou|score|err|grad.?norm|reward"
    r"|samples|tokens|throughput",
    re.I,
)
_NOT_METRIC = re.compile(r"runtime|scale|consumed|number|skipped", re.I)


class LogProgress:
    """The latest values in one attempt's log. `pattern`: the job's own, with groups such as `step`, `total`, `loss`."""

    def __init__(self, path: str, pattern: str = "") -> None:
        self.path = path
        self.value: Dict[str, Any] | None = None
        self._pattern = _compiled(pattern)
        self._offset = 0
        self._rest = b""
        self._epoch: Dict[str, int] = {}  # epoch and epochs, from the last line with them
        self._has_steps = False  # then a line with only an epoch says less
        self._most = 0  # the largest total of a bar without a title: the training's, not an evaluation's

    def look(self) -> bool:
        """Read what is new in the log; True if `value` is new."""
        found: Dict[str, Any] = {}
        lines = self._lines()
        for one in self._by_pattern(lines) if self._pattern else map(self._usual, lines):
            metrics = dict(found.get("metrics") or {}, **one.pop("metrics", {}))
            found.update(one)
            if metrics:
                found["metrics"] = dict(list(metrics.items())[-METRICS:])
        if not found:
            return False
        before = dict(self.value or {})
        before.pop("at", None)
        now = dict(before, **found)
        now["metrics"] = dict(before.get("metrics") or {}, **found.get("metrics", {}))
        if now == before:
            return False
        self.value = dict(now, at=units.stamp(time.time()), source="log")
        return True

    def head(self) -> List[str]:
        """The lines at the start of the log."""
        try:
            with open(self.path, "rb", buffering=0) as f:
                return _texts(re.split(rb"[\r\n]+", f.read(_MOST_BYTES)))
        except OSError:
            return []

    def step_of(self, line: str) -> int | None:
        """The step that a line reports, given those requested before it."""
        step = self._usual(line).get("step")
        return step if isinstance(step, int) else None

    def _lines(self) -> List[str]:
        """The new lines, with each redrawing of a bar as one."""
        try:
            with open(self.path, "rb", buffering=0) as f:
                size = os.fstat(f.fileno()).st_size
                if size < self._offset:
                    self._offset, self._rest = 0, b""  # it was rotated
                if size - self._offset > _MOST_BYTES:
                    self._offset, self._rest = size - _MOST_BYTES, b""
                f.seek(self._offset)
                data = f.read(_MOST_BYTES)
        except OSError:
            return []
        self._offset += len(data)
        *whole, self._rest = re.split(rb"[\r\n]+", self._rest + data)
        self._rest = self._rest[-_LINE_CHARS:]
        # A bar has no line end yet; reading it twice gives the same result.
        return _texts([*whole, self._rest] if data else whole)

    def _by_pattern(self, lines: List[str]) -> List[Dict[str, Any]]:
        """The matches of the job's own pattern, found in a child: a regular expression may run for ever."""
        if not lines:
            return []
        try:
            question = bounded.Question("progress", lambda: [self._own(line) for line in lines], _PATTERN_S)
            answer = bounded.ask([question])["progress"]
        except OSError as error:
            complain("progress.pattern: %s" % error)
            return []
        if answer.why:
            complain("progress.pattern is no longer used: %s" % (answer.detail or answer.why))
            self._pattern = None
            return []
        return answer.value or []

    def _own(self, line: str) -> Dict[str, Any]:
        assert self._pattern is not None
        hit = self._pattern.search(line)
        found: Dict[str, Any] = {}
        for name, text in (hit.groupdict() if hit else {}).items():
            number = _number(text)
            if number is None:
                continue
            if name in ("step", "total", "epoch"):
                found[name] = int(number)
            else:
                found.setdefault("metrics", {})[name] = number
        return found

    def _usual(self, line: str) -> Dict[str, Any]:
        found = self._place(line)
        metrics = _metrics(line) if found or _DICT.match(line) or self._epoch or self.value else {}
        if _DICT.match(line):
            epoch = re.search(r"'epoch': '?(" + _NUMBER + ")", line)
            if epoch:  # part of one: if its bar is off, nothing else counts
                found["epoch"] = int(float(epoch.group(1)))
                metrics["epoch"] = float(epoch.group(1))
        if metrics:
            found["metrics"] = metrics
        return found

    def _place(self, line: str) -> Dict[str, Any]:
        """step, total and epoch of a line, as far as it has them."""
        ultralytics = _ULTRALYTICS.match(line)
        if ultralytics:
            return self._by_epochs(ultralytics)
        for form in _WITHIN:
            hit = form.search(line.strip())
            if hit:
                self._note_epoch(hit)
                return self._within(int(hit.group("step")), int(hit.group("total")))
        told = next((hit for form in _EPOCHS for hit in [form.search(line)] if hit), None)
        if told:
            self._note_epoch(told)
        bar = _BAR.search(line)
        if bar:
            return self._bar(line, bar, told)
        keras = _KERAS.match(line)
        if keras:
            return self._within(int(keras.group("step")), int(keras.group("total")))
        for form in _STEPS:
            hit = form.search(line)
            if hit:
                step, total = int(hit.group("step")), hit.groupdict().get("total")
                self._has_steps = True
                if told and total:
                    return self._within(step, int(total))
                return {"step": step, **({"total": int(total)} if total else {}), **self._told_epoch()}
        if told and told.groupdict().get("epochs") and not self._has_steps:
            return self._by_epochs(told)
        if told and not self._has_steps:
            return {"step": self._epoch["epoch"], **self._told_epoch()}
        return self._told_epoch() if told else {}

    def _bar(self, line: str, bar: Any, told: Any) -> Dict[str, Any]:
        title = line[: bar.start()].rpartition("%|")[0].rpartition(":")[0]
        if title and (_WITHIN_EPOCH if told else _OTHER).search(title):
            return {}
        self._has_steps = True
        step, total = int(bar.group("step")), bar.group("total")
        if total == "?":
            return {"step": step, **self._told_epoch()}
        if told:
            return self._within(step, int(total))
        if re.search(r"epoch", title, re.I):
            return {"step": step, "total": int(total)}
        if int(total) < self._most:
            return {}  # an evaluation within the training
        self._most = int(total)
        return {"step": step, "total": int(total)}

    def _note_epoch(self, hit: Any) -> None:
        self._epoch = {
            name: int(text) for name, text in hit.groupdict().items() if name in ("epoch", "epochs") and text
        }

    def _told_epoch(self) -> Dict[str, int]:
        return {"epoch": self._epoch["epoch"]} if "epoch" in self._epoch else {}

    def _by_epochs(self, hit: Any) -> Dict[str, Any]:
        """If only epochs are counted, they are the steps."""
        self._note_epoch(hit)
        return {"step": self._epoch["epoch"], "total": self._epoch["epochs"], "epoch": self._epoch["epoch"]}

    def _within(self, step: int, total: int) -> Dict[str, Any]:
        """A step within an epoch, as one of the whole training if the epochs are known; these then count from 1."""
        self._has_steps = True
        epoch, epochs = self._epoch.get("epoch"), self._epoch.get("epochs")
        if epoch is None:
            return {"step": step, "total": total}
        done = epoch - 1 if epochs else epoch
        found = {"step": max(0, done) * total + step, "epoch": epoch}
        if epochs:
            found["total"] = epochs * total
        return found


def first_steps(path: str) -> Tuple[int, ...]:
    """The first two different steps at the head of a log; fewer if it has fewer. Raises: nothing."""
    progress = LogProgress(path)
    found: List[int] = []
    for line in progress.head():
        step = progress.step_of(line)
        if step is not None and step not in found:
            found.append(step)
            if len(found) == 2:
                break
    return tuple(found)


def _compiled(pattern: str) -> Any:
    """None for no pattern, and for one that this box's older Python cannot read: then the usual forms count."""
    try:
        return re.compile(pattern) if pattern else None
    except re.error as error:
        complain("progress.pattern: %s" % error)
        return None


def _texts(parts: List[bytes]) -> List[str]:
    return [_ANSI.sub("", part[:_LINE_CHARS].decode("utf-8", "replace")).rstrip() for part in parts if part]


def _metrics(line: str) -> Dict[str, float]:
    """The metrics in a line, by name."""
    found: Dict[str, float] = {}
    for hit in (hit for part in _PARTS.split(line) for hit in _PAIR.finditer(part)):
        name = hit.group("name").strip(" -").lower().replace(" ", "_")
        number = _number(hit.group("value"))
        if number is not None and len(name) <= _NAME_CHARS and METRIC.search(name) and not _NOT_METRIC.search(name):
            found[name] = number
    return found


def _number(text: str) -> float | None:
    try:
        value = float(text.replace(",", ""))
    except (ValueError, AttributeError):
        return None
    return value if value == value and abs(value) != float("inf") else None
