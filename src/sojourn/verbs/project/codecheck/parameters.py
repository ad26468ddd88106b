"""Parameters that no optimizer holds."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from sojourn.verbs.project.codecheck.source import Code, Sight, Source, called, dotted, inside, last, names_in, owner

_TRAP = "parameters-not-in-the-optimizer"
_KEEPERS = ("ModuleList", "ModuleDict", "Sequential", "add_module", "register_module", "ParameterList")
_LEARNING = (
    *("Linear", "Bilinear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"),
    *("Embedding", "EmbeddingBag", "LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell", "Sequential", "LazyLinear"),
    *("MultiheadAttention", "TransformerEncoder", "TransformerEncoderLayer", "TransformerDecoderLayer"),
    *("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LayerNorm", "GroupNorm", "RMSNorm", "PReLU"),
)
_MODULES = ("Module", "LightningModule", "PreTrainedModel")
_OPTIMIZERS = ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adafactor", "Lion", "NAdam", "RAdam", "LBFGS")


def plain_lists(code: Code) -> Iterator[Sight]:
    """Layers in a list or dict of a module, which does not register them."""
    own = _learning_modules(code)
    for source in code.sources:
        for found in source.every(ast.ClassDef):
            if found.name not in own and not any(last(dotted(base)) in _MODULES for base in found.bases):
                continue
            kept = {
                dotted(arg.value if isinstance(arg, ast.Starred) else arg).removesuffix("[]")
                for call in called(found, *_KEEPERS)
                for arg in call.args
            }
            for loop in inside(found, ast.For):  # for i, layer in enumerate(self.layers): self.add_module(...)
                if called(loop, "add_module", "register_module", "setattr"):
                    kept |= {dotted(node) for node in inside(loop.iter, ast.Attribute)}
            empty, made = set(), set()  # `made`: names of layers, layer = Conv(...)
            for statement in inside(found, ast.Assign):
                target, value = dotted(statement.targets[0]), statement.value
                if isinstance(value, ast.Call) and _layers(value, own) and "." not in target:
                    made.add(target)
                if target.startswith("self.") and isinstance(value, (ast.List, ast.ListComp, ast.Dict, ast.DictComp)):
                    empty.add(target)
                    if _layers(value, own) and target not in kept:
                        yield source.sight(_TRAP, statement)
            for call in called(found, "append"):
                is_layer = any(_layers(arg, own) or dotted(arg) in made - {""} for arg in call.args)
                if owner(dotted(call.func)) in empty - kept and is_layer:
                    yield source.sight(_TRAP, call)


def put_in_late(code: Code) -> Iterator[Sight]:
    """A layer put into the model, or the model moved, after its optimizer was built in the same function."""
    for source in code.sources:
        for built, model in _optimizers(source):
            for name, value, put in source.assigned:
                is_part = owner(name) == model and isinstance(value, ast.Call) and bool(_layers(value))
                if is_part and put.lineno > built.lineno and _scope(source, put) is _scope(source, built):
                    yield source.sight(_TRAP, put)
            for name, call in source.find("to", "cuda"):
                is_late = owner(name) == model and call.lineno > built.lineno
                if is_late and _scope(source, call) is _scope(source, built):
                    yield source.sight(_TRAP, call, is_sure=False)
                    break


def left_out(code: Code) -> Iterator[Sight]:
    """A layer that is called in training, given to nothing, and whose parameters nobody asks for."""
    asked = {owner(name) for source in code.sources for name, _ in _attributes(source, "parameters")}
    for source in code.sources:
        if not (source.has("backward") and source.has(*_OPTIMIZERS)):
            continue
        given = {dotted(arg) for _, call in source.calls for arg in _given(call)}
        for name, value, statement in source.assigned:
            is_layer = isinstance(value, ast.Call) and _is_layer(value)
            if is_layer and isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                is_used = any(called_name == name for called_name, _ in source.calls)
                is_known = name in asked or f"{name}()" in asked or name in given or _is_collected(source, name)
                if is_used and not is_known:
                    yield source.sight(_TRAP, statement)


def _optimizers(source: Source) -> Iterator[tuple[ast.Call, str]]:
    """(call, model) of every optimizer that is given `model.parameters()`."""
    for _, call in source.find(*_OPTIMIZERS):
        for arg in call.args[:1]:
            if last(dotted(arg)) == "parameters()":
                yield call, owner(dotted(arg))


def _learning_modules(code: Code) -> frozenset[str]:
    """Classes of the project that are modules and hold something that learns, by name."""
    classes = [
        (found.name, {last(dotted(base)) for base in found.bases}, list(inside(found, ast.Call)))
        for source in code.sources
        for found in source.every(ast.ClassDef)
    ]
    modules: set[str] = set(_MODULES)
    while more := {name for name, bases, _ in classes if bases & modules} - modules:
        modules |= more
    learning: set[str] = set()
    while more := {
        name
        for name, bases, calls in classes
        if name in modules
        and name not in learning
        and (bases & learning or any(last(dotted(c.func)) in ("Parameter", *learning) or _is_layer(c) for c in calls))
    }:
        learning |= more
    return frozenset(learning)


def _layers(value: ast.expr, own: frozenset[str] = frozenset()) -> list[ast.Call]:
    return [call for call in inside(value, ast.Call) if _is_layer(call) or last(dotted(call.func)) in own]


def _is_layer(call: ast.Call) -> bool:
    name = dotted(call.func)
    return last(name) in _LEARNING and owner(name) in ("", "nn", "torch.nn")


def _attributes(source: Source, word: str) -> Iterator[tuple[str, ast.Attribute]]:
    for node in source.every(ast.Attribute):
        if node.attr == word:
            yield dotted(node), node


def _given(call: ast.Call) -> Iterator[ast.expr]:
    """Names given to a call, but those that are only called on the way."""
    for arg in (*call.args, *(keyword.value for keyword in call.keywords)):
        heads = {id(inner.func) for inner in inside(arg, ast.Call)}
        yield from (
            node for node in ast.walk(arg) if isinstance(node, (ast.Name, ast.Attribute)) and id(node) not in heads
        )


def _is_collected(source: Source, name: str) -> bool:
    """Whether it stands in a list, tuple or dict, which may be given on, or in another assignment."""
    for node in source.every(ast.List, ast.Tuple, ast.Dict):
        if name in names_in(node):
            return True
    return any(dotted(value) == name for _, value, _ in source.assigned)


def _scope(source: Source, node: ast.AST) -> ast.AST:
    return next((up for up in source.above(node) if isinstance(up, ast.FunctionDef)), source.tree)


RULES = (plain_lists, put_in_late, left_out)
