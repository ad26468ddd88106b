"""The rules of the house: reads a source tree and says where a line stands in the wrong room.

Judges text only, imports nothing of what it judges. docs/house.md explains each rule in words; tests/test_house.py
runs them on src/sojourn and, so that they are known to fire, on little trees that break them.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator, Set
from dataclasses import dataclass
from pathlib import Path

from scripts.house_source import Breach, Source
from scripts.old_python import old_python

# A room may import rooms on lower floors only. `testing` may import all and is imported by none.
FLOORS = {
    "wire": 0,
    "formats": 1,
    "core": 1,
    "box": 1,
    "train": 2,
    "store": 2,
    "backends": 3,
    "diagnose": 3,
    "verbs": 4,
    "cli": 5,
    "web": 5,
    "mcp": 5,
}
DOORLESS = {"data"}  # no code
MAX_LINES = 400
MAX_FILES = 25  # of a folder, beside its __init__
PLUGINS = {"cli/commands", "cli/show"}  # one file a command
BANNED_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "shared", "lib"}

# core and diagnose take time, chance and the outside as arguments.
PURE_ROOMS = {"core", "diagnose"}
IMPURE_MODULES = set(
    """os io time random secrets uuid subprocess socket shutil tempfile glob threading asyncio sqlite3
    urllib http logging""".split()
)
IMPURE_CALLS = {"open", "print", "input", "exec", "eval"}
IMPURE_METHODS = {
    "now",
    "utcnow",
    "today",
    "read_text",
    "read_bytes",
    "write_text",
    "write_bytes",
    "mkdir",
    "unlink",
    "iterdir",
}

# Slow to import. At module top only in a file whose docstring says `Wraps: NAME`, and such a file is itself imported
# at module top only by a file that wraps the same; so no command pays for what it does not use.
HEAVY = {"numpy", "yaml", "rich", "torch", "safetensors", "pathspec", "shtab", "sklearn", "urllib3", "keyring"}
HEAVY |= {"lightkube", "httpx2", "httpcore2", "wsproto"}

# Rooms that run where Python may be 3.8: stdlib names that came later. (vermin knows most others; these are methods.)
OLD_ROOMS = {"wire", "formats", "box", "train"}


@dataclass(frozen=True)
class Import:
    """One imported module: dotted name, the node, and whether it runs when the file is imported."""

    module: str
    node: ast.stmt
    is_at_top: bool


def breaches(package: Path) -> list[Breach]:
    """Every broken rule under `package` (the folder of the package itself), sorted by place."""
    found = [
        Breach(path.relative_to(package).as_posix() + ":1", "data", "data holds no code")
        for path in sorted(package.glob("data/**/*.py"))
    ]
    sources = []
    for path in sorted(package.rglob("*.py")):
        relative = path.relative_to(package)
        if "__pycache__" in relative.parts or relative.parts[0] in DOORLESS:
            continue
        room = relative.parts[0] if len(relative.parts) > 1 else ""
        text = path.read_text(encoding="utf-8")
        name = relative.as_posix()
        try:
            tree = ast.parse(text, filename=name)
        except SyntaxError as error:
            found.append(Breach(f"{name}:{error.lineno}", "syntax", str(error.msg)))
            continue
        sources.append(Source(path, name, room, tree, len(text.splitlines())))
    doors = {room: Door.of(room, sources) for room in sorted({s.room for s in sources if s.room})}
    wrappers = {dotted(package, source): wraps(source) for source in sources if wraps(source)}
    for door in doors.values():
        found += door.breaches()
    for source in sources:
        found += shape(source)
        found += imports_obey(package.name, source, doors.get(source.room), wrappers)
        found += handlers(source)
        if source.room in PURE_ROOMS:
            found += purity(source)
        if source.room in OLD_ROOMS or source.name in ("__init__.py", "__main__.py"):
            found += old_python(source)
    found += crowds(sources)
    found += circles(package, sources)
    return sorted(set(found), key=lambda b: (b.where.split(":")[0], int(b.where.rsplit(":", 1)[1]), b.rule))


@dataclass(frozen=True)
class Door:
    """What a room's `__init__` docstring allows: lines `Imports:` (rooms) and `Outside:` (third-party modules)."""

    room: str
    imports: frozenset[str]
    outside: frozenset[str]
    missing: tuple[str, ...]

    @classmethod
    def of(cls, room: str, sources: list[Source]) -> Door:
        """Read the door of `room`; what it lacks is in `missing`."""
        doc = next((s.doc for s in sources if s.name == f"{room}/__init__.py"), "")
        lines = {key: door_line(doc, key) for key in ("Imports", "Outside")}
        missing = tuple(key for key, words in lines.items() if words is None)
        return cls(room, frozenset(lines["Imports"] or ()), frozenset(lines["Outside"] or ()), missing)

    def may_import(self, room: str) -> bool:
        """Whether the floors let this room import `room`, whatever the door says."""
        if self.room == "testing":
            return True
        return room in FLOORS and self.room in FLOORS and FLOORS[room] < FLOORS[self.room]

    def breaches(self) -> list[Breach]:
        """What is wrong with the door itself."""
        where = f"{self.room}/__init__.py:1"
        found = [Breach(where, "door", f"the docstring has no line `{key}:`") for key in self.missing]
        if self.room not in FLOORS and self.room != "testing":
            found.append(
                Breach(where, "floor", f"{self.room} is no room of the house (docs/house.md, scripts/house.py)")
            )
        for room in sorted(self.imports - {"all"}):
            if not self.may_import(room):
                found.append(Breach(where, "floor", f"{self.room} may not import {room}: it is not on a lower floor"))
        if "all" in self.imports and self.room != "testing":
            found.append(Breach(where, "floor", "only testing may import all"))
        return found


