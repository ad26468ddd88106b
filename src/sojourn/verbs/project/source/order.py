"""Which calls of a project a training makes, in about the order in which it makes them: from its script, function by
function. What nothing in the project calls is not part of it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from sojourn.verbs.project.source.flags import last
from sojourn.verbs.project.source.paths import LIBRARIES, Function, Names


def calls(names: Names) -> list[ast.Call]:
    """The calls, from `names.modules[0]` on. Of a class that is used, every method may be called."""
    walk = _Walk(names)
    if not names.modules:
        return []
    for module in names.modules[1:]:
        walk.block([node for node in module.tree.body if not _is_main(node)])
    walk.block(names.modules[0].tree.body)
    for module in names.modules[:1]:  # what a decorator makes a command
        for node in module.tree.body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.decorator_list:
                walk.enter(node)
    walk.rest()
    return walk.found


class _Walk:
    def __init__(self, names: Names) -> None:
        self.names = names
        self.found: list[ast.Call] = []
        self._entered: set[int] = set()
        self._waiting: list[ast.ClassDef] = []
        self._functions: dict[str, list[Function]] = {}
        self._classes: dict[str, ast.ClassDef] = {}
        for module in names.modules:
            for node in ast.walk(module.tree):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    self._functions.setdefault(node.name, []).append(node)
                elif isinstance(node, ast.ClassDef):
                    self._classes.setdefault(node.name, node)

    def block(self, body: list[ast.stmt]) -> None:
        """Statements, one after the other."""
        for node in body:
            self._visit(node)

    def enter(self, function: Function) -> None:
        """The body of a function, once."""
        if id(function) not in self._entered and len(self._entered) < 2000:
            self._entered.add(id(function))
            self.block(function.body)

    def rest(self) -> None:
        """The methods of the classes that were used: a library may call them."""
        while self._waiting:
            for node in self._waiting.pop().body:
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    self.enter(node)

    def _visit(self, node: ast.AST) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for value in (*node.decorator_list, *node.args.defaults):
                self._visit(value)
            return
        if isinstance(node, ast.ClassDef):
            self.block(node.body)
            return
        for child in _in_order(node):
            self._visit(child)
        if isinstance(node, ast.Call):
            self.found.append(node)
            self._follow(last(node.func), node)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            self._follow(node.id, node)

    def _follow(self, name: str, node: ast.expr) -> None:
        func = node.func if isinstance(node, ast.Call) else node
        if isinstance(func, ast.Attribute) and last(func.value) in LIBRARIES:
            return
        if name in self._classes:
            one = self._classes[name]
            if id(one) not in self._entered:
                self._entered.add(id(one))
                self._waiting.append(one)
                for base in one.bases:
                    self._follow(last(base), base)
            self._enter_all(
                [node for node in one.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
            )
        elif name in self._functions:
            here = self.names.where.get(id(node))
            own = [one for one in self._functions[name] if self.names.where.get(id(one)) is here]
            self._enter_all(own or self._functions[name])

    def _enter_all(self, functions: list[Function] | list[ast.FunctionDef]) -> None:
        for function in functions:
            self.enter(function)


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    """The children as they are evaluated: the value before the target."""
    if isinstance(node, ast.Assign):
        yield node.value
        yield from node.targets
    else:
        yield from ast.iter_child_nodes(node)


def _is_main(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and any(
        isinstance(part, ast.Name) and part.id == "__name__" for part in ast.walk(node.test)
    )
