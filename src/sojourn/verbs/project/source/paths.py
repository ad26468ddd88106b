"""Which path an expression of the source names; what the source alone does not tell becomes a gap."""

from __future__ import annotations

import ast
import glob
import itertools
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sojourn.verbs.project.source.flags import Flag, constant, last

GAP, PERIODIC = "\ufdd0", "\ufdd1"  # an unknown part; an unknown part that counts epochs or steps (both: no letters)
DEEPEST, MOST, MOST_LOOKED_UP = 28, 8, 1000
_COUNTS = re.compile(r"epoch|step|iter|round|batch|^(i|e|n|it|ep|t|k)$", re.IGNORECASE)
# What the run's own environment says (docs/job-file.md): paths below the run's root.
_OURS = {"SOJOURN_CHECKPOINT_DIR": "checkpoints", "SOJOURN_RUN_DIR": ".", "SOJOURN_SCRATCH_DIR": "/scratch"}
_SAME = {"Path", "PurePath", "str", "fspath", "abspath", "realpath", "expanduser", "resolve", "absolute", "normpath"}

# `torch.save` is not a function `save` of the project.
LIBRARIES = frozenset(
    "torch th np numpy jnp jax joblib json os shutil pickle yaml random math time sys logging tqdm tf keras".split()
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """One parsed file. `path`: relative to the project, with `/`."""

    path: str
    tree: ast.Module
    flags: tuple[Flag, ...] = ()


@dataclass
class Names:
    """What names mean in a set of modules: values given to names and attributes, and calls of functions. `defaults`: of
    flags, beside those that the modules declare.
    """

    modules: Sequence[Module]
    defaults: Mapping[str, object] = field(default_factory=dict)
    settings: Mapping[str, Sequence[str]] = field(default_factory=dict)  # of configuration files, by key
    _given: dict[tuple[int, str], list[ast.expr]] = field(default_factory=dict)
    _attributes: dict[str, list[ast.expr]] = field(default_factory=dict)
    _calls: dict[str, list[ast.Call]] = field(default_factory=dict)
    inside: dict[int, Function] = field(default_factory=dict)  # id(node) -> the function it stands in
    where: dict[int, Module] = field(default_factory=dict)  # id(node) -> its module
    functions: dict[str, Function] = field(default_factory=dict)
    _classes: dict[int, str] = field(default_factory=dict)  # id(method) -> the name of its class
    _left: int = 0  # look-ups for the expression at hand
    _under_way: set[int] = field(default_factory=set)  # id(value) of names that are being looked up
    _fields: dict[str, list[ast.expr]] = field(default_factory=dict)  # of classes and of dicts, by name

    def __post_init__(self) -> None:
        declared = {
            flag.dest: flag.node if flag.default is None else flag.default
            for module in self.modules
            for flag in module.flags
        }
        self.defaults = {**declared, **self.defaults}
        for module in self.modules:
            self._read(module, module.tree, None)

    def _read(self, module: Module, node: ast.AST, function: Function | None) -> None:
        for child in ast.iter_child_nodes(node):
            self.where[id(child)] = module
            if function is not None:
                self.inside[id(child)] = function
            if isinstance(child, ast.Dict):
                for key, value in zip(child.keys, child.values, strict=True):
                    if isinstance(name := constant(key), str):
                        self._fields.setdefault(name, []).append(value)
            if isinstance(node, ast.ClassDef) and isinstance(child, (ast.Assign, ast.AnnAssign)) and child.value:
                for one in child.targets if isinstance(child, ast.Assign) else [child.target]:
                    self._fields.setdefault(last(one), []).append(_default(child.value))
            if isinstance(child, ast.Assign):
                for target in child.targets:
                    self._give(target, child.value, function)
            elif isinstance(child, (ast.AnnAssign, ast.NamedExpr)) and child.value is not None:
                self._give(child.target, child.value, function)
            elif isinstance(child, ast.Call):
                self._calls.setdefault(last(child.func), []).append(child)
            below = function
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                below = self.functions[child.name] = child
                if isinstance(node, ast.ClassDef):
                    self._classes[id(child)] = node.name
            self._read(module, child, below)

    def _give(self, target: ast.expr, value: ast.expr, function: Function | None) -> None:
        if isinstance(target, ast.Name):
            self._given.setdefault((id(function) if function else 0, target.id), []).append(value)
        elif isinstance(target, ast.Attribute):
            self._attributes.setdefault(target.attr, []).append(value)
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            for one, its in zip(target.elts, value.elts, strict=True):
                self._give(one, its, function)

    def called(self, name: str) -> Sequence[ast.Call]:
        """The calls whose last word is `name`."""
        return self._calls.get(name, [])

    def paths(self, node: ast.expr, depth: int = 0) -> list[str]:
        """The texts that `node` may be, at most MOST, with GAP and PERIODIC in them; never empty."""
        self._left = MOST_LOOKED_UP if depth == 0 else self._left - 1
        if depth > DEEPEST or self._left < 0:
            return [_gap(node)]
        texts = self._texts(node, depth + 1)
        return list(dict.fromkeys(texts))[:MOST] if texts else [_gap(node)]

    def _texts(self, node: ast.expr, depth: int) -> list[str]:
        if isinstance(node, ast.Constant):
            return [str(node.value)] if isinstance(node.value, (str, int)) else []
        if isinstance(node, ast.JoinedStr):
            return self._joined("", [self._part(value, depth) for value in node.values])
        if isinstance(node, ast.Name):
            return self._of_name(node, depth)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, depth)
        if isinstance(node, ast.BinOp):
            return self._operation(node, depth)
        if isinstance(node, ast.IfExp):
            return [text for text in self.paths(node.body, depth) + self.paths(node.orelse, depth) if text]
        if isinstance(node, ast.BoolOp):
            return [text for value in node.values for text in self.paths(value, depth) if text]
        if isinstance(node, ast.Subscript):
            name = constant(node.slice)
            if last(node.value) == "environ":
                return _environment(name)
            if last(node.value) == "parents" and isinstance(node.value, ast.Attribute) and isinstance(name, int):
                above = self.paths(node.value.value, depth)
                for _ in range(min(name, DEEPEST) + 1):
                    above = [posixpath.dirname(text) or "." for text in above]
                return above
            return self._named(name, depth) if isinstance(name, str) else []
        return self._call(node, depth) if isinstance(node, ast.Call) else []

    def _of_name(self, node: ast.Name, depth: int) -> list[str]:
        """What a name is set to. One that is set from itself, `d = join(out, d)`, is what it is last."""
        values = [one for one in self._values(node) if not _is_number(one) and id(one) not in self._under_way]
        anew = [one for one in values if any(isinstance(n, ast.Name) and n.id == node.id for n in ast.walk(one))]
        found: dict[int, list[str]] = {}
        for value in values:
            self._under_way.add(id(value))
            found[id(value)] = self.paths(value, depth)
            self._under_way.discard(id(value))
        last_ones = [text for value in anew for text in found[id(value)] if not text.startswith(GAP)]
        return last_ones or [text for value in values if value not in anew for text in found[id(value)]]

    def _part(self, node: ast.expr, depth: int) -> list[str]:
        return self.paths(node.value if isinstance(node, ast.FormattedValue) else node, depth)

    def _filled(self, template: ast.expr, place: str, values: Sequence[ast.expr], depth: int) -> list[str]:
        """A template with its places filled in order; with gaps where places and values do not pair off."""
        found: list[str] = []
        for text in self.paths(template, depth):
            fixed = re.split(place, text)
            paired = len(values) == len(fixed) - 1
            filled = [self.paths(value, depth) for value in values] if paired else [[_gap(*values)]] * (len(fixed) - 1)
            found += self._joined(
                "", [part for pair in zip([[f] for f in fixed], [*filled, [""]], strict=True) for part in pair]
            )
        return found

    def _joined(self, glue: str, parts: Iterable[list[str]]) -> list[str]:
        join = posixpath.join if glue == "/" else lambda *texts: glue.join(texts)
        return [join(*chosen) for chosen in itertools.islice(itertools.product(*parts), MOST)]

    def _values(self, node: ast.Name) -> list[ast.expr]:
        function = self.inside.get(id(node))
        if function is not None:
            local = self._given.get((id(function), node.id), [])
            if local and node.id not in [arg.arg for arg in _arguments(function)]:
                return local
            if local:
                return [*local, *self._passed(function, node.id)]
            if node.id in [arg.arg for arg in _arguments(function)]:
                return [] if _COUNTS.search(node.id) else self._passed(function, node.id)
        if node.id == "__file__" and id(node) in self.where:
            return [ast.Constant(self.where[id(node)].path)]
        return self._given.get((0, node.id), [])

    def _passed(self, function: Function, name: str) -> list[ast.expr]:
        """What callers pass as the parameter `name`, else its default."""
        arguments = [arg.arg for arg in _arguments(function)]
        found: list[ast.expr] = []
        called = self._classes.get(id(function), "") if function.name == "__init__" else function.name
        for call in self._calls.get(called, []):
            if self.inside.get(id(call)) is function:
                continue  # `save` that calls torch.save is not its own caller
            if isinstance(call.func, ast.Attribute) and last(call.func.value) in LIBRARIES:
                continue
            skipped = 1 if arguments[:1] in (["self"], ["cls"]) else 0
            place = arguments.index(name) - skipped
            if 0 <= place < len(call.args) and not any(isinstance(arg, ast.Starred) for arg in call.args):
                found.append(call.args[place])
            found += [keyword.value for keyword in call.keywords if keyword.arg == name]
        if found:
            return found
        flag = self.defaults.get(name)
        args = function.args
        padded = (
            [None] * (len(args.posonlyargs + args.args) - len(args.defaults)) + list(args.defaults) + args.kw_defaults
        )
        default = dict(zip(arguments, padded, strict=False)).get(name)
        return (
            [default]
            if default is not None and constant(default) is not None
            else [ast.Constant(flag)]
            if isinstance(flag, str)
            else []
        )

    def _attribute(self, node: ast.Attribute, depth: int) -> list[str]:
        if node.attr == "parent":
            return [posixpath.dirname(text) or "." for text in self.paths(node.value, depth)]
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            return [text for value in self._attributes.get(node.attr, []) for text in self.paths(value, depth)]
        default = self.defaults.get(node.attr)
        if isinstance(default, ast.expr):
            return self.paths(default, depth)
        return [default] if isinstance(default, str) else self._named(node.attr, depth)

    def _named(self, name: str, depth: int) -> list[str]:
        """What an attribute or a key of this name is set to anywhere, if that is one or two texts."""
        given = self._attributes.get(name, []) + self._fields.get(name, [])
        found = [text for value in given if not _is_number(value) for text in self.paths(value, depth)]
        found = list(dict.fromkeys([*self.settings.get(name, []), *found]))
        return found if len(found) <= 2 and not any(text[:1] in (GAP, PERIODIC) for text in found) else []

    def _returned(self, function: Function, depth: int) -> list[str]:
        """The paths that a function of the project returns."""
        given = [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value is not None]
        return [text for value in given if not _is_number(value) for text in self.paths(value, depth + 1)]

    def _operation(self, node: ast.BinOp, depth: int) -> list[str]:
        if isinstance(node.op, ast.Mod):
            values = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
            return self._filled(node.left, r"%[-+ 0#]*\d*(?:\.\d+)?[a-zA-Z]", values, depth)
        if isinstance(node.op, (ast.Add, ast.Div)):
            parts = [self.paths(node.left, depth), self.paths(node.right, depth)]
            return self._joined("/" if isinstance(node.op, ast.Div) else "", parts)
        return []

    def _call(self, node: ast.Call, depth: int) -> list[str]:
        name = last(node.func)
        inner = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        if (
            name in ("getenv", "get")
            and node.args
            and (name == "getenv" or last(inner[0] if inner else node) == "environ")
        ):
            ours = _environment(constant(node.args[0]))
            return ours or (self.paths(node.args[1], depth) if len(node.args) > 1 else [])
        if name == "format" and inner:
            values = [*node.args, *[keyword.value for keyword in node.keywords]]
            return self._filled(inner[0], r"\{[^{}]*\}", values, depth)
        if name == "join" and last(inner[0] if inner else node) == "path" or name == "joinpath":
            parts = [*inner, *node.args] if name == "joinpath" else node.args
            return self._joined("/", [self.paths(part, depth) for part in parts])
        if name == "with_suffix" and inner and node.args:
            stems = [posixpath.splitext(text)[0] for text in self.paths(inner[0], depth)]
            return self._joined("", [stems, self.paths(node.args[0], depth)])
        if name == "dirname" and node.args:
            return [posixpath.dirname(text) or "." for text in self.paths(node.args[0], depth)]
        if name in ("cwd", "getcwd"):
            return ["."]
        if name == "home" and not node.args and last(inner[0] if inner else node) == "Path":
            return ["~"]
        if name == "get_outdir":  # timm
            return self._joined("/", [self.paths(part, depth) for part in node.args])
        if name in self.functions and not inner:
            return self._returned(self.functions[name], depth)
        if name in _SAME:
            texts = [self.paths(part, depth) for part in (node.args or inner)]
            return self._joined("/", texts) if texts else ["."]
        return []


def as_glob(text: str) -> str:
    """A text with gaps as a glob: literal letters escaped, a gap is `*`, `./` and doubled parts gone."""
    parts = re.split(f"[{GAP}{PERIODIC}]+", text)
    path = posixpath.normpath("*".join(glob.escape(part) for part in parts)) if text else ""
    return re.sub(r"\*+", "*", path)


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not isinstance(node.value, str)  # a counter: its first value says nothing


def _default(node: ast.expr) -> ast.expr:
    """The default of a dataclass's field, `x` of `field(default=x)`; any other value as it is."""
    if isinstance(node, ast.Call) and last(node.func) == "field":
        return next((keyword.value for keyword in node.keywords if keyword.arg == "default"), ast.Constant(None))
    return node


def _environment(name: object) -> list[str]:
    return [_OURS[name]] if isinstance(name, str) and name in _OURS else []


def _arguments(function: Function) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def _gap(*nodes: ast.expr) -> str:
    words = [
        inner.id if isinstance(inner, ast.Name) else inner.attr if isinstance(inner, ast.Attribute) else ""
        for node in nodes
        for inner in ast.walk(node)
    ]
    return PERIODIC if any(_COUNTS.search(word) for word in words) else GAP
