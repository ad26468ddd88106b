"""What a library writes where the script names no path: Lightning's checkpoints, the runs of Ultralytics."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from sojourn.verbs.project.source.flags import constant, last
from sojourn.verbs.project.source.paths import Module, Names, as_glob

_TASKS = {"-seg": "segment", "-cls": "classify", "-pose": "pose", "-obb": "obb"}


def implied(call: ast.Call, module: Module, names: Names) -> Iterator[str]:
    """Globs of what the call writes by default."""
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    if last(call.func) == "Trainer" and imports(module, "lightning", "pytorch_lightning"):
        yield from _lightning(given, names)
    elif last(call.func) == "train" and isinstance(call.func, ast.Attribute) and imports(module, "ultralytics"):
        yield from _ultralytics(given, names)


def imports(module: Module, *libraries: str) -> bool:
    """Whether the module imports one of them."""
    for node in ast.walk(module.tree):
        named = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        named += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        if any(name.partition(".")[0] in libraries for name in named):
            return True
    return False


def _lightning(given: dict[str | None, ast.expr], names: Names) -> Iterator[str]:
    off = ("enable_checkpointing", "fast_dev_run")
    if any(name in given and bool(constant(given[name])) == (name == "fast_dev_run") for name in off):
        return
    for one in names.called("ModelCheckpoint"):
        if one.args or any(keyword.arg == "dirpath" for keyword in one.keywords):
            return  # it is found by itself
    root = names.paths(given["default_root_dir"])[0] if "default_root_dir" in given else ""
    folder = "checkpoints" if constant(given.get("logger")) is False else "lightning_logs/version_*/checkpoints"
    yield (as_glob(root) + "/" if root else "") + folder + "/*.ckpt"


def _ultralytics(given: dict[str | None, ast.expr], names: Names) -> Iterator[str]:
    model = next((str(constant(one.args[0])) for one in names.called("YOLO") if one.args), "")
    task = next((task for ending, task in _TASKS.items() if ending in model), "detect")
    project = as_glob(names.paths(given["project"])[0]) if "project" in given else f"runs/{task}"
    name = as_glob(names.paths(given["name"])[0]) if "name" in given else "train"
    yield f"{project}/{name}*/weights/*.pt"
    yield f"{project}/{name}*/results.csv"
