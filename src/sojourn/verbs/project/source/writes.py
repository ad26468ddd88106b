"""The files a script writes: calls that save, and the paths they are given."""

from __future__ import annotations

import ast
import fnmatch
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sojourn.verbs.project.source.flags import constant, last
from sojourn.verbs.project.source.libraries import implied, imports
from sojourn.verbs.project.source.paths import GAP, PERIODIC, Module, Names, as_glob

# The last word of a call -> which argument is the path (None: the value that the method belongs to), and its keyword.
_SAVERS: dict[str, tuple[int | None, tuple[str, ...]]] = {
    "save": (1, ("f",)),
    "dump": (1, ("filename", "fp")),
    "savez": (0, ("file",)),
    "savez_compressed": (0, ("file",)),
    "savetxt": (0, ("fname",)),
    "save_file": (1, ("filename",)),
    "savefig": (0, ("fname",)),
    "imsave": (0, ("fname",)),
    "imwrite": (0, ("filename",)),
    "to_csv": (0, ("path_or_buf",)),
    "to_json": (0, ("path_or_buf",)),
    "to_parquet": (0, ("path",)),
    "to_pickle": (0, ("path",)),
    "to_feather": (0, ("path",)),
    "to_excel": (0, ("excel_writer",)),
    "write_table": (1, ("where",)),
    "save_weights": (0, ("filepath",)),
    "save_checkpoint": (0, ("filepath",)),
    "write_text": (None, ()),
    "write_bytes": (None, ()),
    "copy": (1, ("dst",)),
    "copy2": (1, ("dst",)),
    "copyfile": (1, ("dst",)),
    "move": (1, ("dst",)),
    "replace": (1, ("dst",)),
    "rename": (1, ("dst",)),
}
# Calls that write a whole folder.
_FOLDERS: dict[str, tuple[int | None, tuple[str, ...]]] = {
    "save_pretrained": (0, ("save_directory",)),
    "save_model": (0, ("output_dir",)),
    "save_state": (0, ("output_dir",)),
    "ModelCheckpoint": (0, ("dirpath",)),
    "CheckpointSaver": (None, ("checkpoint_dir",)),  # timm
    "CheckpointManager": (0, ("directory",)),  # orbax, TensorFlow
    "CheckpointCallback": (1, ("save_path",)),  # stable-baselines3
    "BackupAndRestore": (0, ("backup_dir",)),  # Keras
    "EvalCallback": (None, ("best_model_save_path",)),
}
_ARGUMENTS = re.compile(r"\w*TrainingArguments|(SFT|DPO|GRPO|ORPO|KTO|PPO|RLOO|CPO|Reward)Config")
_FIRST_ARGUMENT = {("np", "save"), ("numpy", "save"), ("jnp", "save"), ("cv2", "imwrite")}
_MOVES = {"copy": "shutil", "copy2": "shutil", "copyfile": "shutil", "move": "shutil", "replace": "os", "rename": "os"}
_UNOWED = re.compile(r"(\.tmp|\.temp|\.lock|\.pid|\.log|~)$|^(/dev/|<)|(^|/)(wandb|mlruns|lightning_logs)(/|$)")


@dataclass(frozen=True)
class Write:
    """One place that writes. `glob`: relative to the working copy; "" where the source does not tell the path."""

    glob: str
    how: str
    where: str  # file:line
    is_periodic: bool = False  # one file for each epoch or step
    node: int = 0  # id of the call


def writes(names: Names, calls: Sequence[ast.Call] | None = None) -> tuple[Write, ...]:
    """Every write in the modules, in their order; of `calls` alone, if given. Temporary files, logs and what trackers
    write are left out.
    """
    found: list[Write] = []
    moved: set[str] = set()
    made = None if calls is None else {id(call) for call in calls}
    for module in names.modules:
        for node in sorted(ast.walk(module.tree), key=lambda node: getattr(node, "lineno", 0)):
            if isinstance(node, ast.Call) and not _is_own(node, names) and (made is None or id(node) in made):
                moved.update(as_glob(text) for text in _moved(node, names))
                found += (replace(write, node=id(node)) for write in _of(node, module, names))
    unique: dict[str, Write] = {}
    for write in sorted(found, key=lambda write: not write.glob):
        if write.glob not in moved and (write.glob.endswith(".ckpt") or not _UNOWED.search(write.glob)):
            unique.setdefault(write.glob or write.where, write)
    return tuple(unique.values())


def _of(call: ast.Call, module: Module, names: Names) -> Iterator[Write]:
    where, how = f"{module.path}:{call.lineno}", ast.unparse(call.func)
    if not re.fullmatch(r"[\w.]{1,40}", how):
        how = last(call.func)
    if how == "Checkpointer" or how.endswith(".Checkpointer"):
        yield from _checkpointer(call, where, names)
        return
    for text in implied(call, module, names):
        yield Write(text, how, where)
    path = _path(call, module)
    if path is None or _is_handle(path, names):
        return
    ends = _ending(call, how, module)
    texts = names.paths(path)
    globs = [glob for glob in map(as_glob, texts) if re.search(r"\w", glob)]
    for text in texts:
        if text == PERIODIC or any(as_glob(text) != one and fnmatch.fnmatch(as_glob(text), one) for one in globs):
            continue  # a number, as orbax is given; or another text says it, too
        if ends.startswith(".") and posixpath.splitext(text)[1]:
            ends = ""
        known = text.replace(GAP, "").replace(PERIODIC, "").strip("./")
        yield Write(as_glob(text) + ends if known else "", how, where, PERIODIC in text)


