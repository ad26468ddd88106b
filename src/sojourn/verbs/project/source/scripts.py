"""Finds the training script of a project: every Python file is scored by what it is called, takes and does."""

from __future__ import annotations

import ast
import os
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sojourn.verbs.project.source.flags import flags, last
from sojourn.verbs.project.source.paths import Module, Names
from sojourn.verbs.project.source.tree import walk
from sojourn.verbs.project.source.writes import writes

MOST_FILES, MOST_BYTES, DEEPEST = 2000, 1 << 20, 5
MOST_IMPORTED = 200
ENOUGH = 4  # a script with fewer points is not taken for a training script
_SKIPPED = {
    *("venv", "env", "site-packages", "node_modules", "build", "dist", "__pycache__", "tests", "test", "docs", "doc"),
    *("wandb", "mlruns", "checkpoints", "data", "datasets", "third_party", "vendor"),
}
_TRAINING = {"torch", "tensorflow", "keras", "jax", "flax", "sklearn", "transformers", "lightning", "pytorch_lightning"}
_NAMES = (
    (re.compile(r"^(train|training)$"), 5, "its name"),
    (
        re.compile(
            r"^(test_|conftest|setup$|eval|plot|predict|infer|download|convert|export|demo|util|model|dataset|record|watch"
            r"|monitor|visual|show|log|analy|report|summar|bench|profil|prepare|play|render)"
        ),
        -4,
        "",
    ),
    (re.compile(r"(^|_)(train|pretrain|finetune|fine_tune)(_|$|er$|ing$)"), 4, "its name"),
    (re.compile(r"^main$|(^|_)(sft|dpo|grpo|ppo|rlhf)(_|$)"), 3, "its name"),
    (re.compile(r"^(run|fit|experiment|__main__)$"), 2, "its name"),
)
_PROGRESS = re.compile(r"epoch|step|iter")


@dataclass(frozen=True)
class Script:
    """A script that may be the training. `module`: its dotted name where it must be run with `-m`, else ""."""

    source: Module
    score: int
    why: tuple[str, ...]
    module: str = ""
    import_root: str = ""  # folder that must be on PYTHONPATH for that, "" = the project itself


@dataclass(frozen=True)
class Project:
    """What was read. `scripts`: best first; `unread`: files that are not Python as this Python knows it."""

    root: str
    modules: dict[str, Module]
    scripts: tuple[Script, ...]
    unread: tuple[str, ...]
    notebooks: tuple[str, ...]
    shell_scripts: tuple[str, ...]

    def script(self, path: str) -> Script:
        """The module at that path, as a script."""
        known = next((one for one in self.scripts if one.source.path == path), None)
        return known or Script(self.modules[path], 0, ())

    def closure(self, script: Script) -> list[Module]:
        """The script and every module of the project that it imports, also by others; the script first."""
        found, todo = [script.source], [script.source]
        while todo:
            module = todo.pop()
            for path in _imported(module):
                other = self.modules.get(path)
                if other is not None and other not in found:
                    found.append(other)
                    todo.append(other)
        return found


def read_project(root: str) -> Project:
    """Read every Python file below `root` that is not hidden, not a test, not somebody else's. Raises: nothing."""
    modules: dict[str, Module] = {}
    unread, notebooks, shell = [], [], []
    for path in _files(root):
        if path.endswith(".ipynb"):
            notebooks.append(path)
        elif path.endswith(".sh"):
            shell.append(path)
        else:
            tree = _parse(os.path.join(root, path))
            if tree is None:
                unread.append(path)
            else:
                modules[path] = Module(path, tree, flags(tree))
    scored = [_script(module, modules) for module in modules.values()]
    best = sorted(
        (s for s in scored if s.score >= ENOUGH), key=lambda s: (-s.score, s.source.path.count("/"), s.source.path)
    )
    return Project(root, modules, tuple(best), tuple(unread), tuple(notebooks), tuple(shell))


