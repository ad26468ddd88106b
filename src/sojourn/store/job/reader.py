"""Reads values from the tree of a job file, and keeps the location of every mistake."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from sojourn.store.job import fill
from sojourn.store.job.scalars import without_zero
from sojourn.store.job.tree import Items, Problem, Scalar, Table, Tree, is_null
from sojourn.wire import names

T = TypeVar("T")

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Reader:
    """Records `problems` and `warnings`. `values`, and the names cells will declare, are what `${NAME}` may mean."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.folder = os.path.dirname(os.path.abspath(path))
        self.problems: list[Problem] = []
        self.warnings: list[str] = []
        self.values: Mapping[str, str] = {}
        self.declared: Sequence[str] = ()

    def wrong(self, at: Tree, what: str) -> None:
        """Note a mistake."""
        self.problems.append(Problem(at.line, at.column, what))

    def ignored(self, at: Tree, key: str, why: str) -> None:
        """Warn about an ignored entry."""
        self.warnings.append(f"{self.path}:{at.line}:{at.column}: `{key}` is ignored: {why}")

    def table(self, tree: Tree, valid: Sequence[str], where: str = "", foreign: Iterable[str] = ()) -> dict[str, Tree]:
        """The entries with a valid key and a value. `foreign` keys get a warning, other keys are mistakes."""
        if not isinstance(tree, Table):
            if not is_null(tree):
                self.wrong(tree, f"`{where}` takes a mapping of {', '.join(valid)}")
            return {}
        found = {}
        for key, inner in tree.entries:
            if key.text in valid:
                if not is_null(inner):
                    found[key.text] = inner
            elif key.text in foreign:
                self.ignored(key, f"{where}.{key.text}".lstrip("."), "SkyPilot uses it; it has no effect here")
            else:
                inside = f" in `{where}`" if where else ""
                self.wrong(key, f"no key is called {key.text!r}{inside}; {_hint(key.text, valid)}")
        return found

    def entries(self, tree: Tree | None, what: str) -> tuple[tuple[Scalar, Tree], ...]:
        """The entries of a mapping with free keys. `what`: "`envs` takes a mapping of names to values"."""
        if isinstance(tree, Table):
            return tree.entries
        if tree is not None:
            self.wrong(tree, what)
        return ()

    def value(self, tree: Tree | None, key: str, read: Callable[[str], T], default: T) -> T:
        """One value through `read`, whose ValueError says what is wrong; `default` if missing or bad."""
        if tree is None:
            return default
        if not isinstance(tree, Scalar):
            self.wrong(tree, f"`{key}` takes one value, not a {'list' if isinstance(tree, Items) else 'mapping'}")
            return default
        try:
            return read(tree.text)
        except ValueError as error:
            self.wrong(tree, f"`{key}`: {error}")
            return default

    def items(self, tree: Tree | None, key: str, *, tables: bool = False) -> tuple[Tree, ...]:
        """The items of a list (of mappings, with `tables`); a single value is a list of one."""
        if tree is None:
            return ()
        if isinstance(tree, Table if not tables else Scalar):
            self.wrong(tree, f"`{key}` takes a list{' of mappings' if tables else ''}")
            return ()
        return tree.items if isinstance(tree, Items) else (tree,)

    def words(self, tree: Tree | None, key: str, read: Callable[[str], str]) -> tuple[str, ...]:
        """A list of texts, each filled in and passed to `read`."""
        return tuple(self.value(self.filled(item), key, read, "") for item in self.items(tree, key))

    def one_of(self, tree: Tree, key: str, valid: Sequence[str]) -> str:
        """One of the `valid` words."""

        def read(text: str) -> str:
            if text not in valid:
                raise ValueError(f"{text!r} is unknown; {_hint(text, valid)}")
            return text

        return self.value(tree, key, read, "")

    def filled(self, tree: Tree, values: Mapping[str, str] | None = None) -> Tree:
        """A text that no shell reads, with declared names filled in; an undeclared one is a mistake."""
        if not isinstance(tree, Scalar):
            return tree
        known = self.values if values is None else values
        declared = [*known, *self.declared]
        for _, name in fill.undeclared(tree.text, declared)[:1]:
            near = names.nearest(name, declared)
            nearest = f"; the nearest is ${{{near}}}" if near else ""
            self.wrong(tree, f"nothing called ${{{name}}} is declared, and no shell expands this{nearest}")
        return Scalar(tree.line, tree.column, fill.fill(tree.text, known), tree.is_null)

    def shell(self, tree: Tree | None, key: str) -> str:
        """A text for bash, with declared names filled in where safe; a near miss is a mistake."""
        if tree is None:
            return ""
        text = self.value(tree, key, without_zero, "")
        for _, name, near in fill.near_misses(text, [*self.values, *self.declared]):
            self.wrong(tree, f"`{key}`: ${{{name}}} is declared nowhere; the nearest is ${{{near}}}")
        if isinstance(tree, Scalar) and not text.strip():
            self.wrong(tree, f"`{key}` is empty")
        return fill.fill_shell(text, self.values)

    def local_path(self, text: str) -> str:
        """A path on this machine, absolute; relative paths start at the job file's folder. Raises: ValueError."""
        if not text or "\x00" in text:
            raise ValueError("not a path")
        return os.path.normpath(os.path.join(self.folder, os.path.expanduser(text)))

    def is_env_name(self, key: Scalar, where: str) -> bool:
        """Whether `key` may be a user's environment variable; if not, it is recorded."""
        if not _ENV_NAME.fullmatch(key.text):
            self.wrong(key, f"`{where}`: {key.text!r} is not a valid environment variable name")
        elif key.text.startswith("SOJOURN_"):
            self.wrong(key, f"`{where}`: names that begin with SOJOURN_ are reserved")
        else:
            return True
        return False


_GPUS = re.compile(r"(?i)(?:n|num)?_?gpus?(?:_count|_per_node)?|cards?")  # what people type for accelerators


def _hint(wrong: str, valid: Sequence[str]) -> str:
    """The nearest valid word, or all of them."""
    if _GPUS.fullmatch(wrong):
        return 'say `resources: {accelerators: "A100:2"}`' if "resources" in valid else "`accelerators` counts GPUs"
    near = names.nearest(wrong, valid)
    return f"the nearest is {near!r}" if near else f"there are {', '.join(valid)}"
