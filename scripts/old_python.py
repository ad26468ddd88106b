"""What Python 3.8 cannot read or does not have, in files of rooms that run where it may be that old."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scripts.house_source import Breach, Source

GENERIC = ("list", "dict", "tuple", "set", "frozenset", "type")
AFTER_38 = {
    "removeprefix",
    "removesuffix",
    "is_relative_to",
    "with_stem",
    "hardlink_to",
    "readlink",
    "bit_count",
    "randbytes",
}


def old_python(source: Source) -> Iterator[Breach]:
    """What Python 3.8 cannot read, and methods that it does not have."""
    try:
        ast.parse(source.path.read_text(encoding="utf-8"), feature_version=(3, 8))
    except SyntaxError as error:
        yield source.breach(error, "py38", f"Python 3.8 cannot read this: {error.msg}")
    has_future = any(
        isinstance(node, ast.ImportFrom)
        and node.module == "__future__"
        and any(a.name == "annotations" for a in node.names)
        for node in source.tree.body
    )
    annotated = {id(part) for note in annotations_of(source.tree) for part in ast.walk(note)}
    for node in ast.walk(source.tree):
        if id(node) not in annotated and needs_future(node):
            yield source.breach(node, "py38", "Python 3.8 would evaluate this type here, and cannot")
        if isinstance(node, ast.Attribute) and node.attr in AFTER_38 and not names_os(node):
            yield source.breach(node, "py38", f".{node.attr} came after Python 3.8")
    for note in annotations_of(source.tree):
        if not has_future and any(needs_future(part) for part in ast.walk(note)):
            yield source.breach(note, "py38", "such an annotation needs `from __future__ import annotations`")


def annotations_of(tree: ast.Module) -> Iterator[ast.expr]:
    """Every annotation of an argument, a result or a variable."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.returns is not None:
            yield node.returns
        elif isinstance(node, (ast.AnnAssign, ast.arg)) and node.annotation is not None:
            yield node.annotation


def names_os(node: ast.Attribute) -> bool:
    """os.readlink has always been there."""
    return isinstance(node.value, ast.Name) and node.value.id == "os"


def needs_future(node: ast.AST) -> bool:
    """Whether evaluating this fails on 3.8 where it is a type: `X | None`, or a builtin with brackets."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return any(
            (isinstance(side, ast.Constant) and side.value is None)
            or (isinstance(side, ast.Name) and side.id in (*GENERIC, "str", "int", "float", "bytes", "bool"))
            for side in (node.left, node.right)
        )
    return isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in GENERIC
