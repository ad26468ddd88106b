"""Traps of the training loop: graphs kept, gradients, modes, losses, optimizers."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from sojourn.verbs.codecheck.source import (
    Code,
    Sight,
    Source,
    argument,
    called,
    constant,
    dotted,
    inside,
    last,
    names_in,
    owner,
)

_CUTS = {"item", "detach", "float", "tolist", "numpy", "cpu", "mean_loss"}
_FRAMEWORKS = {"lightning", "pytorch_lightning", "ignite", "deepspeed"}


def loss_kept(code: Code) -> Iterator[Sight]:
    """`total += loss` and `losses.append(loss)` of a loss that backward was called on."""
    for source in code.sources:
        for loop in inside(source.tree, ast.For, ast.While):
            losses = {owner(dotted(call.func)) for call in called(loop, "backward")} - {""}
            losses |= {dotted(arg) for call in called(loop, "backward") for arg in call.args[:1]} - {""}
            for back in called(loop, "backward"):  # scaler.scale(loss).backward()
                scaled = back.func.value if isinstance(back.func, ast.Attribute) else back
                losses |= {dotted(arg) for arg in scaled.args} - {""} if isinstance(scaled, ast.Call) else set()
            for node in inside(loop, ast.AugAssign, ast.Call):
                value = node.value if isinstance(node, ast.AugAssign) else None
                target = dotted(node.target) if isinstance(node, ast.AugAssign) else ""
                if isinstance(node, ast.Call) and last(dotted(node.func)) == "append" and node.args:
                    value, target = node.args[0], owner(dotted(node.func))
                if value is None or target in losses or _is_cut(value):
                    continue
                plain = {dotted(one) for one in inside(value, ast.Name, ast.Attribute)}
                if plain & losses and source.parents.get(loop) is not None and _nearest_loop(source, node) is loop:
                    yield source.sight("loss-kept-with-graph", node)


def never_cleared(code: Code) -> Iterator[Sight]:
    """backward and step without zero_grad, or zero_grad between them."""
    for source in code.sources:
        if _FRAMEWORKS & code.imports:
            return
        for block in _blocks(source):
            order = [
                (kind, call)
                for statement in block
                if isinstance(statement, ast.Expr)
                for kind in ("backward", "zero_grad", "step")
                for call in called(statement, kind)
            ]
            kinds = [kind for kind, _ in order]
            if "backward" in kinds and "zero_grad" in kinds[kinds.index("backward") :]:
                place = kinds.index("zero_grad", kinds.index("backward"))
                if "step" in kinds[place:] and "step" not in kinds[kinds.index("backward") : place]:
                    yield source.sight("gradients-never-cleared", order[place][1])
        steps = [call for name, call in source.find("step") if "opt" in name.lower()]
        if steps and source.has("backward") and not code.uses("zero_grad"):
            if not any(dotted(t).endswith(".grad") for n in inside(source.tree, ast.Assign) for t in n.targets):
                yield source.sight("gradients-never-cleared", steps[0])


def eval_left_on(code: Code) -> Iterator[Sight]:
    """eval() in the loop over epochs, and train() only before it or nowhere."""
    if _FRAMEWORKS & code.imports or code.uses("Trainer"):
        return
    trains = [
        (source, call)
        for source, name, call in code.find("train")
        if owner(name) and (not call.args or constant(call.args[0]) is not False) and "trainer" not in name.lower()
    ]
    for source in code.sources:
        for loop in source.tree.body and inside(source.tree, ast.For):
            if not called(loop, "backward"):
                continue
            evals = [call for call in called(loop, "eval") if owner(dotted(call.func)) and not call.args]
            function = next((up for up in source.above(loop) if isinstance(up, ast.FunctionDef)), source.tree)
            helpful = [
                call
                for where, call in trains
                if where is not source or loop in source.above(call) or not _is_of(source, call, function)
            ]
            if evals and not helpful:
                yield source.sight("eval-mode-left-on", evals[0])
                break


def coupled_decay(code: Code) -> Iterator[Sight]:
    """Adam with weight_decay."""
    for source, name, call in code.find("Adam"):
        decay = argument(call, "weight_decay")
        if decay is not None and constant(decay) not in (0, 0.0) and "optim" in name + " ".join(code.words & {"optim"}):
            yield source.sight("adam-with-coupled-decay", call)


def not_divided(code: Code) -> Iterator[Sight]:
    """A step every N batches, and a loss that is not divided by N."""
    for source in code.sources:
        for loop in inside(source.tree, ast.For):
            gates = [
                node
                for node in inside(loop, ast.If)
                if any(isinstance(op.op, ast.Mod) for op in inside(node.test, ast.BinOp))
            ]
            gates = [g for g in gates if any("opt" in dotted(c.func).lower() for c in called(g, "step"))]
            backs = [call for call in called(loop, "backward") if not any(gate in source.above(call) for gate in gates)]
            if not gates or not backs or code.uses("gradient_accumulation_plugin", "accumulate"):
                continue
            divided = "/" in ast.unparse(loop).replace("//", "")
            if not divided:
                yield source.sight("accumulation-not-divided", backs[0])


def double_softmax(code: Code) -> Iterator[Sight]:
    """Softmax on what goes into CrossEntropyLoss."""
    yield from _squashed(
        code, "softmax-before-cross-entropy", "softmax", "Softmax", ("CrossEntropyLoss",), "cross_entropy"
    )


def squashed_bce(code: Code) -> Iterator[Sight]:
    """A sigmoid before BCEWithLogitsLoss (twice), or before BCELoss (saturates)."""
    which = "sigmoid-with-bce"
    twice = list(
        _squashed(code, which, "sigmoid", "Sigmoid", ("BCEWithLogitsLoss",), "binary_cross_entropy_with_logits")
    )
    yield from twice
    if not twice and code.uses("sigmoid", "Sigmoid"):
        for source, _, call in code.find("BCELoss"):
            yield source.sight(which, call, is_sure=False)


def bare_nll(code: Code) -> Iterator[Sight]:
    """NLLLoss in a project without log_softmax."""
    if not code.uses("log_softmax", "LogSoftmax", "logsumexp", "log_prob", "log_probs"):
        for source, _, call in code.find("NLLLoss", "nll_loss"):
            yield source.sight("nll-without-log-softmax", call)


def wrong_rate_logged(code: Code) -> Iterator[Sight]:
    """scheduler.get_lr()."""
    for source, name, call in code.find("get_lr"):
        if "sched" in owner(name).lower():
            yield source.sight("logged-rate-is-not-the-rate", call)


def debug_on(code: Code) -> Iterator[Sight]:
    """Anomaly detection or blocking launches left in."""
    for source, _, call in code.find("set_detect_anomaly", "detect_anomaly"):
        if constant(argument(call, "mode", 0)) is not False and _is_bare(source, call):
            yield source.sight("debug-modes-left-on", call)
    for source in code.sources:
        for node in inside(source.tree, ast.Assign):
            target = node.targets[0]
            if isinstance(target, ast.Subscript) and constant(target.slice) == "CUDA_LAUNCH_BLOCKING":
                if constant(node.value) == "1":
                    yield source.sight("debug-modes-left-on", node)


def _is_bare(source: Source, call: ast.Call) -> bool:
    """Not below an option."""
    return not any(isinstance(up, ast.If) for up in source.above(call)) and not any(
        isinstance(arg, (ast.Name, ast.Attribute)) for arg in call.args
    )


def _is_cut(value: ast.expr) -> bool:
    return bool({last(dotted(call.func)) for call in inside(value, ast.Call)} & _CUTS) or "data" in names_in(value)


def _nearest_loop(source: Source, node: ast.AST) -> ast.AST | None:
    return next((up for up in source.above(node) if isinstance(up, (ast.For, ast.While))), None)


def _scope(source: Source, node: ast.AST) -> ast.AST:
    return next((up for up in source.above(node) if isinstance(up, ast.FunctionDef)), source.tree)


def _is_of(source: Source, node: ast.AST, function: ast.AST) -> bool:
    return _scope(source, node) is function


def _blocks(source: Source) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(source.tree):
        for name in ("body", "orelse"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                yield block


def _squashed(code: Code, which: str, word: str, layer: str, losses: tuple[str, ...], function: str) -> Iterator[Sight]:
    """Outputs that went through `word` on the way into a loss that does it itself."""
    if not code.uses(*losses, function):
        return
    for source in code.sources:
        is_near = bool(source.words & {*losses, function})  # a model in another file may be for another loss
        criteria = {name for name, value, _ in source.assigned if last(dotted(value).rstrip("()")) in losses}
        for name, call in source.calls:
            squashed = call.args and isinstance(call.args[0], ast.Call) and last(dotted(call.args[0].func)) == word
            if squashed and (name in criteria or last(name) == function):
                yield source.sight(which, call)
            tail = call.args[-1] if last(name) == "Sequential" and call.args else None
            if isinstance(tail, ast.Call) and last(dotted(tail.func)) == layer:
                yield source.sight(which, tail, is_sure=is_near)
        for found in inside(source.tree, ast.ClassDef):
            if any(part in found.name.lower() for part in ("attention", "attn", "gate", "router", "block")):
                continue
            layers = {n for n, v, s in source.assigned if found in source.above(s) and last(dotted(v)) == f"{layer}()"}
            for method in found.body:
                if isinstance(method, ast.FunctionDef) and method.name == "forward":
                    for back in inside(method, ast.Return):
                        value = back.value
                        if isinstance(value, ast.Call) and (
                            last(dotted(value.func)) == word or dotted(value.func) in layers
                        ):
                            yield source.sight(which, back, is_sure=is_near)


RULES = (
    loss_kept,
    never_cleared,
    eval_left_on,
    coupled_decay,
    not_divided,
    double_softmax,
    squashed_bce,
    bare_nll,
    wrong_rate_logged,
    debug_on,
)
