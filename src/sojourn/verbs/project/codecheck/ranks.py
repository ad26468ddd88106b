"""Traps of several processes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from sojourn.verbs.project.codecheck.source import (
    Code,
    Sight,
    Source,
    argument,
    constant,
    dotted,
    inside,
    is_open,
    last,
    names_in,
)

_COLLECTIVES = (
    *("barrier", "all_reduce", "all_gather", "all_gather_object", "all_gather_into_tensor", "broadcast"),
    *("broadcast_object_list", "reduce_scatter", "reduce_scatter_tensor", "monitored_barrier", "wait_for_everyone"),
)
_FIRST = ("rank", "is_main_process", "is_master", "is_main", "master_process", "is_rank_zero", "is_global_zero")


def one_rank_calls(code: Code) -> Iterator[Sight]:
    """A collective below `if rank == 0`, unless the other ranks make the same call elsewhere in the function."""
    for source in code.sources:
        for name, call in source.find(*_COLLECTIVES):
            gate = _gate(source, call)
            if gate is None or "." not in name and last(name) in ("broadcast", "barrier") and not code.uses("dist"):
                continue
            function = _scope(source, call)
            others = [
                c for n, c in source.find(last(name)) if c is not call and _scope(source, c) is function and n == name
            ]
            if not any(_is_other_side(source, other, gate) for other in others):
                yield source.sight("ranks-call-different-collectives", call)


def rank_as_device(code: Code) -> Iterator[Sight]:
    """set_device with the global rank."""
    if code.uses("spawn"):  # which numbers the processes of one machine
        return
    for source in code.sources:
        ranks = {name for name, value, _ in source.assigned if _is_global_rank(value)}
        for _, call in source.find("set_device"):
            if call.args and (_is_global_rank(call.args[0]) or dotted(call.args[0]) in ranks):
                yield source.sight("ranks-share-a-card", call, is_sure=False)


def all_ranks_save(code: Code) -> Iterator[Sight]:
    """torch.save in a program of several ranks that no rank is kept from."""
    ranked = [
        s for s in code.sources if s.words & {"init_process_group", "DistributedDataParallel"} and s.has("backward")
    ]
    if not ranked:
        return
    guarded = _guarded(code)
    for source in ranked:
        for name, call in source.find("save"):
            function = next((up for up in source.above(call) if isinstance(up, ast.FunctionDef)), None)
            path = call.args[1] if len(call.args) > 1 else None
            if name != "torch.save" or _is_kept(source, call) or (path is not None and "rank" in ast.unparse(path)):
                continue
            if function is None or function.name not in guarded:
                yield source.sight("every-rank-writes", call, is_sure=False)


def one_rank_makes_folder(code: Code) -> Iterator[Sight]:
    """A folder made below `if rank == 0`, then a save of every rank in the same function with no collective between."""
    for source in code.sources:
        for _, call in source.find("makedirs", "mkdir"):
            function = _scope(source, call)
            if _gate(source, call) is None or not isinstance(function, ast.FunctionDef):
                continue
            for name, save in source.find("save", "save_file"):
                if _scope(source, save) is not function or save.lineno <= call.lineno or _is_kept(source, save):
                    continue
                waits = [one for n, one in source.find(*_COLLECTIVES) if call.lineno < one.lineno < save.lineno]
                if not waits and name in ("torch.save", "save_file", "safetensors.torch.save_file"):
                    yield source.sight("one-rank-makes-the-folder", save)
                    break


def local_norms(code: Code) -> Iterator[Sight]:
    """BatchNorm under DDP without synchronisation."""
    if not code.uses("BatchNorm1d", "BatchNorm2d", "BatchNorm3d") or code.uses("SyncBatchNorm", "sync_batchnorm"):
        return
    for source, _, call in code.find("DistributedDataParallel", "DDP"):
        yield source.sight("batchnorm-per-card", call, is_sure=False)


def one_unit(code: Code) -> Iterator[Sight]:
    """FSDP without a wrapping policy."""
    if code.uses("fully_shard", "enable_wrap", "apply_activation_checkpointing_wrapper"):
        return
    found = [
        (source, call)
        for source, _, call in code.find("FullyShardedDataParallel", "FSDP")
        if not is_open(call) and not any(isinstance(up, ast.For) for up in source.above(call))
    ]
    if len(found) == 1 and argument(found[0][1], "auto_wrap_policy") is None:
        yield found[0][0].sight("fsdp-in-one-piece", found[0][1])


def half_reduction(code: Code) -> Iterator[Sight]:
    """MixedPrecision in 16 bits whose reduction is as well, written out or left to follow the parameters."""
    for source, _, call in code.find("MixedPrecision", "MixedPrecisionPolicy"):
        kinds = [
            last(dotted(kind)) if kind else ""
            for kind in (argument(call, "param_dtype"), argument(call, "reduce_dtype"))
        ]
        if kinds[0] in ("bfloat16", "float16", "half") and kinds[1] in ("", "bfloat16", "float16", "half"):
            if kinds[1] or argument(call, "reduce_dtype") is None:
                yield source.sight("fsdp-reduces-in-half", call)


def _is_first(test: ast.expr) -> bool:
    """Whether a condition holds on one rank only."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(_is_first(value) for value in test.values)
    if isinstance(test, ast.BoolOp):
        return False
    if isinstance(test, ast.Compare):
        is_rank = any("rank" in name.lower() for name in names_in(test.left))
        right = test.comparators[0]
        if isinstance(test.ops[0], ast.In):  # rank in {-1, 0}
            return is_rank and ast.unparse(right).strip("{[()]}") in ("-1, 0", "0, -1")
        return is_rank and isinstance(test.ops[0], ast.Eq) and constant(right) == 0 and constant(right) is not False
    word = last(dotted(test).rstrip("()")).lower().lstrip("_")
    return word in _FIRST[1:] or word in ("is_rank_0", "is_rank0", "is_first_rank")


