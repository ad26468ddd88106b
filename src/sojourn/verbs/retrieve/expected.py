"""What an artifact should hold, if known: keys that a layout requires, the step that a run reached."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sojourn.core.artifact import Artifact

_WHOLE = 256  # keys that a loader lists; of a longer list nothing is said about what is not in it


def lacking_keys(facts: Mapping[str, Any], wanted: Sequence[str]) -> tuple[list[str], bool]:
    """(the wanted keys that an artifact of these facts does not list, whether its list is known to be whole)."""
    listed = facts.get("keys") or facts.get("header") or facts.get("columns")
    if not isinstance(listed, list):
        first = facts.get("first")
        listed = [row.get("key", row.get("name")) for row in first] if isinstance(first, list) else []
    said = facts.get("count") if "keys" in facts else facts.get("tensors")
    is_whole = len(listed) < _WHOLE if "keys" in facts or said is None else said == len(listed)
    return [key for key in wanted if key not in listed], is_whole and "keys" not in facts.get("left_out", ())


def step_remarks(
    artifacts: Iterable[Artifact], *, planned: int | None, saved: Mapping[str, Any] | None, is_done: bool
) -> dict[str, str]:
    """{path: a remark} on checkpoints of ours that hold another step than one may believe, of one run.

    `planned`: how many steps the run wanted (None: it did not say). `saved`: the checkpoint it last spoke of, {"path",
    "step"}. `is_done`: the run says that it succeeded. Remarks, not problems: each file is what the box has.
    """
    steps = {a.path: step for a in artifacts if a.ok and (step := step_in(a.facts)) is not None}
    numbered = {path: step for path, step in steps.items() if os.path.basename(path).startswith("ckpt-")}
    last = max(numbered, key=lambda path: (numbered[path], path), default="")
    out = {}
    for path, step in steps.items():
        said = saved.get("step") if saved and saved.get("path") == path else None
        if isinstance(said, int) and said != step:
            out[path] = f"it holds step {step}, and the run said that it saved step {said} there"
        elif planned is not None and step > planned:
            out[path] = f"it holds step {step} of a run that planned {planned}"
        elif planned is not None and step < planned and path == last and is_done:
            out[path] = f"the run's last checkpoint: step {step} of the {planned} that it planned"
    return out


def step_in(facts: Mapping[str, Any]) -> int | None:
    """The training step that a checkpoint of ours says it holds; None where the file says none."""
    ours = facts.get("sojourn")
    step = ours.get("step") if isinstance(ours, dict) else None
    return step if type(step) is int else None
