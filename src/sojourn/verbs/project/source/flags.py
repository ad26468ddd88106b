"""What a script reads from outside: its flags (argparse, click, absl, typer, fire) and its environment."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

# Set by the machine, by sojourn, or by a launcher; never for the job file to say.
_THEIRS = re.compile(
    r"SOJOURN_|HOME$|PATH$|USER$|TMPDIR$|(LOCAL_|GROUP_)?RANK$|WORLD_SIZE$|MASTER_|SLURM_|CUDA_|OMP_|MKL_|PYTHON"
)
_READS = {("getenv", "os"), ("get", "environ"), ("getenv", "")}


@dataclass(frozen=True)
class Flag:
    """One flag. `name`: as typed (`--max-steps`; a positional has no dashes). `default`: a constant, or None."""

    name: str
    dest: str
    is_switch: bool = False
    is_required: bool = False
    default: object = None
    choices: tuple[object, ...] = ()
    said: str = ""  # its type and its help
    node: ast.expr | None = field(default=None, compare=False)  # its default, if that is no constant


def flags(tree: ast.Module) -> tuple[Flag, ...]:
    """Every flag the module declares, in the order of its lines; nothing where it declares them in another way."""
    found: list[Flag] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            found += _declared(node)
        elif isinstance(node, ast.FunctionDef) and _is_command(node, tree):
            found += _parameters(node)
    unique: dict[str, Flag] = {}
    for flag in found:
        unique.setdefault(flag.dest, flag)
    return tuple(unique.values())


def environment(tree: ast.Module) -> list[str]:
    """Names of environment variables that the module reads, sorted; WANDB_API_KEY where it imports wandb."""
    found = {"WANDB_API_KEY"} if _imports(tree, "wandb") else set()
    for node in ast.walk(tree):
        name: object = None
        if isinstance(node, ast.Subscript) and last(node.value) == "environ" and isinstance(node.ctx, ast.Load):
            name = constant(node.slice)
        elif isinstance(node, ast.Call) and node.args and (last(node.func), _owner(node.func)) in _READS:
            name = constant(node.args[0])
        if isinstance(name, str) and not _THEIRS.match(name):
            found.add(name)
    return sorted(found)


def last(node: ast.expr) -> str:
    """The last word of a dotted name: `save` of `torch.save`; "" for anything else."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def constant(node: ast.expr | None) -> object:
    """The value of a constant (also a negative number), else None."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = node.operand.value
        return -value if isinstance(value, (int, float)) else None
    return None


def _declared(call: ast.Call) -> Iterator[Flag]:
    words = [word for word in map(constant, call.args) if isinstance(word, str)]
    given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    name = last(call.func)
    if name in ("add_argument", "option", "Option") and words:
        yield from _argument(words, given)
    elif name.startswith("DEFINE_") and words:
        default = constant(call.args[1]) if len(call.args) > 1 else constant(given.get("default"))
        yield Flag("--" + words[0], words[0], is_switch=name == "DEFINE_bool", default=default)


def _argument(words: list[str], given: dict[str, ast.expr]) -> Iterator[Flag]:
    dashed = [word for word in words if word.startswith("-")]
    named = max(dashed, key=len).split("/")[0] if dashed else words[0]
    dest = constant(given.get("dest")) or named.lstrip("-").replace("-", "_")
    action = str(constant(given.get("action")) or "")
    nargs = str(constant(given.get("nargs")) or "")
    if action in ("help", "version"):
        return
    required = bool(constant(given.get("required"))) if dashed else nargs not in ("?", "*")
    choices = given.get("choices") or given.get("type")
    if isinstance(choices, ast.Call) and last(choices.func) == "Choice" and choices.args:  # click
        choices = choices.args[0]
    listed = choices.elts if isinstance(choices, (ast.List, ast.Tuple)) else []
    yield Flag(
        named,
        str(dest),
        is_switch=action.startswith("store_") or bool(constant(given.get("is_flag"))),
        is_required=required,
        default=constant(given.get("default")),
        choices=tuple(constant(element) for element in listed),
        node=given.get("default") if constant(given.get("default")) is None else None,
        said=f"{last(given['type']) if 'type' in given else ''} {constant(given.get('help')) or ''}",
    )


def _is_command(function: ast.FunctionDef, tree: ast.Module) -> bool:
    """Whether typer or fire turn this function's parameters into flags."""
    for mark in function.decorator_list:
        if isinstance(mark, ast.Call) and last(mark.func) == "command" and _imports(tree, "typer"):
            return True
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (last(node.func), _owner(node.func)) in (("Fire", "fire"), ("run", "typer")):
            return any(isinstance(arg, ast.Name) and arg.id == function.name for arg in node.args)
    return False


def _parameters(function: ast.FunctionDef) -> Iterator[Flag]:
    args = function.args
    plain = [*args.posonlyargs, *args.args]
    defaults: list[ast.expr | None] = [None] * (len(plain) - len(args.defaults)) + list(args.defaults)
    for arg, default in [*zip(plain, defaults, strict=True), *zip(args.kwonlyargs, args.kw_defaults, strict=True)]:
        value = constant(default)
        yield Flag("--" + arg.arg.replace("_", "-"), arg.arg, isinstance(value, bool), default is None, value)


def _owner(node: ast.expr) -> str:
    return last(node.value) if isinstance(node, ast.Attribute) else ""


def _imports(tree: ast.Module, module: str) -> bool:
    return any(
        isinstance(node, ast.Import) and any(name.name == module for name in node.names) for node in ast.walk(tree)
    )
