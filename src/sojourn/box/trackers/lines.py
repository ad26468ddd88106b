"""Where a training is, by one line of its log: the usual forms of trainers. What only several lines tell is for the
reader of the log.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, Tuple

_E, _W, _S = r"(?P<epoch>\d+)", r" *(?P<within>\d+) */ *(?P<of>\d+)", r"(?P<step>\d[\d,]*)"
_OF_E, _OF_S = r" *(?:/|of) *(?P<epochs>\d+)", r" *(?:/|of|out of) *(?P<total>\d[\d,]*)"

# What launchers and loggers put before a line: whose it is, then when, how loud, by which logger.
_SPEAKER = re.compile(
    r"\s*(?:\([\w.:]+ (?P<pid>pid=\d+)(?:, ip=[\w.:]+)?\)|\[\d+,(?P<mpi>\d+)\]<std(?:out|err)>:"
    r"|\[(?:rank|default|worker)[ :_-]*(?P<rank>\d+)\]:?|(?:rank|worker)[ _-]?(?P<named>\d+):(?=\s)"
    r"|(?P<task>\d{1,4}):(?= ))\s*",
    re.I,
)
_HEAD = re.compile(
    r"\s*(?:\[?\d{4}[-/]\d\d[-/]\d\d[ T]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?"
    r"|\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?"
    r"|\[\d\d/\d\d \d\d:\d\d:\d\d[^\]]*\]|[IWE]\d{4} \d\d:\d\d:\d\d[.\d]* +\d+ [\w./]+:\d+\]"
    r"|\[?(?:INFO|DEBUG|WARNING|NOTICE)\]?(?=[\s:|-])|\[(?!train|eval|test|val)[\w./-]*[a-z_][\w./-]*(?::\d+)?(?::\w+)?\]"
    r"|(?!train|eval|test|val)[a-z_][\w.]*(?= - | \| ))[\s:|,-]*"
)
_HEADS = 8
EVALUATION = re.compile(
    r"^\W*(?:test|val|valid|validation|validating|eval|evaluation|evaluating|dev)\b(?!\w)|\b(?:Epoch|Iter)\((?:val|test)\)",
    re.I,
)
# Forms that name their numbers. The number: what the first epoch is called, if the form tells. The word: what they
# count.
_FORMS: Tuple[Tuple[Any, int | None, str], ...] = tuple(
    (re.compile(text), base, unit)
    for text, base, unit in (
        (rf"\bTrain Epoch: *{_E} *\[{_W} \([^)]*\)\] +(?:Data \(t\)|Loss \()", 0, "sample"),  # open_clip
        (rf"\bTrain(?:ing)? Epoch: *{_E} *\[{_W}\b", 1, "sample"),  # PyTorch's MNIST
        (rf"\bEpoch\(train\) *\[{_E}\]\[{_W}\]", 1, ""),  # MMEngine by epochs
        (rf"\bEpoch \[{_E}\]\[{_W}\]", 1, ""),  # mmcv
        (rf"\bEpoch: *\[{_E}\] *\[{_W}\]", 0, ""),  # torchvision, PyTorch's ImageNet, DETR
        (rf"\bTrain: *\[{_E}/(?P<epochs>\d+)\]\[{_W}\]", 0, ""),  # Swin
        (rf"\bTrain: *\[{_E}\]\[{_W}\]", None, ""),
        (rf"\bTrain: *{_E} *\[{_W} *\(", 0, ""),  # timm
        (rf"\bepoch +{_E} *\|{_W} batches", 1, ""),  # PyTorch's word_language_model
        (rf"^\[{_E}/(?P<epochs>\d+)\] *\[{_W}\].*Loss_D", 0, ""),  # PyTorch's DCGAN
        (rf"^\[(?:Epoch )?{_E}/(?P<epochs>\d+)\] *\[(?:Batch )?{_W}\]", None, ""),
        (rf"\bEpoch {_E} *\| *iter \d+ step {_S}\b", 1, ""),  # LitGPT
        (rf"^{_E}\|{_S}\|Loss: ", 1, ""),  # torchtune
        (rf"\bglobal_step/max_steps['\"]?: *['\"]?{_S}/(?P<total>\d+)", None, ""),  # ms-swift
        (rf"\bIter\(train\) *\[ *{_S}/(?P<total>\d+)\]", None, ""),  # MMEngine by iterations
        (rf"\bnum_updates['\"]?[=:] *['\"]?{_S}\b", None, ""),  # fairseq
        (rf"^\| +total_timesteps +\| +{_S} ", None, ""),  # stable-baselines3
        (rf"\bLearning iteration {_S}(?:{_OF_S})?\b", None, ""),  # rsl_rl
        (rf"^\[batch={_S}/(?P<total>\d+)\]", None, ""),  # Composer
        (rf"(?i:\bglobal[_ ]?step)['\"]?[:= ]+['\"]?{_S}\b(?!\.[1-9]|/)", None, ""),
        (rf"^\[ *{_S}\]\s+[\w'. -]*[a-z][\w'. -]*[:=] *[-\d]", None, ""),  # XGBoost, LightGBM
    )
)
# Epochs of Lightning count from 0, and its bar names the last one.
_RICH = re.compile(rf"\bEpoch {_E}/(?P<last>-?\d+) +[\u2501\u2578\u257a ]+{_W} +\d+:\d\d")
_RICH_BAR = re.compile(r"[\u2501\u2578\u257a]{4,} *\d+/\d+ +\d+:\d\d")
# "  12%|#2   | 120/1000 [00:10<01:14, 11.8it/s, loss=0.3]", also with "?" for the total.
_BAR = re.compile(
    r"(?P<step>\d+)/(?P<total>\d+|\?) \[(?:\d+:)?\d+:\d\d<[^,\]]*(?:, *(?P<rate>[^,\]]*))?(?P<more>[^\]]*)"
)
_KERAS = re.compile(r"^ *(?P<step>\d+)/(?P<total>\d+) (?:\[[=>.]+\]|[\u2501\u2578\u257a]+|- \d+m?s\b)")
_EPOCH_OF = re.compile(rf"\bepochs?\b['\"]?:? *[\[(=]? *{_E}{_OF_E}\b", re.I)
_EPOCH = re.compile(rf"(?<![\w-])epoch\b['\"]?[:=# ]*\[? *{_E}\b(?!\.\d| *(?:s|sec|min|epochs)\b)", re.I)
_OTHER_EPOCH = re.compile(
    r"\b(?:best|previous|last|until|since|every|per|sav\w*|load\w*|restor\w*|total)\b.*\bepoch", re.I
)
_STEP_OF = re.compile(
    rf"(?P<word>[A-Za-z]+[ _-]+)?\b(?P<what>steps?|iter(?:ation)?s?|it|batch|update)\b['\"]?[:=# ]*[\[(]? *{_S}{_OF_S}",
    re.I,
)
_STEPS = re.compile(rf"^(?:steps|iters): {_S} loss: ")  # DeepSpeed
_STEP = re.compile(
    rf"(?P<word>[A-Za-z]+[ _-]+)?\b(?P<what>step|iter|iteration|update)\b['\"]?[:=# ]+\[? *{_S}\b(?!\.?\d|[/%])",
    re.I,
)
# Words before a step that make it another number.
_PLANNED = re.compile(
    r"^(?:warm ?up|fps|max|min|total|num|n|per|every|sav\w*|eval\w*|log\w*|accumulation|optimi[sz]ation|best|decay|time"
    r"|test|val\w*)\b",
    re.I,
)
_HEADING = re.compile(r"^\W*(?:step|stage|phase) *\d+(?: *(?:/|of) *\d+)? *(?:[:.)-]|\u2013|\u2014) *[A-Za-z]", re.I)
_COUNTED = re.compile(r"\d+ */ *\d+")


class Place:
    """`step` of `total` count from the start of the training, `within` of `of` from the start of its epoch.

    `base`: what the first epoch is called, None if the line does not tell. `unit`: "" for steps, "sample", "epoch".
    `title`, `rate`, `more`: of a bar (`is_bar`). `is_counted`: by a line of words. `is_sure`: the line alone says that
    it is a step of the training.
    """

    def __init__(self, **told: Any) -> None:
        self.epoch: int | None = None
        self.epochs: int | None = None
        self.base: int | None = None
        self.step: int | None = None
        self.total: int | None = None
        self.within: int | None = None
        self.of: int | None = None
        self.unit = ""
        self.title = self.rate = self.more = ""
        self.is_bar = self.is_keras = self.is_batch = self.is_counted = False
        self.is_sure = True
        vars(self).update(told)


def heard(line: str) -> Tuple[str, str]:
    """(whose line it is among ranks and workers, or ""; the line without what stands before it)."""
    hit = _SPEAKER.match(line)
    speaker = ""
    if hit:
        speaker = hit.group("pid") or next(hit.group(n) for n in ("rank", "named", "task", "mpi") if hit.group(n))
        line = line[hit.end() :]
    for _ in range(_HEADS):
        head = _HEAD.match(line)
        if not head:
            break
        line = line[head.end() :]
    return speaker, line


def place(line: str, has_metric: bool) -> Place | None:
    """What the line (without what stands before it) says; None for nothing. `has_metric`: it names a metric, too."""
    for form, base, unit in _FORMS:
        hit = form.search(line)
        if hit:
            found = Place(base=base, unit=unit, **_numbers(hit))
            bar = _BAR.search(line)
            if found.step is not None and bar and bar.group("total") != "?" and found.epoch is not None:
                found.of = int(bar.group("total"))  # torchtune: of the epoch
            elif found.epoch is None:
                vars(found).update(_epoch(line), base=base)
            return found
    rich = _RICH.search(line)
    if rich:
        last = int(rich.group("last"))
        return Place(base=0, epochs=last + 1 if last >= 0 else None, **_numbers(rich))
    if _RICH_BAR.search(line):
        return None
    told = _epoch(line)
    bar = _BAR.search(line)
    if bar:
        title = line[: bar.start()].rpartition("%|")[0].rpartition(":")[0]
        total = None if bar.group("total") == "?" else int(bar.group("total"))
        more = {name: bar.group(name) or "" for name in ("rate", "more")}
        return Place(
            is_bar=True,
            title=title if total else _title(line),
            step=int(bar.group("step")),
            total=total,
            **more,
            **told,
        )
    keras = _KERAS.match(line)
    if keras:
        return Place(is_keras=True, within=int(keras.group("step")), of=int(keras.group("total")))
    return _counted(line, told, has_metric)


def _counted(line: str, told: Dict[str, Any], has_metric: bool) -> Place | None:
    """A line of words: "Epoch 3/10, step 100/600", "iter 100: loss 2.3", "epoch 3"."""
    if _HEADING.match(line) and not has_metric:
        return None
    for form in (_STEP_OF, _STEPS, _STEP):
        hit = form.search(line)
        if not hit or _PLANNED.match(hit.groupdict().get("word") or ""):
            continue
        found = _numbers(hit)
        is_batch = (hit.groupdict().get("what") or "").lower() == "batch"
        if "total" in found and told:
            return Place(is_counted=True, within=found["step"], of=found["total"], **told)
        return Place(is_sure=has_metric or "total" in found, is_batch=is_batch, **found, **told)
    if not told:
        return None
    # Beside a count that is not understood, an epoch is no place to count by.
    rest = _EPOCH_OF.sub("", line)
    return Place(unit="epoch", is_sure=not _COUNTED.search(rest), **told)


def _epoch(line: str) -> Dict[str, Any]:
    if _OTHER_EPOCH.search(line):
        return {}
    hit = _EPOCH_OF.search(line) or _EPOCH.search(line)
    found = _numbers(hit) if hit else {}
    return dict(found, base=1) if "epochs" in found else found


def _title(line: str) -> str:
    """The title of a bar that has no total: "Training: |          | 101/? ["."""
    return line.partition("|")[0].rstrip().rstrip(":") if "|" in line else ""


def _numbers(hit: Any) -> Dict[str, Any]:
    return dict(_pairs(hit))


def _pairs(hit: Any) -> Iterator[Tuple[str, int]]:
    for name, text in hit.groupdict().items():
        if text and name in ("epoch", "epochs", "step", "total", "within", "of"):
            yield name, int(text.replace(",", ""))
