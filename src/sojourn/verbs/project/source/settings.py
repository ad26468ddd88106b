"""Paths that a training takes from its configuration files: the YAML files that its source names, key by key."""

from __future__ import annotations

import ast
import os
import posixpath
from collections.abc import Iterator, Sequence
from typing import Any

from sojourn.verbs.project.source.flags import constant, last
from sojourn.verbs.project.source.paths import Module

_MOST_BYTES, _MOST_FILES = 1 << 18, 20


def settings(root: str, modules: Sequence[Module]) -> dict[str, list[str]]:
    """The texts of each key, whatever it stands under. Raises: nothing."""
    import yaml

    found: dict[str, list[str]] = {}
    for path in list(dict.fromkeys(_files(root, modules)))[:_MOST_FILES]:
        try:
            full = os.path.join(root, path)
            if os.path.getsize(full) > _MOST_BYTES:
                continue
            with open(full, encoding="utf-8") as f:
                tree = yaml.safe_load(f)
        except (OSError, ValueError, yaml.YAMLError, RecursionError):
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


def _texts(tree: Any, depth: int) -> Iterator[tuple[str, str]]:
    if depth > 8:
        return
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
        if isinstance(value, str) and isinstance(key, str) and "${" not in value and "\n" not in value:
            yield key, value
        else:
            yield from _texts(value, depth + 1)
