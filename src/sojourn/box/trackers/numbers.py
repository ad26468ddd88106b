"""The metrics that a line of a log names, and those of the tables whose head names them: Ultralytics and fastai."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

MOST = 20
NUMBER = r"[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
METRIC = re.compile(
    r"loss|acc|^lr$|learning_rate|f1|auc|bleu|rouge|perplexity|^ppl$|psnr|ssim|map|iou|score|err|grad.?norm|rew|return"
    r"|samples|tokens|throughput|bpb",
    re.I,
)
_NOT_METRIC = re.compile(r"runtime|scale|consumed|number|skipped", re.I)
_NAME_CHARS = 40
_SENTENCE = re.compile(r"(?:^| )(?:step|epoch|at|from|to|improved|is|the|after)(?: |$)")  # words, no name
# A number before "/", `of`, is part of a count: "Accuracy: 9860/10000".
_PAIR = re.compile(
    r"'?(?P<name>[A-Za-z][\w./ -]*?)'?(?: *[:=] *| +)['\"]?(?P<value>" + NUMBER + r"|nan|-?inf)\b(?P<of> */ *\d+)?"
)
_PARTS = re.compile(r" - |[,|\t\[\]{}]|/step|(?<=\d)(?:it|ba|batch|s)s?/(?:s|it)\b")
_ROW = re.compile(r"^\| +(?P<name>[A-Za-z][\w/ ]*?) +\| +(?P<value>" + NUMBER + r") +\|$")
_DATA = re.compile(r"train|val|eval|test|dev", re.I)

_YOLO_HEAD = re.compile(r"^ +Epoch +gpu_mem +(?P<names>.+)$", re.I)
_YOLO_ROW = re.compile(r"^ +(?P<epoch>\d+)/(?P<epochs>\d+) +[\d.]+[GM]B? +(?P<values>[^:]*)")
_YOLO_NAMES = {"box": "box_loss", "obj": "obj_loss", "cls": "cls_loss", "total": "loss"}
_FASTAI_HEAD = re.compile(r"^epoch +train_loss +(?P<names>.*\btime)\s*$")
_FASTAI_ROW = re.compile(r"^(?P<epoch>\d+) +(?P<values>[\d.nan ]+?) +\d+:\d\d(?::\d\d)?\s*$")


def metrics(line: str, is_evaluation: bool) -> Dict[str, float]:
    """The metrics in a line, by name. A loss that an evaluation tells is told as one, so it is not taken for the
    training's.
    """
    found: Dict[str, float] = {}
    row = _ROW.match(line)
    hits = [row] if row else [hit for part in _PARTS.split(line) for hit in _PAIR.finditer(part)]
    for hit in hits:
        name = re.sub(r"\W+$", "", hit.group("name").strip(" -").lower()).replace(" ", "_")
        value = number(hit.group("value"))
        if hit.groupdict().get("of") or _SENTENCE.search(hit.group("name")):
            continue
        if value is not None and len(name) <= _NAME_CHARS and METRIC.search(name) and not _NOT_METRIC.search(name):
            if is_evaluation and "loss" in name and not _DATA.search(name):
                name = "val_" + re.sub(r"^(?:average|avg|mean)_", "", name)
            found[name] = value
    return found


def is_of_training(name: str) -> bool:
    """Whether a metric is a loss, and not one of an evaluation."""
    return "loss" in name and not re.search(r"val|eval|test|dev", name, re.I)


def number(text: str) -> float | None:
    """A finite number, or None."""
    try:
        value = float(text.replace(",", ""))
    except (ValueError, AttributeError):
        return None
    return value if value == value and abs(value) != float("inf") else None


def merged(before: Dict[str, float], new: Dict[str, float]) -> Dict[str, float]:
    """`before` with newer values, the newest last."""
    return dict({name: value for name, value in before.items() if name not in new}, **new)


def chosen(metrics: Dict[str, float]) -> Dict[str, float]:
    """At most MOST: first the losses of the training, then those named like metrics; the newest of them."""
    if len(metrics) <= MOST:
        return dict(metrics)
    newest = list(metrics)[::-1]
    ranked = sorted(newest, key=lambda one: (not is_of_training(one), not METRIC.search(one)))[:MOST]
    return {name: value for name, value in metrics.items() if name in ranked}


class Tables:
    """Reads rows below a head. Ultralytics' tell an epoch of how many; yolov5's and 7's count from 0 to the last."""

    def __init__(self) -> None:
        self._yolo: List[str] = []
        self._fastai: List[str] = []

    def row(self, line: str) -> Tuple[Dict[str, Any], Dict[str, float]] | None:
        """({"epoch", "epochs"}, metrics) of a row; None for any other line, a head among them."""
        head = _YOLO_HEAD.match(line)
        if head:
            self._yolo = [_YOLO_NAMES.get(name.lower(), name) for name in head.group("names").split()]
            return None
        head = _FASTAI_HEAD.match(line)
        if head:
            self._fastai = ["train_loss", *head.group("names").split()]
            return None
        hit = _YOLO_ROW.match(line)
        if hit:
            epochs = int(hit.group("epochs")) + ("obj_loss" in self._yolo)
            return {"epoch": int(hit.group("epoch")), "epochs": epochs}, _named(self._yolo, hit.group("values"))
        hit = _FASTAI_ROW.match(line) if self._fastai else None
        if hit:
            return {"epoch": int(hit.group("epoch"))}, _named(self._fastai, hit.group("values"))
        return None


def _named(names: List[str], values: str) -> Dict[str, float]:
    numbers = ((name, number(text)) for name, text in zip(names, values.split()))
    return {name: value for name, value in numbers if value is not None and METRIC.search(name)}
