"""The files of a DeepSpeed ZeRO checkpoint belong together: every rank's part must exist.

Source: _get_zero_ckpt_name and _get_ckpt_name in deepspeed/runtime/engine.py, DeepSpeed 0.19, 2026-11.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sojourn.formats.damage import Unloadable

NAMES = r"^(bf16_|fp16_)?(zero_pp_rank_\d+_)?mp_rank_\d+_(model|optim)_states\.pt$"
_PART = re.compile(
    r"(?P<kind>(?:bf16_|fp16_)?)zero_pp_rank_(?P<rank>\d{1,7})_mp_rank_(?P<model>\d+)_(?P<what>model|optim)_states\.pt"
)
_MODEL = re.compile(r"mp_rank_(?P<model>\d+)_model_states\.pt")
_NAMED = 5
_RANKS = 1 << 20


def check(tree: Any, name: str, beside: Mapping[str, str]) -> None:
    """What the file `name`, with its `tree`, needs beside it. Raises: Unloadable("missing-shard")."""
    parts = [hit for other in beside if (hit := _PART.fullmatch(other))]
    own, whole = _PART.fullmatch(name), _MODEL.fullmatch(name)
    model = own["model"] if own else whole["model"] if whole else ""
    ranks = _ranks(tree)
    missing: list[str] = []
    if own:
        missing += _lacking(own, parts, ranks)
        models = {other for other in beside if _is_model(other, model)}
        if own["what"] == "optim" and not models:
            missing.append(f"mp_rank_{model}_model_states.pt")
    elif whole and _is_zero(tree):
        optim = [hit for hit in parts if hit["what"] == "optim" and hit["model"] == model]
        if not optim:
            missing.append(f"zero_pp_rank_0_mp_rank_{model}_optim_states.pt")
        else:
            missing += _lacking(optim[0], parts, ranks)
    if missing:
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        raise Unloadable(
            "missing-shard", f"ranks of a ZeRO checkpoint are missing: {', '.join(missing[:_NAMED])}{more}"
        )


def _lacking(one: re.Match[str], parts: list[re.Match[str]], ranks: int) -> list[str]:
    """The names of missing parts like `one`: of `ranks` parts, or as many as the highest rank implies."""
    group = {int(hit["rank"]) for hit in parts if all(hit[key] == one[key] for key in ("kind", "model", "what"))}
    group.add(int(one["rank"]))
    count = max(ranks, max(group) + 1)
    lacking = [rank for rank in range(min(count, _RANKS)) if rank not in group]
    return [f"{one['kind']}zero_pp_rank_{n}_mp_rank_{one['model']}_{one['what']}_states.pt" for n in lacking]


def _is_model(name: str, model: str) -> bool:
    hit = _MODEL.fullmatch(name) or _PART.fullmatch(name)
    return hit is not None and hit["model"] == model and name.endswith("_model_states.pt")


def _ranks(tree: Any) -> int:
    """How many ranks wrote it, by one of the parts; 0 if it does not say."""
    if not isinstance(tree, dict):
        return 0
    states = tree.get("optimizer_state_dict")
    count = states.get("partition_count") if isinstance(states, dict) else tree.get("dp_world_size")
    count = max(count, default=0) if isinstance(count, list) and all(type(n) is int for n in count) else count
    return count if type(count) is int and 0 < count < _RANKS else 0


def _is_zero(tree: Any) -> bool:
    """By its settings, the optimizer's state is spread over the ranks."""
    config = tree.get("ds_config") if isinstance(tree, dict) else None
    zero = config.get("zero_optimization") if isinstance(config, dict) else None
    stage = zero.get("stage", 0) if isinstance(zero, dict) else 0
    return type(stage) is int and stage > 0
