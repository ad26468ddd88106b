"""Traps of mixed precision."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from sojourn.verbs.project.codecheck.source import Code, Sight, Source, argument, constant, dotted, last

_SCALED_ELSEWHERE = {"accelerate", "deepspeed", "lightning", "pytorch_lightning", "apex"}
_HALVES = ("float16", "half", "bfloat16")


def no_scaler(code: Code) -> Iterator[Sight]:
    """autocast to fp16 with a backward and no GradScaler."""
    if code.uses("GradScaler") or code.trains_with_hf or code.imports & _SCALED_ELSEWHERE or not code.uses("backward"):
        return
    for source, name, call in code.find("autocast"):
        enabled = argument(call, "enabled", 0 if ".cuda." in f".{name}" else 2)
        if constant(enabled) is False:
            continue
        kind = _type_of(call)
        is_cuda = ".cuda." in f".{name}" or constant(argument(call, "device_type", 0)) == "cuda"
        if kind in ("float16", "half") or (argument(call, "dtype", 1) is None and is_cuda):
            yield source.sight("fp16-without-scaler", call, is_sure=enabled is None or constant(enabled) is True)


def needless_scaler(code: Code) -> Iterator[Sight]:
    """A GradScaler beside autocast to bf16 only."""
    kinds = {_type_of(call) for _, _, call in code.find("autocast")}
    if "bfloat16" not in kinds or kinds & {"float16", "half", ""}:
        return
    for source, _, call in code.find("GradScaler"):
        if argument(call, "enabled") is None:
            yield source.sight("bf16-with-scaler", call)


def clipped_scaled(code: Code) -> Iterator[Sight]:
    """Clipping between scale and step without unscale_."""
    for source in code.sources:
        is_scaled = any("scaler" in name.lower() for name, _ in source.find("scale"))
        if not is_scaled or code.imports & {"accelerate", "lightning", "pytorch_lightning"}:
            continue
        for _, call in source.find("clip_grad_norm_", "clip_grad_value_", "clip_grad_norm"):
            function = _function(source, call)
            unscales = [c for n, c in source.find("unscale_") if _function(source, c) is function]
            is_late = bool(unscales) and min(c.lineno for c in unscales) > call.lineno
            if is_late or not (unscales or code.uses("unscale_")):
                yield source.sight("clip-before-unscale", call)


def lost_epsilon(code: Code) -> Iterator[Sight]:
    """Adam with its usual epsilon over weights that were turned to 16 bits."""
    for source in code.sources:
        if not source.has("backward") or code.uses("autocast", "deepspeed", "Accelerator"):
            continue
        is_half = any(
            name.startswith("model") and (last(name) in ("half", "bfloat16") or _is_half(call))
            for name, call in source.find("half", "bfloat16", "to")
        )
        for _, call in source.find("Adam", "AdamW"):
            if is_half and argument(call, "eps") is None:
                yield source.sight("epsilon-lost-in-half", call, is_sure=False)


def _is_half(call: ast.Call) -> bool:
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return any(dotted(arg) in ("torch.float16", "torch.half", "torch.bfloat16") for arg in given)


def _type_of(call: ast.Call) -> str:
    """The type of an autocast: float16, half, bfloat16, "" where it is not written out."""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return next((last(dotted(arg)) for arg in given if last(dotted(arg)) in _HALVES), "")


def _function(source: Source, node: ast.AST) -> ast.AST:
    return next((up for up in source.above(node) if isinstance(up, ast.FunctionDef)), source.tree)


RULES = (no_scaler, needless_scaler, clipped_scaled, lost_epsilon)
