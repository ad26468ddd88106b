"""The data that a script opens and that is not pushed: it lies here, and an ignore file leaves it out."""

from __future__ import annotations

import ast
import os
import posixpath
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from sojourn.store.ignore import rules_for
from sojourn.verbs.project.source.flags import constant, last
from sojourn.verbs.project.source.paths import GAP, PERIODIC, Names

# The last word of a call that reads -> which argument is the path.
_READERS = {
    **dict.fromkeys(("memmap", "fromfile", "loadtxt", "genfromtxt", "load", "load_file", "imread"), 0),
    **dict.fromkeys(("read_csv", "read_parquet", "read_json", "read_table", "read_pickle", "read_feather"), 0),
    **dict.fromkeys(("ImageFolder", "DatasetFolder", "load_from_disk", "listdir", "scandir", "open", "File"), 0),
    **dict.fromkeys(("MNIST", "FashionMNIST", "CIFAR10", "CIFAR100", "SVHN", "VOCDetection", "CocoDetection"), 0),
}
_MOST_FILES = 5000


@dataclass(frozen=True)
class Unpushed:
    """Data that stays here. `path`: relative to the working folder; `where`: file:line of the call that reads it;
    `line`: what to add to .sojournignore so that it is pushed.
    """

    path: str
    where: str
    bytes: int
    files: int
    line: str


def unpushed(root: str, names: Names, pushed: Collection[str]) -> list[Unpushed]:
    """What the modules read below `root` and `pushed` (relative paths) lacks, in the order of the source."""
    there = set(pushed)
    folders = {folder for path in there for folder in _above(path)}
    found: dict[str, Unpushed] = {}
    for module in names.modules:
        for node in sorted(ast.walk(module.tree), key=lambda node: getattr(node, "lineno", 0)):
            if isinstance(node, ast.Call):
                for text in _texts(node, names):
                    for path in _here(root, text):
                        if path not in there and path not in found and not (path in folders and not _file(root, path)):
                            found[path] = _told(root, path, f"{module.path}:{node.lineno}")
    return list(found.values())


def outside(root: str, names: Names) -> list[str]:
    """A line for each folder or file beside `root`, or anywhere else on this machine, that the modules read."""
    from sojourn.wire.units import say_bytes

    found: dict[str, str] = {}
    for module in names.modules:
        for node in [node for node in ast.walk(module.tree) if isinstance(node, ast.Call)]:
            for text in _texts(node, names):
                path = posixpath.normpath(os.path.expanduser(text)) if text.startswith(("/", "..", "~")) else ""
                if not path or path.startswith("/dev") or GAP in path or PERIODIC in path or path in found:
                    continue
                if os.path.exists(os.path.join(root, path)):
                    size = say_bytes(_told(root, path, "").bytes)
                    found[path] = (
                        f"{module.path}:{node.lineno} reads {text} ({size}), outside this folder, so it is not pushed: "
                        "put it on the box with `file_mounts`, or below this folder"
                    )
    return list(found.values())


def unpushed_at(root: str, path: str, pushed: Collection[str]) -> Unpushed | None:
    """What lies at `path` below `root`, if an ignore file keeps it from being pushed; None where it would go along, or
    is in `pushed`. Raises: BadIgnoreFile, OSError.
    """
    part = _left_out(root, path)
    return None if not part or path in pushed else _told(root, path, "")


def _texts(call: ast.Call, names: Names) -> list[str]:
    name = last(call.func)
    place = _READERS.get(name)
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    if place is None or constant(given.get("download")) is True:
        return []
    if len(call.args) <= place:
        return names.paths(given["root"]) if "root" in given else []
    mode = constant(call.args[1]) if name == "open" and len(call.args) > 1 else "r"
    if isinstance(mode, str) and set(mode) & set("wax"):
        return []
    return names.paths(call.args[place])


def _here(root: str, text: str) -> Iterator[str]:
    """The files or folders of the working folder that a text with gaps may mean."""
    text = posixpath.normpath(text) if text else ""
    if not text or text.startswith(("/", "..", "~")) or text == ".":
        return
    if GAP not in text and PERIODIC not in text and os.path.exists(os.path.join(root, text)):
        yield text
        return
    folder, name = posixpath.split(text)
    while folder and (GAP in folder or PERIODIC in folder or not os.path.isdir(os.path.join(root, folder))):
        folder = posixpath.dirname(folder)
    if not folder or GAP in name or PERIODIC in name:
        return
    left = _MOST_FILES  # another flag may have chosen the folder: a file of that name somewhere below
    for at, _, files in os.walk(os.path.join(root, folder)):
        left -= len(files)
        if name in files:
            yield posixpath.join(os.path.relpath(at, root), name)
        if left < 0:
            return


def _told(root: str, path: str, where: str) -> Unpushed:
    full = os.path.join(root, path)
    if os.path.isfile(full):
        files, size = 1, os.path.getsize(full)
    else:
        inside = [os.path.join(at, name) for at, _, names in os.walk(full) for name in names][:_MOST_FILES]
        files, size = len(inside), sum(os.path.getsize(one) for one in inside if os.path.isfile(one))
    return Unpushed(path, where, size, files, "!/" + _ignored(root, path))


def _ignored(root: str, path: str) -> str:
    """The outermost part of the path that an ignore file leaves out, or the path."""
    return _left_out(root, path) or (path if _file(root, path) else path + "/")


def _left_out(root: str, path: str) -> str:
    """The outermost part of the path that an ignore file leaves out, "" where none does: a file inside an ignored
    folder needs that folder. One of a folder has a / at its end.
    """
    rules = rules_for(os.path.abspath(root))
    for part in [*reversed(_above(path)), path]:
        full = os.path.join(os.path.abspath(root), part)
        is_folder = os.path.isdir(full)
        if rules.skips(full, is_folder):
            return part + "/" * is_folder
        if is_folder:
            rules = rules.below(full)
    return ""


def _above(path: str) -> list[str]:
    """The folders that a path lies in, the nearest first."""
    parts = path.split("/")
    return ["/".join(parts[:n]) for n in range(len(parts) - 1, 0, -1)]


def _file(root: str, path: str) -> bool:
    return os.path.isfile(os.path.join(root, path))


def in_words(found: Sequence[Unpushed]) -> list[str]:
    """A line for each: what is missing, where it is read, what to type."""
    from sojourn.wire.quote import join
    from sojourn.wire.units import say_bytes

    return [
        f"{one.where} reads {one.path} ({say_bytes(one.bytes)}), which an ignore file keeps from being pushed; "
        f"to push it: echo {join([one.line])} >> .sojournignore"
        for one in found
    ]
