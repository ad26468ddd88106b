"""What an artifact should hold, where somebody said so: keys that a layout asks for, the step that a run reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_WHOLE = 256  # keys that a loader lists; of a longer list nothing is said about what is not in it


def lacking_keys(artifact: Mapping[str, Any], wanted: Sequence[str]) -> tuple[list[str], bool]:
    """(the wanted keys that an item of `verify.artifacts` does not list, whether its list is known to be whole)."""
    facts = artifact["facts"]
    listed = facts.get("keys") or facts.get("header") or facts.get("columns")
    if not isinstance(listed, list):
        first = facts.get("first")
        listed = [row.get("key", row.get("name")) for row in first] if isinstance(first, list) else []
    said = facts.get("tensors", facts.get("count", len(listed)))
    is_whole = "keys" in facts and len(listed) < _WHOLE or said == len(listed)
    return [key for key in wanted if key not in listed], is_whole and "keys" not in facts.get("left_out", ())


def step_remarks(
    artifact: Mapping[str, Any], *, reached: int | None, planned: int | None, saved: Mapping[str, Any] | None
) -> list[str]:
    """What a checkpoint of ours says of its step, against what the run said.

    `reached`, `planned`: the last step heard of the run, and how many it wanted (None: it did not say). `saved`: the
    checkpoint it last spoke of, {"path", "step"}. Remarks, not problems: the file is what the box has, only not what
    one may believe it to be.
    """
    ours = artifact["facts"].get("sojourn")
    step = ours.get("step") if isinstance(ours, dict) else None
    if not artifact["ok"] or not isinstance(step, int):
        return []
    if saved and saved.get("path") == artifact["path"]:
        if isinstance(saved.get("step"), int) and saved["step"] != step:
            return [f"it holds step {step}, and the run said that it saved step {saved['step']} there"]
        if planned is not None and step < planned:
            return [f"the run's last checkpoint holds step {step} of the {planned} that it planned"]
    if reached is not None and step > reached:
        return [f"it holds step {step}, and the run was last heard at step {reached}"]
    return []