def door_line(doc: str, key: str) -> list[str] | None:
    """The names after `key:`, without what stands in brackets; [] for none; None when there is no such line."""
    found = re.search(rf"(?:^|\s){key}:((?:(?!\s(?:Imports|Outside|Wraps):)[^\n])*)", doc)
    if found is None:
        return None
    words = re.findall(r"[A-Za-z_][\w.-]*", re.sub(r"\([^)]*\)?", " ", found.group(1)))
    return [word.rstrip(".") for word in words if word.rstrip(".") != "none"]


def wraps(source: Source) -> set[str]:
    """The heavy modules that this file says it wraps."""
    return set(door_line(source.doc, "Wraps") or ())


def dotted(package: Path, source: Source) -> str:
    """The import name of a file: sojourn.store.job.read."""
    parts = [package.name, *Path(source.name).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(tree: ast.Module, with_types: bool = True) -> Iterator[Import]:
    """Every import; those under `if TYPE_CHECKING:` never run and are never at top. Relative ones keep their dots."""

    def walk(node: ast.AST, at_top: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                yield from (Import(alias.name, child, at_top) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                module = "." * child.level + (child.module or "")
                yield Import(module, child, at_top)
                yield from (Import(f"{module}.{a.name}", child, at_top) for a in child.names if is_package(module))
            elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                yield from walk(child, False) if with_types else ()
            else:
                inside = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
                yield from walk(child, at_top and not inside)

    def is_package(module: str) -> bool:
        # `from sojourn import wire` names a room and `from sojourn.wire import atomic` may name a file.
        return module.split(".")[0] not in sys.stdlib_module_names and not module.startswith(".")

    yield from walk(tree, True)


def imports_obey(package: str, source: Source, door: Door | None, wrappers: dict[str, set[str]]) -> Iterator[Breach]:
    """Absolute imports, rooms as door and floors allow, outsiders as the door names them, heavy ones not at top."""
    for found in imports_of(source.tree):
        top, *rest = found.module.split(".")
        if found.module.startswith("."):
            yield source.breach(found.node, "absolute", f"import {found.module} by its full name")
        elif top == package:
            yield from room_import(source, door, found, rest)
            if found.is_at_top and found.module in wrappers and not wrappers[found.module] <= wraps(source):
                heavy = ", ".join(sorted(wrappers[found.module]))
                yield source.breach(found.node, "heavy", f"{found.module} loads {heavy}: import it where it is used")
        elif top not in sys.stdlib_module_names:
            if isinstance(found.node, ast.ImportFrom) and found.module != found.node.module:
                continue  # the names taken from an outside module are not modules of their own
            if door is not None and top not in door.outside:
                yield source.breach(found.node, "outside", f"the door of {door.room} does not name {top}")
            if door is None:
                yield source.breach(found.node, "outside", f"files of the package itself import no {top}")
            if top in HEAVY and found.is_at_top and top not in wraps(source):
                yield source.breach(found.node, "heavy", f"import {top} where it is used, or say `Wraps: {top}`")


def room_import(source: Source, door: Door | None, found: Import, rest: list[str]) -> Iterator[Breach]:
    """Judge `import sojourn.<rest>`."""
    if not rest or rest[0].startswith("__"):
        return
    room = rest[0]
    if room not in FLOORS and room != "testing":
        return  # a name of the package's own __init__
    if door is None:
        if found.is_at_top:
            yield source.breach(found.node, "lazy", f"{source.name} imports {room} only where it is used")
    elif room == "testing" and door.room != "testing":
        yield source.breach(found.node, "door", "testing is imported by no other room")
    elif room != door.room and room not in door.imports and "all" not in door.imports:
        yield source.breach(found.node, "door", f"the door of {door.room} does not allow {room}")


def shape(source: Source) -> Iterator[Breach]:
    """Length, names, and a docstring on the file and on every public function and class."""
    if source.lines > MAX_LINES:
        yield source.breach(None, "length", f"{source.lines} lines; split at {MAX_LINES}")
    for part in Path(source.name).with_suffix("").parts:
        if part in BANNED_NAMES:
            yield source.breach(None, "name", f"a file called {part} says nothing about what is in it")
    if not source.doc:
        yield source.breach(None, "docstring", "the file does not say what it is for")
    for node in source.tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            if not ast.get_docstring(node) and not is_overload(node):
                yield source.breach(node, "docstring", f"{node.name} is public and says nothing of its contract")


def crowds(sources: list[Source]) -> Iterator[Breach]:
    """No folder of so many files that nobody reads its list."""
    folders = Counter(source.path.parent for source in sources if source.path.name != "__init__.py")
    names = {source.path.parent: source.name.rpartition("/")[0] for source in sources}
    for folder, count in folders.items():
        if count > MAX_FILES and names[folder] not in PLUGINS:
            yield Breach(f"{names[folder]}:1", "crowd", f"{count} files; more than {MAX_FILES} want rooms of their own")


def circles(package: Path, sources: list[Source]) -> Iterator[Breach]:
    """No file that, by whatever way and however late, imports itself; and no folder of a room that does so by others.

    A file that lies directly in its room is a place of its own.
    """
    files = {dotted(package, source).split(".", 1)[-1]: source for source in sources if source.room}
    arrows: dict[str, set[str]] = {name: set() for name in files}
    for name, source in files.items():
        arrows[name] = goals_of(source, f"{package.name}.", files.keys()) - {name}
    places = {name: place_of(name, source) for name, source in files.items()}
    between: dict[str, set[str]] = {place: set() for place in places.values()}
    for name, goals in arrows.items():
        between[places[name]] |= {places[goal] for goal in goals} - {places[name]}
    for ring in [*rings(arrows), *rings(between)]:
        where = next(source.name for name, source in sorted(files.items()) if ring[0] in (name, places[name]))
        yield Breach(f"{where}:1", "circle", " -> ".join([*ring, ring[0]]))


def goals_of(source: Source, package: str, files: Set[str]) -> set[str]:
    """What a file imports of these files, without a folder that only leads to one of them."""
    by_node: dict[ast.stmt, set[str]] = {}
    for found in imports_of(source.tree, with_types=False):
        goal = found.module.removeprefix(package)
        if goal in files and goal != found.module:
            by_node.setdefault(found.node, set()).add(goal)
    return {
        goal for goals in by_node.values() for goal in goals if not any(other.startswith(f"{goal}.") for other in goals)
    }


def place_of(name: str, source: Source) -> str:
    """The folder of a room in which a file lies, as `verbs.launch/`; the file itself where it lies in the room."""
    parts = name.split(".")
    is_folder = len(parts) > 2 or (len(parts) == 2 and source.path.name == "__init__.py")
    return ".".join(parts[:2]) + "/" if is_folder else name


def rings(arrows: dict[str, set[str]]) -> list[list[str]]:
    """One way round of each group that can be left and come back to; none twice."""
    found, done = [], set()
    for start in sorted(arrows):
        if start in done:
            continue
        before: dict[str, str] = {}
        row = [start]
        while row and start not in before:
            at = row.pop(0)
            for goal in sorted(arrows.get(at, ())):
                if goal not in before and goal not in done:
                    before[goal] = at
                    row.append(goal)
        if start in before:
            ring = [start]
            while before[ring[0]] != start:
                ring.insert(0, before[ring[0]])
            found.append(ring[-1:] + ring[:-1])
        done.add(start)
    return found


def is_overload(node: ast.AST) -> bool:
    """Whether this is one of several typing.overload signatures."""
    return any("overload" in ast.dump(decorator) for decorator in getattr(node, "decorator_list", ()))


def handlers(source: Source) -> Iterator[Breach]:
    """No handler that takes everything and does nothing."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ExceptHandler):
            caught = ast.unparse(node.type) if node.type else ""
            idle = all(isinstance(s, (ast.Pass, ast.Continue)) or s_is_ellipsis(s) for s in node.body)
            if idle and (not caught or re.search(r"\b(Base)?Exception\b", caught)):
                yield source.breach(
                    node, "swallow", "catches everything and does nothing; catch narrowly, or let it fly"
                )


def s_is_ellipsis(node: ast.stmt) -> bool:
    """Whether the statement is a bare constant such as `...`."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def purity(source: Source) -> Iterator[Breach]:
    """No I/O, clock or chance."""
    for found in imports_of(source.tree):
        top = found.module.split(".")[0]
        if top in IMPURE_MODULES or found.module == "pathlib.Path":
            yield source.breach(found.node, "pure", f"{source.room} takes what {found.module} gives as an argument")
        if isinstance(found.node, ast.ImportFrom) and found.module == "pathlib":
            if any(alias.name in ("Path", "PosixPath") for alias in found.node.names):
                yield source.breach(found.node, "pure", f"{source.room} may use PurePath; Path touches the disk")
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS:
            yield source.breach(node, "pure", f"{source.room} calls {node.func.id}()")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in IMPURE_METHODS:
            yield source.breach(node, "pure", f"{source.room} calls .{node.func.attr}()")
