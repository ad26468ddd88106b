"""The text of docs/files.md: every file of the package with what it is for, its constants and public functions, taken
from the code. scripts/docs_site.py writes it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src/sojourn"
HEAD = """# Files

Generated from the code. Every file of the package by folder: what it is for, its numbers, its functions and classes. To
change something, search this page for the words of the thing; [the house](house.md) says what each folder is for."""
_LONGEST = 40  # characters of a constant's value


def text() -> str:
    """The page."""
    return "\n".join([HEAD, *_sections()]) + "\n"


def _sections() -> Iterator[str]:
    folders = sorted({path.parent for path in PACKAGE.rglob("*.py")})
    for folder in folders:
        files = sorted(path for path in folder.glob("*.py") if path.name != "__init__.py")
        if not files:
            continue
        yield from ("", f"## {folder.relative_to(PACKAGE.parent).as_posix()}", "")
        yield from map(_row, files)


def _row(path: Path) -> str:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    about = " ".join((ast.get_docstring(tree) or "").split("\n\n")[0].split())
    named = ", ".join(f"`{name}`" for name in (*_constants(tree), *_public(tree)))
    return f"- **`{path.name}`** {_plain(about)}" + f" ({named})" * bool(named)


def _constants(tree: ast.Module) -> Iterator[str]:
    """`NAME = value` for each number, and `NAME` for what else is written in capitals and public."""
    for name, value in _assigned(tree):
        if name.isupper():
            text = ast.unparse(value)
            is_short = len(text) <= _LONGEST and "`" not in text
            if is_short and any(type(getattr(part, "value", None)) in (int, float) for part in ast.walk(value)):
                yield f"{name} = {text}"
            elif not name.startswith("_"):
                yield name


def _assigned(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = list(zip(target.elts, node.value.elts, strict=False))
        else:
            pairs = [(target, node.value)]
        yield from ((one.id, value) for one, value in pairs if isinstance(one, ast.Name))


def _public(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node.name + "()" * isinstance(node, ast.FunctionDef)


def _plain(about: str) -> str:
    """Docstrings are no Markdown: what would read as emphasis, a link or a tag outside code is escaped."""
    parts = about.split("`")
    for n in range(0, len(parts), 2):
        for mark in "*[]<>_":
            parts[n] = parts[n].replace(mark, "\\" + mark)
    return "`".join(parts)
