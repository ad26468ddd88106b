"""A YAML text -> a small tree that knows the location of each part. `keys` decides what the text means.

Scalars keep their text as written, so none of YAML 1.1's guesses happen: `on` and `yes` are words, 12:30 is 12:30, 0.10
keeps its zero. Aliases and merge keys work, within bounds that stop YAML bombs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sojourn.wire.errors import Misuse

if TYPE_CHECKING:
    import yaml

LIMIT_BYTES = 256 << 10
_MAX_NODES = 20_000
_MAX_DEPTH = 30
_CORE = "tag:yaml.org,2002:"


class BadJobFile(Misuse):
    """{path}:{line}:{column}: {what}"""

    code = "bad-job-file"


@dataclass(frozen=True)
class Scalar:
    """A text as written. `is_null`: nothing, `~` or `null`, unquoted."""

    line: int
    column: int
    text: str
    is_null: bool = False
    kind: str = "str"  # what YAML would make of it: int, bool, float, str, ...


@dataclass(frozen=True)
class Items:
    """A list."""

    line: int
    column: int
    items: tuple[Tree, ...]


@dataclass(frozen=True)
class Table:
    """A mapping; keys are texts, in the order written, each once."""

    line: int
    column: int
    entries: tuple[tuple[Scalar, Tree], ...]


Tree = Scalar | Items | Table


@dataclass(frozen=True)
class Problem:
    """Something wrong at one location."""

    line: int
    column: int
    what: str


class Problems(Exception):
    """What prevents a tree. Internal: `spec.read_job` turns it into BadJobFile."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        super().__init__(*problems)


def parse(data: bytes) -> Tree:
    """The tree of one YAML document. Raises: Problems."""
    text = _text(data)
    import yaml

    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.reader.ReaderError as error:
        line, column = _place(text, error.position)
        what = f"the character U+{ord(text[error.position]):04X} is not allowed here"
        raise Problems(Problem(line, column, what)) from None
    except yaml.MarkedYAMLError as error:
        raise Problems(_marked(error)) from None
    except RecursionError:
        raise Problems(Problem(1, 1, f"nested deeper than {_MAX_DEPTH} levels")) from None
    if node is None:
        raise Problems(Problem(1, 1, "the file is empty; `sojourn init` writes one that runs"))
    return _Grower().grow(node)


def _text(data: bytes) -> str:
    if len(data) > LIMIT_BYTES:
        raise Problems(Problem(1, 1, f"larger than {LIMIT_BYTES >> 10} KiB: this is not a job file"))
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise Problems(Problem(1, 1, "this is UTF-16; save it as UTF-8"))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, column = _place(data[: error.start].decode("utf-8", "replace"), error.start)
        what = f"the byte 0x{data[error.start]:02x} is not UTF-8; save it as UTF-8"
        raise Problems(Problem(line, column, what)) from None


def _place(text: str, position: int) -> tuple[int, int]:
    before = text[:position]
    return before.count("\n") + 1, len(before) - before.rfind("\n")


def _marked(error: Any) -> Problem:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    what = str(error.problem or error.context or "not YAML")
    if "'\\t'" in what:
        what = "a tab; indent YAML with spaces"
    elif "single document" in str(error.context):
        what = "a second document begins; a job file holds one job"
    elif error.context and error.problem:
        what = f"{error.problem} ({error.context})"
    return Problem(line, column, what)


class _Grower:
    """yaml nodes -> Tree. Counts each visit: an alias counts every time it is used."""

    def __init__(self) -> None:
        self._visited = 0

    def grow(self, node: yaml.Node, depth: int = 0) -> Tree:
        import yaml

        line, column = node.start_mark.line + 1, node.start_mark.column + 1
        self._visited += 1
        if depth > _MAX_DEPTH or self._visited > _MAX_NODES:
            what = f"nested deeper than {_MAX_DEPTH} levels" if depth > _MAX_DEPTH else f"over {_MAX_NODES} values"
            raise Problems(Problem(line, column, f"{what} (aliases counted)"))
        if not node.tag.startswith(_CORE) or node.tag.startswith(_CORE + "python"):
            raise Problems(Problem(line, column, f"a job file cannot use the tag {node.tag}"))
        if isinstance(node, yaml.ScalarNode):
            return Scalar(line, column, node.value, node.tag == _CORE + "null", node.tag.removeprefix(_CORE))
        if isinstance(node, yaml.SequenceNode):
            return Items(line, column, tuple(self.grow(item, depth + 1) for item in node.value))
        return Table(line, column, tuple(self._entries(node, depth).values()))

    def _entries(self, node: Any, depth: int) -> dict[str, tuple[Scalar, Tree]]:
        own: dict[str, tuple[Scalar, Tree]] = {}
        merged: dict[str, tuple[Scalar, Tree]] = {}
        for key_node, value_node in node.value:
            key = self.grow(key_node, depth + 1)
            if not isinstance(key, Scalar):
                raise Problems(Problem(key.line, key.column, "a key must be a plain word"))
            value = self.grow(value_node, depth + 1)
            if key_node.tag == _CORE + "merge":
                merged = _merged(value) | merged
            elif key.text in own:
                what = f"{key.text!r} appears twice, first on line {own[key.text][0].line}"
                raise Problems(Problem(key.line, key.column, what))
            else:
                own[key.text] = (key, value)
        return merged | own


def _merged(value: Tree) -> dict[str, tuple[Scalar, Tree]]:
    """Entries that `<<:` brings in; the first of several mappings wins."""
    tables = value.items if isinstance(value, Items) else (value,)
    found: dict[str, tuple[Scalar, Tree]] = {}
    for table in reversed(tables):
        if not isinstance(table, Table):
            raise Problems(Problem(value.line, value.column, "`<<` takes a mapping, or a list of them"))
        found |= {key.text: (key, inner) for key, inner in table.entries}
    return found


def is_null(tree: Tree) -> bool:
    """Whether nothing is written there."""
    return isinstance(tree, Scalar) and tree.is_null
