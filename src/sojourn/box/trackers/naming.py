"""Which of a tracker's numbers give the place in a training, and which are its metrics."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, Mapping, Tuple

# Last words of names, best first: Hugging Face, Lightning, Ray, stable-baselines3, LLaMA-Factory, detectron2, MMEngine.
_STEPS = (
    "global_step step steps iteration iter iters current_steps num_updates total_timesteps timesteps_total"
    " training_iteration"
).split()
_TOTALS = "max_steps total_steps max_iters total_iters num_training_steps".split()
_EPOCHS = ("epoch",)
_COUNTS = frozenset(
    "timestamp time eta wall_time elapsed elapsed_time remaining_time percentage hp_metric".split()  # a placeholder
    + [*_STEPS, *_TOTALS, *_EPOCHS]
)
_NAME_CHARS = 60
_MOST = 200


def place(numbers: Mapping[str, float], metrics: Mapping[str, float] | None = None) -> Dict[str, Any]:
    """{"step","total","epoch","metrics"} from numbers by name, as far as they say.

    If only epochs are counted, they are the steps. `metrics`: what else is known; newer numbers win.
    """
    words = {name: last_word(name) for name in numbers}
    found: Dict[str, Any] = {}
    for key, known in (("step", _STEPS), ("total", _TOTALS), ("epoch", _EPOCHS)):
        named = sorted((known.index(word), name) for name, word in words.items() if word in known)
        value = numbers[named[0][1]] if named else -1
        if value > 0 or (value == 0 and key != "total"):
            found[key] = int(value)
    if "epoch" in found and "step" not in found:
        found["step"] = found["epoch"]
    found["metrics"] = latest(
        metrics or {}, ((name, numbers[name]) for name, word in words.items() if name[:1] != "_" and _is_metric(word))
    )
    return found


def latest(before: Mapping[str, float], pairs: Iterable[Tuple[str, float]]) -> Dict[str, float]:
    """`before` updated with newer values, in order; the newest of them."""
    out = dict(before)
    for name, value in pairs:
        out.pop(name, None)
        if name and len(name) <= _NAME_CHARS:
            out[name] = value
    return dict(list(out.items())[-_MOST:])


def added(metrics: Mapping[str, float], more: Mapping[str, float]) -> Dict[str, float]:
    """`metrics`, and those of `more` not in it under another spelling."""
    known = {plain(name) for name in metrics}
    return dict(metrics, **{name: value for name, value in more.items() if plain(name) not in known})


def plain(name: str) -> str:
    """The same for "train/loss", "train_loss" and "loss"; different for "eval/loss"."""
    word = name.lower().replace("/", "_").replace(".", "_").replace(" ", "_")
    while word.startswith("train_"):
        word = word[len("train_") :]
    return word


def _is_metric(word: str) -> bool:
    return word not in _COUNTS and not word.endswith(("runtime", "flos"))


def last_word(name: str) -> str:
    """`global_step` for "train/global_step"."""
    return name.strip().lower().rpartition("/")[2].lstrip("_")


def number(value: Any) -> float | None:
    """A finite number, including one written as text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if found == found and abs(found) < 1e300 else None