def _is_own(call: ast.Call, names: Names) -> bool:
    """Whether the project defines what is called: then the write is found inside of it."""
    owner = last(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    return last(call.func) in names.functions and owner not in (
        "torch",
        "np",
        "numpy",
        "jnp",
        "joblib",
        "json",
        "os",
        "shutil",
    )


def _ending(call: ast.Call, how: str, module: Module) -> str:
    """What the call adds to the path that it is given."""
    name = last(call.func)
    if name == "ModelCheckpoint" and imports(module, "keras", "tensorflow"):
        return ""  # Keras names the file
    if name in _FOLDERS or _ARGUMENTS.fullmatch(name) or (name == "save_checkpoint" and _is_folder(module)):
        return "/*"
    if how in ("np.save", "numpy.save"):
        return ".npy"
    return ".zip" if name == "save" and len(call.args) == 1 and imports(module, "stable_baselines3") else ""


def _is_folder(module: Module) -> bool:
    """Whether `save_checkpoint` is given a folder: DeepSpeed's and flax's are."""
    return imports(module, "deepspeed", "flax")


def _path(call: ast.Call, module: Module) -> ast.expr | None:
    name = last(call.func)
    owner = last(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    if name == "open":
        return _opened(call)
    if _ARGUMENTS.fullmatch(name):
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        return given.get("output_dir") or (call.args[0] if call.args else None)
    if name not in _SAVERS and name not in _FOLDERS:
        return None
    if name in _MOVES and owner != _MOVES[name]:
        # str.replace takes two, datetime.replace and dataclasses.replace take keywords
        is_path = name in ("replace", "rename") and len(call.args) == 1 and not call.keywords and owner != "dataclasses"
        return call.args[0] if is_path and isinstance(call.func, ast.Attribute) else None
    if name == "dump" and owner not in ("joblib", "cloudpickle"):
        return None  # json.dump and pickle.dump are given a handle; its open() is found by itself
    if name == "save_checkpoint" and owner not in ("trainer", "self") and not _is_folder(module):
        return None
    place, keywords = {**_SAVERS, **_FOLDERS}[name]
    if name == "save_checkpoint" and _is_folder(module):
        keywords = ("save_dir", "ckpt_dir")
    if name == "ModelCheckpoint" and imports(module, "keras", "tensorflow"):
        keywords = ("filepath",)
    if place is None and not keywords:
        return call.func.value if isinstance(call.func, ast.Attribute) else None
    if name == "save_model" and len(call.args) > 1:
        place = 1  # Accelerate's is given the model first
    if (owner, name) in _FIRST_ARGUMENT or (name == "save" and len(call.args) == 1):
        place = 0
    for keyword in call.keywords:
        if keyword.arg in keywords:
            return keyword.value
    return call.args[place] if place is not None and place < len(call.args) else None


def _opened(call: ast.Call) -> ast.expr | None:
    """The path of `open(path, "w")` and of `path.open("w")`; None where it reads."""
    is_method = isinstance(call.func, ast.Attribute) and last(call.func.value) not in (
        "io",
        "gzip",
        "bz2",
        "lzma",
        "os",
    )
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    place = 0 if is_method else 1
    mode = constant(call.args[place] if len(call.args) > place else given.get("mode"))
    if not isinstance(mode, str) or not set(mode) & set("wax"):
        return None
    if is_method and isinstance(call.func, ast.Attribute):
        return call.func.value
    return call.args[0] if call.args else given.get("file")


def _is_handle(path: ast.expr, names: Names) -> bool:
    """Whether `path` is what `with open(...) as f` or `io.BytesIO()` gave: the file is named where it was opened."""
    if isinstance(path, ast.Call):
        return last(path.func) in ("open", "BytesIO", "StringIO")
    if not isinstance(path, ast.Name):
        return isinstance(path, ast.Attribute) and path.attr in ("buffer", "stdout")
    function = names.inside.get(id(path))
    scope: ast.AST = function if function is not None else names.where[id(path)].tree
    for node in ast.walk(scope):
        if (
            isinstance(node, ast.withitem)
            and isinstance(node.optional_vars, ast.Name)
            and node.optional_vars.id == path.id
        ):
            return True
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and _is_handle(node.value, names):
            if any(isinstance(target, ast.Name) and target.id == path.id for target in node.targets):
                return True
    return False


def _moved(call: ast.Call, names: Names) -> list[str]:
    """What a call moves away: `os.replace(here, there)`, `path.replace(there)`."""
    name = last(call.func)
    if name not in ("replace", "rename", "move") or not isinstance(call.func, ast.Attribute) or not call.args:
        return []
    if last(call.func.value) in ("os", "shutil"):
        return names.paths(call.args[0])
    return names.paths(call.func.value) if len(call.args) == 1 else []


def _checkpointer(call: ast.Call, where: str, names: Names) -> Iterator[Write]:
    """`sojourn.train.Checkpointer`: best.pt and ckpt-*.pt in its folder (`train.saving.folder` says the names)."""
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    folder = as_glob(names.paths(given["folder"])[0]) if "folder" in given else "checkpoints"
    if "best" in given:
        yield Write(f"{folder}/best.pt", "Checkpointer(best=...)", where)
    yield Write(f"{folder}/ckpt-*.pt", "Checkpointer", where, is_periodic=True)
