"""Traps of loops that the Checkpointer resumes in the middle of an epoch."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from sojourn.train.state.kept import gathered_in
from sojourn.verbs.project.codecheck.source import Code, Sight, argument, called, constant


def begins_midway(code: Code) -> Iterator[Sight]:
    """A variable gathered batch by batch, passed to `end_epoch` as the metric of `best=`."""
    best = [argument(call, "best") for _, _, call in code.find("Checkpointer")]
    metrics = {constant(pair.elts[0]) for pair in best if isinstance(pair, ast.Tuple) and pair.elts}
    for source in code.sources:
        for _, call in source.find("end_epoch"):
            scope = next((up for up in source.above(call) if isinstance(up, ast.FunctionDef)), source.tree)
            handed = [keyword.arg for keyword in call.keywords if keyword.arg in metrics]
            if any(gathered_in(scope, name) for name in handed):
                yield source.sight("best-metric-begins-midway", call)


def nothing_left(code: Code) -> Iterator[Sight]:
    """A result that only the loop over the epochs makes, used after it: unbound if a resume leaves no epoch."""
    if not any("resum" in word.lower() for word in code.words):
        return
    for source in code.sources:
        for loop in source.every(ast.For):
            first = loop.iter.args[0] if isinstance(loop.iter, ast.Call) and len(loop.iter.args) > 1 else None
            if first is None or isinstance(first, ast.Constant) or not called(loop.iter, "range"):
                continue
            scope = next((up for up in source.above(loop) if isinstance(up, ast.FunctionDef)), source.tree)
            names = [node for node in ast.walk(scope) if isinstance(node, ast.Name)]
            below = max(node.lineno for node in ast.walk(loop) if hasattr(node, "lineno"))
            before = {one.id for one in names if isinstance(one.ctx, ast.Store) and one.lineno < loop.lineno}
            made = {one.id for one in ast.walk(loop) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
            anew = {one.id for one in names if isinstance(one.ctx, ast.Store) and one.lineno > below}
            for one in names:
                if isinstance(one.ctx, ast.Load) and one.lineno > below and one.id in made - before - anew:
                    yield source.sight("nothing-left-to-train", source.parents[one])
                    break


RULES = (begins_midway, nothing_left)
