"""What the rules of the house look at, and what they find: one parsed file, one broken rule."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Breach:
    """One broken rule: `where` is path:line from the tree's root, `rule` its short name, `what` says it to a person."""

    where: str
    rule: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.rule}: {self.what}"


@dataclass(frozen=True)
class Source:
    """One parsed file. `room` is "" for files that lie directly in the package."""

    path: Path
    name: str
    room: str
    tree: ast.Module
    lines: int

    @property
    def doc(self) -> str:
        """The module docstring, "" without one."""
        return ast.get_docstring(self.tree) or ""

    def breach(self, node: ast.AST | SyntaxError | None, rule: str, what: str) -> Breach:
        """A breach at the line of `node`, or at line 1."""
        return Breach(f"{self.name}:{getattr(node, 'lineno', 1)}", rule, what)
