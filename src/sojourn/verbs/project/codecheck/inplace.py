"""Traps of saves that write over the file they replace."""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterator

from sojourn.verbs.project.codecheck.source import Code, Sight, Source
from sojourn.verbs.project.source.paths import Module, Names
from sojourn.verbs.project.source.resuming import is_torn_by_a_kill
from sojourn.verbs.project.source.writes import writes


def saved_in_place(code: Code) -> Iterator[Sight]:
    """A checkpoint of one name that a loop writes again and again, where `protect: saves` would make it whole."""
    sources = {source.path: source for source in code.sources}
    if not any(source.has("save", "savez", "savez_compressed", "save_file", "dump") for source in code.sources):
        return
    for write in writes(Names([Module(source.path, source.tree) for source in code.sources])):
        if not is_torn_by_a_kill(write) or "*" in posixpath.basename(write.glob):
            continue
        path, _, line = write.where.rpartition(":")
        source = sources[path]
        for name, call in source.calls:
            if call.lineno == int(line) and name.endswith(write.how) and _is_repeated(code, source, call):
                yield source.sight("saved-in-place", call)


def _is_repeated(code: Code, source: Source, call: ast.Call) -> bool:
    """Whether a loop stands around the call, or around a call of the function that it stands in."""
    for up in source.above(call):
        if isinstance(up, (ast.For, ast.While)):
            return True
        if isinstance(up, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return any(
                isinstance(above, (ast.For, ast.While))
                for other, _, user in code.find(up.name)
                for above in other.above(user)
            )
    return False


RULES = (saved_in_place,)
