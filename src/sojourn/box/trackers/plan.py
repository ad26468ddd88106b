"""How long a training is to be, by its command line and by what its log says at the start."""

from __future__ import annotations

import re
import shlex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Sequence

_EPOCHS = frozenset("epochs num_epochs n_epochs max_epochs nb_epochs total_epochs num_train_epochs".split())
_STEPS = frozenset(
    "max_steps max_iters max_iter max_train_steps total_timesteps total_steps train_iters train_steps num_train_steps"
    " num_iterations num_iters num_learning_iterations max_update max_updates iterations iters steps".split()
)
_FLAG = re.compile(r"(?:--|\+{0,2})(?P<name>[A-Za-z_][\w./-]*)(?:=(?P<value>.*))?$")
_SAID = (
    ("epochs", re.compile(r"\bScheduled epochs: (\d+)\b")),  # timm, with its cool-down
    ("epochs", re.compile(r"\bworkflow: .*, max: (\d+) epochs\b")),  # mmcv
    ("epochs", re.compile(r"\btrain_cfg = dict\(.*\bmax_epochs=(\d+)\b")),  # MMEngine
    ("steps", re.compile(r"^Starting training\.\.\., iters: (\d+)")),  # MLX
    ("steps", re.compile(r"\bTotal optimization steps = ([\d,]+)")),  # Hugging Face
)


def of_command(argv: Sequence[str]) -> Dict[str, int]:
    """{"epochs", "steps"} as far as the words say. A name that is given two values says nothing."""
    words = [str(word) for word in argv]
    if len(words) >= 3 and words[0].endswith("sh") and "-c" in words[:-1]:
        try:
            words = shlex.split(words[words.index("-c") + 1], comments=True)
        except ValueError:
            return {}
    found: Dict[str, set[int]] = {}
    for place, word in enumerate(words):
        flag = _FLAG.match(word)
        if not flag or not (word.startswith("--") or flag.group("value") is not None):
            if word.isupper() and word.endswith("MAX_ITER"):  # detectron2: SOLVER.MAX_ITER 9000
                _add(found, "steps", words[place + 1 : place + 2])
            continue
        name = re.split(r"[./]", flag.group("name").replace("-", "_").lower())[-1]
        kind = "epochs" if name in _EPOCHS else "steps" if name in _STEPS else ""
        if kind:
            _add(
                found, kind, [flag.group("value")] if flag.group("value") is not None else words[place + 1 : place + 2]
            )
    return {kind: values.pop() for kind, values in found.items() if len(values) == 1}


def of_line(line: str) -> Dict[str, int]:
    """The same, as a line of the log says it."""
    return {kind: int(hit.group(1).replace(",", "")) for kind, form in _SAID for hit in [form.search(line)] if hit}


def _add(found: Dict[str, set[int]], kind: str, values: Sequence[str | None]) -> None:
    for value in values:
        try:
            number = float((value or "").strip().rstrip(";").replace("_", "").replace(",", ""))
        except ValueError:
            return
        if number >= 1 and number == int(number):
            found.setdefault(kind, set()).add(int(number))
