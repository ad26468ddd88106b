"""Paths that a training takes from its configuration files: the YAML files that its source names, key by key."""

from __future__ import annotations

import ast
import os
import posixpath
from collections.abc import Iterator, Sequence

from sojourn.store.job.tree import Problems, Scalar, Table, Tree, parse
from sojourn.verbs.project.source.flags import constant, last
from sojourn.verbs.project.source.paths import Module

_MOST_BYTES, _MOST_FILES, _DEEPEST = 1 << 18, 20, 8


def settings(root: str, modules: Sequence[Module]) -> dict[str, list[str]]:
    """The texts of each key, whatever it stands under. Raises: nothing."""
    found: dict[str, list[str]] = {}
    for path in list(dict.fromkeys(_files(root, modules)))[:_MOST_FILES]:
        try:
            full = os.path.join(root, path)
            if os.path.getsize(full) > _MOST_BYTES:
                continue
            with open(full, "rb") as f:
                tree = parse(f.read())
        except (OSError, Problems):
            continue
        for key, text in _texts(tree, 0):
            if text not in found.setdefault(key, []):
                found[key].append(text)
    return found


def _files(root: str, modules: Sequence[Module]) -> Iterator[str]:
    for module in modules:
        folder = posixpath.dirname(module.path)
        for node in ast.walk(module.tree):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and node.value.endswith((".yaml", ".yml"))
            ):
                yield from _there(root, folder, node.value)
            elif isinstance(node, ast.Call) and last(node.func) == "main":  # hydra.main
                given = {keyword.arg: constant(keyword.value) for keyword in node.keywords}
                at, name = given.get("config_path"), given.get("config_name")
                if isinstance(at, str) and isinstance(name, str):
                    yield from _there(root, folder, posixpath.join(at, name.removesuffix(".yaml") + ".yaml"))


def _there(root: str, folder: str, name: str) -> Iterator[str]:
    for path in (posixpath.normpath(posixpath.join(folder, name)), posixpath.normpath(name)):
        if not path.startswith(("/", "..")) and os.path.isfile(os.path.join(root, path)):
            yield path


def _texts(tree: Tree, depth: int) -> Iterator[tuple[str, str]]:
    if depth > _DEEPEST or isinstance(tree, Scalar):
        return
    for key, value in tree.entries if isinstance(tree, Table) else [(None, item) for item in tree.items]:
        if key is not None and isinstance(value, Scalar):
            if value.kind == "str" and not value.is_null and "${" not in value.text and "\n" not in value.text:
                yield key.text, value.text
        else:
            yield from _texts(value, depth + 1)
