"""A project's Python files as trees, with what rules ask of them: calls by dotted name, ancestors, words in use."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

Node = TypeVar("Node", bound=ast.AST)
_DEEPEST = 150  # expressions in each other; what walks and prints them takes some frames for each


@dataclass(frozen=True)
class Sight:
    """A trap that was found. `gotcha`: its id in the catalog; `said`: the code in short; not `is_sure`: likely."""

    gotcha: str
    path: str
    line: int
    said: str
    is_sure: bool = True


@dataclass(frozen=True)
class Source:
    """One file. `parents`: of every node but the root; `calls`: (dotted name, node) in the order of the text."""

    path: str
    tree: ast.Module
    parents: dict[ast.AST, ast.AST] = field(repr=False)
    calls: tuple[tuple[str, ast.Call], ...] = field(repr=False)
    kinds: dict[type[ast.AST], list[ast.AST]] = field(repr=False)

    def every(self, *kinds: type[Node]) -> Iterator[Node]:
        """All nodes of these kinds in the file."""
        for kind in kinds:
            yield from self.kinds.get(kind, ())  # type: ignore[misc]

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """Ancestors, nearest first."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def find(self, *names: str) -> Iterator[tuple[str, ast.Call]]:
        """Calls whose last word is one of these."""
        for name in names:
            yield from self._by_word.get(name, ())

    def has(self, *names: str) -> bool:
        """Whether one of these is called here."""
        return any(name in self._by_word for name in names)

    def speaks_of(self, name: str, word: str) -> bool:
        """Whether a name holds the word, or stands for something whose name does: `o` of `for o in optimizers`."""
        return word in name.lower() or any(word in other.lower() for other in self._stands_for.get(name, ()))

    @cached_property
    def _by_word(self) -> dict[str, list[tuple[str, ast.Call]]]:
        found: dict[str, list[tuple[str, ast.Call]]] = {}
        for name, call in self.calls:
            found.setdefault(last(name), []).append((name, call))
        return found

    @cached_property
    def _stands_for(self) -> dict[str, set[str]]:
        """Names that a loop, a comprehension or a plain assignment takes from others."""
        found: dict[str, set[str]] = {}
        loops: list[ast.For | ast.comprehension] = [*self.every(ast.For), *self.every(ast.comprehension)]
        for node in loops:
            for name in names_in(node.target):
                found.setdefault(name, set()).update(names_in(node.iter))
        for name, value, _ in self.assigned:
            if isinstance(value, (ast.Name, ast.Attribute, ast.Subscript)):
                found.setdefault(name, set()).update(names_in(value))
        return found

    @cached_property
    def assigned(self) -> tuple[tuple[str, ast.expr, ast.stmt], ...]:
        """(dotted name, value, statement) of every plain assignment."""
        statements: list[ast.Assign | ast.AnnAssign] = [*self.every(ast.Assign), *self.every(ast.AnnAssign)]
        return tuple((name, node.value, node) for node in statements if node.value is not None for name in bound(node))

    @cached_property
    def words(self) -> frozenset[str]:
        """Every name, attribute, keyword, imported name and short string in it."""
        found = {node.id for node in self.every(ast.Name)} | {node.attr for node in self.every(ast.Attribute)}
        found |= {node.arg for node in self.every(ast.keyword) if node.arg} | {node.arg for node in self.every(ast.arg)}
        found |= {node.name for node in self.every(ast.FunctionDef)} | {node.name for node in self.every(ast.ClassDef)}
        for alias in self.every(ast.alias):
            found.update(alias.name.split("."))
        found |= {n.value for n in self.every(ast.Constant) if isinstance(n.value, str) and len(n.value) < 60}
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
            for plain in source.every(ast.Import):
                found.update(alias.name.split(".")[0] for alias in plain.names)
            found |= {node.module.split(".")[0] for node in source.every(ast.ImportFrom) if node.module}
        return frozenset(found)

    @cached_property
    def trains_with_hf(self) -> bool:
        """Whether the loop is that of a trainer of transformers or trl; a class of one's own may be called so too."""
        return any(
            (node.module or "").split(".")[0] in ("transformers", "trl")
            and any(alias.name.endswith("Trainer") for alias in node.names)
            for source in self.sources
            for node in source.every(ast.ImportFrom)
        ) or any(name.startswith(("transformers.Trainer", "trl.")) for s in self.sources for name, _ in s.calls)

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
    kinds: dict[type[ast.AST], list[ast.AST]] = {}
    calls = []
    left: list[tuple[ast.AST, int]] = [(tree, 0)]
    while left:
        node, depth = left.pop()
        if depth > _DEEPEST:
            raise RecursionError("an expression is nested too deeply to be told in words")
        kinds.setdefault(type(node), []).append(node)
        if isinstance(node, ast.Call):
            calls.append((dotted(node.func), node))
        below = list(ast.iter_child_nodes(node))
        for child in below:
            parents[child] = node
        left += [(child, depth + 1 if isinstance(child, ast.expr) else 0) for child in reversed(below)]
    return Source(path, tree, parents, tuple(calls), kinds)


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
