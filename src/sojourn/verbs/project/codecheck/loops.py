"""Traps of the training loop: graphs kept, gradients, modes, losses, optimizers."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from sojourn.verbs.project.codecheck.source import (
    Code,
    Sight,
    Source,
    argument,
    bound,
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
_FROZEN = ("teacher", "ref", "ema", "averag", "vae", "encoder", "frozen", "target", "lpips", "vgg", "critic", "disc")


def loss_kept(code: Code) -> Iterator[Sight]:
    """`total += loss` and `losses.append(loss)` of a loss that backward was called on."""
    for source in code.sources:
        for loop in source.every(ast.For, ast.While):
            losses = _losses(loop)
            if not losses:
                continue
            cuts: dict[str, int] = {}  # loss = loss.detach(): from this line on it holds no graph
            emptied = {owner(dotted(call.func)) for call in called(loop, "clear")}
            for statement in inside(loop, ast.Assign):
                for name in bound(statement):
                    if name in losses and _is_cut(statement.value):
                        cuts.setdefault(name, statement.lineno)
                    if name.rpartition(".")[2] not in names_in(statement.value):
                        emptied.add(name)  # it begins anew in each turn, or every few
            for node in inside(loop, ast.AugAssign, ast.Assign, ast.Call):
                target, value = _kept(node)
                line = int(getattr(node, "lineno", 0))
                if value is None or target in losses | emptied or _is_cut(value) or _is_without_graph(source, node):
                    continue
                plain = {dotted(one) for one in inside(value, ast.Name, ast.Attribute)}
                plain = {name for name in plain if cuts.get(name, line) >= line}
                if plain & losses and _nearest_loop(source, node) is loop:
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
        steps = [call for name, call in source.find("step") if "opt" in " ".join([name, *names_in(call.args)]).lower()]
        steps = [call for call in steps if any(called(up, "backward") for up in _loops(source, call))]
        if steps and not code.uses("zero_grad"):
            if not any(dotted(t).endswith(".grad") for n in source.every(ast.Assign) for t in n.targets):
                yield source.sight("gradients-never-cleared", steps[0])


def eval_left_on(code: Code) -> Iterator[Sight]:
    """eval() in the loop over epochs, and train() only before it or nowhere."""
    if _FRAMEWORKS & code.imports or code.trains_with_hf:
        return
    trains = [
        (source, call)
        for source, name, call in code.find("train")
        if owner(name) and (not call.args or constant(call.args[0]) is not False) and "trainer" not in name.lower()
    ]
    for source in code.sources:
        functions = {function.name: function for function in source.every(ast.FunctionDef)}
        for loop in source.every(ast.For):
            # What the loop calls is in the loop: for epoch ...: train(...); evaluate(...)
            inner = [functions[name] for name, _ in _calls(loop) if name in functions]
            if not any(called(part, "backward") for part in (loop, *inner)):
                continue
            evals = [
                call
                for part in (loop, *inner)
                for call in called(part, "eval")
                if _is_trained(owner(dotted(call.func))) and not call.args
            ]
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
            if not _is_zero(source, decay):
                yield source.sight("adam-with-coupled-decay", call, is_sure=constant(decay) is not None)


def not_divided(code: Code) -> Iterator[Sight]:
    """A step every N batches, and a loss that is not divided by N."""
    for source in code.sources:
        for loop in source.every(ast.For):
            gates = [
                node
                for node in inside(loop, ast.If)
                if any(isinstance(op.op, ast.Mod) for op in inside(node.test, ast.BinOp))
            ]
            gates = [g for g in gates if any("opt" in dotted(c.func).lower() for c in called(g, "step"))]
            backs = [call for call in called(loop, "backward") if not any(gate in source.above(call) for gate in gates)]
            if (
                not gates
                or not backs
                or _nearest_loop(source, backs[0]) is not loop
                or code.uses("gradient_accumulation_plugin", "accumulate")
            ):
                continue
            every = {
                ast.unparse(op.right) for g in gates for op in inside(g.test, ast.BinOp) if isinstance(op.op, ast.Mod)
            }
            if not _divides(loop, every, _losses(loop)):
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
    if not twice:
        for source, _, call in code.find("BCELoss"):
            if source.words & {"sigmoid", "Sigmoid"}:
                yield source.sight(which, call, is_sure=False)


def bare_nll(code: Code) -> Iterator[Sight]:
    """NLLLoss in a project without log_softmax."""
    if not code.uses("log_softmax", "LogSoftmax", "logsumexp", "log_prob", "log_probs"):
        for source, _, call in code.find("NLLLoss", "nll_loss"):
            yield source.sight("nll-without-log-softmax", call)


def wrong_rate_logged(code: Code) -> Iterator[Sight]:
    """scheduler.get_lr()."""
    for source, name, call in code.find("get_lr"):
        inside_one = any(isinstance(up, ast.FunctionDef) and "lr" in up.name for up in source.above(call))
        if "sched" in owner(name).lower() and not inside_one:
            # One's own get_lr may be meant to be called.
            is_own = any(f.name == "get_lr" for s in code.sources for f in s.every(ast.FunctionDef))
            yield source.sight("logged-rate-is-not-the-rate", call, is_sure=not is_own)


def debug_on(code: Code) -> Iterator[Sight]:
    """Anomaly detection or blocking launches left in."""
    for source, _, call in code.find("set_detect_anomaly", "detect_anomaly"):
        if constant(argument(call, "mode", 0)) is not False and _is_bare(source, call):
            yield source.sight("debug-modes-left-on", call)
    for source in code.sources:
        for node in source.every(ast.Assign):
            target = node.targets[0]
            if isinstance(target, ast.Subscript) and constant(target.slice) == "CUDA_LAUNCH_BLOCKING":
                if constant(node.value) == "1" and _is_bare(source, node):
                    yield source.sight("debug-modes-left-on", node)


def _is_bare(source: Source, call: ast.Call | ast.Assign) -> bool:
    """Not below an option, nor in a function that somebody calls for it."""
    above = list(source.above(call))
    is_wanted = any(
        word in up.name.lower() for up in above if isinstance(up, ast.FunctionDef) for word in ("determin", "debug")
    )
    is_option = any(isinstance(up, ast.If) for up in above) or any(
        isinstance(arg, (ast.Name, ast.Attribute)) for arg in getattr(call, "args", ())
    )
    return not (is_wanted or is_option)


def _losses(loop: ast.AST) -> set[str]:
    """Names on which backward is called: loss.backward(), engine.backward(loss), scaler.scale(loss).backward()."""
    found: set[str] = set()
    for back in called(loop, "backward"):
        if isinstance(back.func, ast.Attribute):
            given = back.func.value.args if isinstance(back.func.value, ast.Call) else back.args[:1]
            found |= {owner(dotted(back.func)), *(dotted(arg) for arg in given)}
    return found - {""}


def _divides(loop: ast.AST, every: set[str], losses: set[str]) -> bool:
    """Whether a loss or gradients are divided, or anything by one of the texts in `every`."""
    divided = [(op.left, op.right) for op in inside(loop, ast.BinOp) if isinstance(op.op, ast.Div)]
    divided += [(op.target, op.value) for op in inside(loop, ast.AugAssign) if isinstance(op.op, ast.Div)]
    if any(
        dotted(one) in losses or dotted(one).endswith(".grad") or ast.unparse(other) in every for one, other in divided
    ):
        return True
    # scale_grads(model, 1 / tokens), p.grad.div_(n)
    scaling = [call for call in inside(loop, ast.Call) if "grad" in dotted(call.func).lower()]
    return any(
        last(dotted(call.func)) in ("div_", "mul_") or any(isinstance(op.op, ast.Div) for op in inside(call, ast.BinOp))
        for call in scaling
    )


def _kept(node: ast.AST) -> tuple[str, ast.expr | None]:
    """Where a value is added to, and the value: `a += v`, `a = a + v`, `a.append(v)`."""
    if isinstance(node, ast.AugAssign):
        return dotted(node.target), node.value
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.Add):
        target = dotted(node.targets[0])
        for one, other in ((node.value.left, node.value.right), (node.value.right, node.value.left)):
            if target and last(target) in names_in(one):
                return target, other
    if isinstance(node, ast.Call) and last(dotted(node.func)) == "append" and node.args:
        return owner(dotted(node.func)), node.args[0]
    return "", None


def _is_without_graph(source: Source, node: ast.AST) -> bool:
    heads = (item.context_expr for up in source.above(node) if isinstance(up, ast.With) for item in up.items)
    return any(last(dotted(head).rstrip("()")) in ("no_grad", "inference_mode") for head in heads)


def _calls(node: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    for call in inside(node, ast.Call):
        yield dotted(call.func), call


def _is_trained(model: str) -> bool:
    """Whether it may be a model in training, by its name."""
    return bool(model) and not any(word in model.lower() for word in _FROZEN)


def _is_zero(source: Source, value: ast.expr) -> bool:
    """Whether a name is a parameter of its function that is 0 by default."""
    for function in source.above(value):
        if isinstance(function, ast.FunctionDef):
            named = [*function.args.posonlyargs, *function.args.args]
            named = [*named[len(named) - len(function.args.defaults) :], *function.args.kwonlyargs]
            names = [arg.arg for arg in named]
            defaults = dict(zip(names, (*function.args.defaults, *function.args.kw_defaults), strict=True))
            return constant(defaults.get(dotted(value))) in (0, 0.0)
    return False


def _loops(source: Source, node: ast.AST) -> Iterator[ast.AST]:
    return (up for up in source.above(node) if isinstance(up, (ast.For, ast.While)))


def _is_cut(value: ast.expr) -> bool:
    return bool({last(dotted(call.func)) for call in inside(value, ast.Call)} & _CUTS) or "data" in names_in(value)


def _nearest_loop(source: Source, node: ast.AST) -> ast.AST | None:
    return next(_loops(source, node), None)


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
        if source.words.isdisjoint({*losses, function}):
            continue  # a model in another file may be for another loss
        criteria = {name for name, value, _ in source.assigned if last(dotted(value).rstrip("()")) in losses}
        for name, call in source.calls:
            squashed = call.args and isinstance(call.args[0], ast.Call) and last(dotted(call.args[0].func)) == word
            if squashed and (name in criteria or last(name) == function):
                yield source.sight(which, call)
            tail = call.args[-1] if last(name) == "Sequential" and call.args else None
            if isinstance(tail, ast.Call) and last(dotted(tail.func)) == layer and not _weighs(source, tail):
                yield source.sight(which, tail)
        for found in source.every(ast.ClassDef):
            if _is_weight(found):
                continue
            layers = {n for n, v, s in source.assigned if found in source.above(s) and last(dotted(v)) == f"{layer}()"}
            for method in found.body:
                if isinstance(method, ast.FunctionDef) and method.name == "forward":
                    for back in inside(method, ast.Return):
                        value = back.value
                        if isinstance(value, ast.Call) and (
                            last(dotted(value.func)) == word or dotted(value.func) in layers
                        ):
                            yield source.sight(which, back)


def _weighs(source: Source, layer: ast.AST) -> bool:
    """Whether a layer of a class makes weights of something else: attention, a gate, what forward multiplies with."""
    found = next((up for up in source.above(layer) if isinstance(up, ast.ClassDef)), None)
    return found is not None and (
        _is_weight(found) or any(isinstance(op.op, (ast.Mult, ast.MatMult)) for op in inside(found, ast.BinOp))
    )


def _is_weight(found: ast.ClassDef) -> bool:
    return any(part in found.name.lower() for part in ("attention", "attn", "gate", "router", "block"))


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