def read_closure(root: str, starts: Iterable[str]) -> list[Module]:
    """The scripts `starts` (relative paths) and the project's modules that they import, also through others; at most
    MOST_IMPORTED. What is not Python is left out. Raises: nothing.
    """
    found: dict[str, Module] = {}
    todo = list(starts)
    while todo and len(found) < MOST_IMPORTED:
        path = todo.pop(0)
        full = os.path.join(root, path)
        tree = _parse(full) if path not in found and os.path.isfile(full) else None
        if tree is not None:
            found[path] = Module(path, tree, flags(tree))
            todo += _imported(found[path])
    return list(found.values())


def _files(root: str) -> Iterator[str]:
    found = 0
    for path, _ in walk(root):
        *folders, name = path.split("/")
        is_ours = not any(folder.startswith(".") or folder in _SKIPPED for folder in folders)
        if is_ours and len(folders) <= DEEPEST and name.endswith((".py", ".ipynb", ".sh")) and _is_text(path):
            found += 1
            if found > MOST_FILES:
                return
            yield path


def _is_text(path: str) -> bool:
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:  # a name that is not UTF-8 cannot stand in a YAML file
        return False
    return True


def _parse(path: str) -> ast.Module | None:
    try:
        if os.path.getsize(path) > MOST_BYTES:
            return None
        with open(path, "rb") as f, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the source's own strings deserve is not ours to say
            return ast.parse(f.read(), filename=path)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):  # ValueError: null bytes
        return None


def _script(module: Module, modules: dict[str, Module]) -> Script:
    score, why = 0, []
    stem = os.path.basename(module.path)[:-3].lower()
    for pattern, points, word in _NAMES:
        if pattern.search(stem):
            score += points
            why += [word] if word else []
            break
    imported = {name.split(".")[0] for name in _names_imported(module.tree)}
    words = [node for node in ast.walk(module.tree) if isinstance(node, (ast.Name, ast.Attribute))]
    called = {last(node.func) for node in ast.walk(module.tree) if isinstance(node, ast.Call)}
    if any(isinstance(node, ast.Name) and node.id == "__name__" for node in words):
        score += 2
        why.append("it is meant to be run")
    counting = [flag.name for flag in module.flags if _PROGRESS.search(flag.dest)]
    if module.flags:
        score += 2 if counting else 1
        why.append(f"it takes {counting[0] if counting else module.flags[0].name}")
    library = sorted(imported & _TRAINING) or (["sojourn.train"] if "sojourn" in imported else [])
    if library:
        score += 1
    if {"backward", "fit", "fit_generator", "minimize", "partial_fit"} & called or any(
        name.endswith("Trainer") or name == "Checkpointer" for name in called
    ):
        score += 3
        why.append("it trains" + (f" with {library[0]}" if library else ""))
    saved = [write for write in writes(Names([module])) if write.glob]
    if saved:
        score += 2
        why.append(f"it writes {saved[0].glob}")
    if not score or stem == "__init__" or not module.tree.body:
        return Script(module, 0, ())
    score -= min(3, module.path.count("/"))
    dotted, import_root = _dotted(module, modules)
    return Script(module, score, tuple(why), dotted, import_root)


def _dotted(module: Module, modules: dict[str, Module]) -> tuple[str, str]:
    """How the file is run as part of its package, and from which folder; ("", "") where it stands alone."""
    parts = module.path[:-3].split("/")
    start = len(parts) - 1
    while start > 0 and "/".join([*parts[:start], "__init__.py"]) in modules:
        start -= 1
    if start == len(parts) - 1:
        return "", ""
    inside = parts[start:-1] if parts[-1] == "__main__" else parts[start:]
    return ".".join(inside), "/".join(parts[:start])


def _names_imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            yield base
            yield from (f"{base}.{alias.name}" if node.module else f"{base}{alias.name}" for alias in node.names)


def _imported(module: Module) -> Iterator[str]:
    """Paths that the module's imports may mean, relative to the project: beside it, from the project, from src/."""
    folder = module.path.split("/")[:-1]
    for name in _names_imported(module.tree):
        level = len(name) - len(name.lstrip("."))
        parts = [part for part in name.lstrip(".").split(".") if part]
        starts = [folder[: len(folder) - level + 1]] if level else [folder, [], ["src"]]
        for start in starts:
            yield "/".join([*start, *parts]) + ".py"
            yield "/".join([*start, *parts, "__init__.py"])
