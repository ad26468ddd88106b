"""Traps of loops that the Checkpointer resumes in the middle of an epoch."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from sojourn.train.state.kept import gathered_in
from sojourn.verbs.project.codecheck.source import Code, Sight, argument, constant


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


RULES = (begins_midway,)
