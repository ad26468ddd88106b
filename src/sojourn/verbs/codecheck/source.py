"""A project's Python files as trees, with what rules ask of them: calls by dotted name, ancestors, words in use."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

Node = TypeVar("Node", bound=ast.AST)


@dataclass(frozen=True)
class Sight:
    """A trap seen. `gotcha`: its id in the catalog; `said`: the code in a few words; not `is_sure`: likely only."""

    gotcha: str
    path: str
    line: int
    said: str
    is_sure: bool = True


@dataclass(frozen=True)
class Source:
    """One file. `parents`: of every node but the root; `calls`: (dotted name, node) in the order of the tree."""

    path: str
    tree: ast.Module
    parents: dict[ast.AST, ast.AST] = field(repr=False)
    calls: tuple[tuple[str, ast.Call], ...] = field(repr=False)

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """Ancestors, nearest first."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def find(self, *names: str) -> Iterator[tuple[str, ast.Call]]:
        """Calls whose last word is one of these."""
        for dotted, call in self.calls:
            if last(dotted) in names:
                yield dotted, call

    def has(self, *names: str) -> bool:
        """Whether one of these is called here."""
        return any(last(dotted) in names for dotted, _ in self.calls)

    @cached_property
    def assigned(self) -> tuple[tuple[str, ast.expr, ast.stmt], ...]:
        """(dotted name, value, statement) of every plain assignment."""
        return tuple(
            (name, node.value, node)
            for node in ast.walk(self.tree)
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None
            for name in bound(node)
        )

    @cached_property
    def words(self) -> frozenset[str]:
        """Every name, attribute, keyword, imported name and short string in it."""
        found: set[str] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name):
                found.add(node.id)
            elif isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, (ast.keyword, ast.arg)) and node.arg:
                found.add(node.arg)
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found.add(node.name)
            elif isinstance(node, ast.alias):
                found.update(node.name.split("."))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 60:
                found.add(node.value)
        return frozenset(found)

    def sight(self, gotcha: str, node: ast.AST, is_sure: bool = True) -> Sight:
        """The trap at this node."""
        said = " ".join(ast.unparse(node).split())
        line = int(getattr(node, "lineno", 1))
        return Sight(gotcha, self.path, line, said if len(said) <= 90 else said[:87] + "...", is_sure)


@dataclass(frozen=True)
class Code:
    """All files that could be read."""

    sources: tuple[Source, ...]

    @cached_property
    def words(self) -> frozenset[str]:
        """Words of all files."""
        return frozenset().union(*(source.words for source in self.sources))

    @cached_property
    def imports(self) -> frozenset[str]:
        """First words of all imported modules."""
        found: set[str] = set()
        for source in self.sources:
            for node in ast.walk(source.tree):
                if isinstance(node, ast.Import):
                    found.update(alias.name.split(".")[0] for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module:
                    found.add(node.module.split(".")[0])
        return frozenset(found)

    def uses(self, *words: str) -> bool:
        """Whether one of these stands anywhere."""
        return not self.words.isdisjoint(words)

    def find(self, *names: str) -> Iterator[tuple[Source, str, ast.Call]]:
        """Calls in all files whose last word is one of these."""
        for source in self.sources:
            for dotted, call in source.find(*names):
                yield source, dotted, call


def source_of(path: str, text: str) -> Source:
    """One file as a tree. Raises: SyntaxError, ValueError (null bytes), RecursionError."""
    tree = ast.parse(text)
    parents: dict[ast.AST, ast.AST] = {}
    calls = []
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            parents[child] = node
        if isinstance(node, ast.Call):
            calls.append((dotted(node.func), node))
    return Source(path, tree, parents, tuple(calls))


def dotted(node: ast.AST) -> str:
    """`a.b.c` of a name or attribute; what is called or indexed on the way stands as (), "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    if isinstance(node, ast.Call):
        return f"{dotted(node.func)}()"
    if isinstance(node, ast.Subscript):
        return f"{dotted(node.value)}[]"
    return ""


def last(name: str) -> str:
    """The last word of a dotted name."""
    return name.rpartition(".")[2]


def owner(name: str) -> str:
    """What stands before the last word."""
    return name.rpartition(".")[0]


def argument(call: ast.Call, name: str, place: int = -1) -> ast.expr | None:
    """A keyword argument, or the one at this place; None where neither is given."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    return call.args[place] if 0 <= place < len(call.args) else None


def is_open(call: ast.Call) -> bool:
    """Whether it takes `*args` or `**kwargs`, so that nothing can be said of what is absent."""
    return any(k.arg is None for k in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args)


def constant(node: ast.AST | None) -> object:
    """The value of a literal, None for anything else."""
    return node.value if isinstance(node, ast.Constant) else None


def inside(node: ast.AST, *kinds: type[Node]) -> Iterator[Node]:
    """Nodes of these kinds in and below a node."""
    for below in ast.walk(node):
        if isinstance(below, kinds):
            yield below


def called(node: ast.AST, *names: str) -> list[ast.Call]:
    """Calls in and below a node whose last word is one of these, in the order of lines."""
    found = [n for n in ast.walk(node) if isinstance(n, ast.Call) and last(dotted(n.func)) in names]
    return sorted(found, key=lambda call: (call.lineno, call.col_offset))


def names_in(node: ast.AST | Iterable[ast.AST]) -> set[str]:
    """Names and attributes in and below."""
    nodes = [node] if isinstance(node, ast.AST) else list(node)
    found: set[str] = set()
    for below in (n for one in nodes for n in ast.walk(one)):
        if isinstance(below, ast.Name):
            found.add(below.id)
        elif isinstance(below, ast.Attribute):
            found.add(below.attr)
    return found


def bound(node: ast.stmt) -> list[str]:
    """Dotted names that a plain assignment binds."""
    if isinstance(node, ast.Assign):
        return [dotted(target) for target in node.targets if dotted(target)]
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        return [dotted(node.target)]
    return []