def _is_other_side(source: Source, call: ast.Call, gate: ast.If) -> bool:
    """Whether a call stands below a condition for the other ranks, or in the else branch of this one."""
    chain = [call, *source.above(call)]
    if any(statement in chain for statement in gate.orelse):
        return True
    return any(isinstance(up, ast.If) and _is_others(up.test) for up in chain[1:])


def _is_others(test: ast.expr) -> bool:
    """Whether a condition holds on the ranks that are not the first."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(_is_others(value) for value in test.values)
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.NotEq, ast.NotIn, ast.Gt, ast.GtE)):
        return any("rank" in name.lower() for name in names_in(test))
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) and _is_first(test.operand)


def _guarded(code: Code) -> set[str]:
    """Functions that are called where only some ranks come, or by such a function."""
    calls = [
        (last(name), inner.name if inner is not None else "", _is_kept(source, call))
        for source in code.sources
        for name, call in source.calls
        for inner in [next((up for up in source.above(call) if isinstance(up, ast.FunctionDef)), None)]
    ]
    found = {name for name, _, is_kept in calls if is_kept}
    while more := {name for name, inner, _ in calls if inner in found} - found:
        found |= more
    return found


def _gate(source: Source, call: ast.AST) -> ast.If | None:
    """The nearest condition for the first rank whose body, and not its else branch, the call stands in."""
    below = call
    for up in source.above(call):
        if isinstance(up, ast.If) and below in up.body and _is_first(up.test):
            return up
        below = up
    return None


def _is_kept(source: Source, node: ast.AST) -> bool:
    """Whether only some ranks come here: a condition above it, or a return before it, speaks of ranks."""
    before: ast.AST = node
    for up in source.above(node):
        if isinstance(up, ast.If) and _speaks_of_ranks(up.test):
            return True
        if isinstance(up, (ast.FunctionDef, ast.For, ast.While)):
            for statement in up.body:
                if statement is before:
                    break
                leaves = isinstance(statement, ast.If) and isinstance(statement.body[-1], (ast.Return, ast.Continue))
                if isinstance(statement, ast.If) and leaves and _speaks_of_ranks(statement.test):
                    return True
        before = up
    return False


def _speaks_of_ranks(test: ast.expr) -> bool:
    names = {name.lower() for name in names_in(test)}
    names |= {node.value.lower() for node in inside(test, ast.Constant) if isinstance(node.value, str)}
    return any(word in name for name in names for word in ("rank", "main_process", "is_main", "master", "is_first"))


def _is_global_rank(value: ast.expr) -> bool:
    if any(isinstance(op.op, ast.Mod) for op in inside(value, ast.BinOp)):
        return False
    text = ast.unparse(value).replace('"', "'")
    return "environ['RANK']" in text or "environ.get('RANK'" in text or "getenv('RANK'" in text or "get_rank()" in text


def _scope(source: Source, node: ast.AST) -> ast.AST:
    return next((up for up in source.above(node) if isinstance(up, ast.FunctionDef)), source.tree)


RULES = (one_rank_calls, rank_as_device, all_ranks_save, one_rank_makes_folder, local_norms, one_unit, half_reduction)
