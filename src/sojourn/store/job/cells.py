"""The cells of a job's sweep: a name, values and a job file for each. Reads the queue file; refuses names that collide.

A cell's name comes only from its own values, so it stays the same whatever cells are added.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace

from sojourn.core.draw import draw
from sojourn.store.job.fill import fill, fill_shell, undeclared
from sojourn.store.job.values import QUEUE_NAMES, JobFile
from sojourn.wire import names
from sojourn.wire.errors import Misuse

LONGEST = 63  # characters of a run's name
MARK = 10  # hex digits of the values' digest, where the name alone is ambiguous
LIMIT_BYTES = 8 << 20
_PLAIN = re.compile(r"[a-z0-9.]([a-z0-9._-]*[a-z0-9])?|-[a-z0-9.]*[a-z0-9]")
_NOT_EACH = ("site", "workdir", "candidates", "file_mounts")


class BadQueue(Misuse):
    """{path}:{line}: {what}{more}"""

    code = "bad-queue"


class BadCells(Misuse):
    """{path}: {what}"""

    code = "bad-cells"


@dataclass(frozen=True)
class Cell:
    """One cell. `name`: its run's; `where`: its line in the queue file or place in the job file, for people."""

    name: str
    values: Mapping[str, str] = field(default_factory=dict)
    epochs: int | None = None
    where: str = ""


def sweep_name(job: JobFile) -> str:
    """The name of the job's sweep: the job's, without the parts a cell fills in."""
    return names.as_name(re.sub(r"[._-]*\$\{[^}]*\}", "", job.name))


def expand(job: JobFile) -> tuple[Cell, ...]:
    """Every cell of the job's sweep, in the order written; matrices by their last name first.

    10,000 in well under a second. Raises: BadQueue (every bad line), BadCells (duplicate names, no cells, a part of the
    job file that must be the same for all cells).
    """
    sweep = job.sweep
    assert sweep is not None
    declared = sweep.names
    for key in _NOT_EACH:
        if any(name in declared for text in _texts(getattr(job, key)) for _, name in undeclared(text, ())):
            raise BadCells(
                path=job.path, what=f"`{key}` applies to every cell: it cannot contain a ${{NAME}} of the sweep"
            )
    if sweep.queue:
        return _of_queue(job, sweep.queue)
    rows: Iterator[tuple[str, Mapping[str, str]]]
    if sweep.matrix:
        rows = (
            (_joined(dict(zip(sweep.matrix, row, strict=True))), dict(zip(sweep.matrix, row, strict=True)))
            for row in itertools.product(*sweep.matrix.values())
        )
    elif sweep.random:
        drawn = (
            {name: draw(space, sweep.seed, n, name) for name, space in sweep.random.items()} for n in range(sweep.count)
        )
        rows = ((f"r{n}", values) for n, values in enumerate(drawn))  # by number: two may draw the same
    else:
        rows = iter(sweep.cells)
    cells = tuple(
        Cell(_named(job, text, values), values, _epochs(values), f"cell {n}")
        for n, (text, values) in enumerate(rows, 1)
    )
    if not cells:
        raise BadCells(path=job.path, what="the sweep has no cells")
    known: dict[str, Cell] = {}
    for cell in cells:
        other = known.setdefault(cell.name, cell)
        if other is not cell:
            what = f"{other.where} and {cell.where} of the sweep are both called {cell.name}; a name needs every value"
            raise BadCells(path=job.path, what=what)
    return cells


def job_of(job: JobFile, cell: Cell) -> JobFile:
    """The job file for one cell: its name, its values in `envs` and in place of `${NAME}`."""
    values = {**job.envs, **cell.values}
    envs = {name: fill(value, cell.values) for name, value in job.envs.items()}
    return replace(
        job,
        name=cell.name,
        envs={**envs, **cell.values},
        outputs=tuple(fill(glob, cell.values) for glob in job.outputs),
        scratch=tuple(fill(glob, cell.values) for glob in job.scratch),
        persist=tuple(fill(path, cell.values) for path in job.persist),
        run=fill_shell(job.run, values),
        resume=fill_shell(job.resume, values),
        setup=fill_shell(job.setup, values),
        smoke=fill_shell(job.smoke, values),
        sweep=None,
    )


def _of_queue(job: JobFile, path: str) -> tuple[Cell, ...]:
    found: dict[str, Cell] = {}
    problems: list[tuple[int, str]] = []
    for line, words in _lines(path):
        if len(words) not in (2, 3):
            problems.append((line, f"a line is `config task [epochs]`, not {len(words)} words"))
            continue
        values = dict(zip(QUEUE_NAMES, words, strict=False))
        if not _is_count(words[2] if len(words) == 3 else "1"):
            problems.append((line, f"epochs is a whole number above 0, not {words[2]!r}"))
            continue
        stem = os.path.splitext(os.path.basename(words[0]))[0]
        parts = {"config": stem, "task": words[1]}
        cell = Cell(_named(job, _joined(parts, bare=True), values, parts), values, _epochs(values), f"line {line}")
        other = found.setdefault(cell.name, cell)
        if other is not cell:
            problems.append((line, f"{cell.name} is the cell of {other.where} already: rename one config"))
    if not found and not problems:
        problems.append((1, "no line describes a cell"))
    if problems:
        (line, what), *rest = problems
        more = "".join(f"; {number}: {text}" for number, text in rest[:20])
        more += f"; and {len(rest) - 20} more" if len(rest) > 20 else ""
        raise BadQueue(path=path, line=line, what=what, more=more)
    return tuple(found.values())


def _lines(path: str) -> Iterator[tuple[int, list[str]]]:
    """(line number, words) of every line with a cell; a comment occupies a line, but no cell number."""
    try:
        with open(path, "rb") as file:
            data = file.read(LIMIT_BYTES + 1)
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise BadQueue(path=path, line=1, what=error.strerror or str(error), more="") from error
    except UnicodeDecodeError as error:
        at = data[: error.start].count(b"\n") + 1
        raise BadQueue(path=path, line=at, what="this is not UTF-8 text", more="") from error
    if len(data) > LIMIT_BYTES or "\0" in text:
        raise BadQueue(path=path, line=1, what="not a queue file: over 8 MiB, or not text", more="")
    for number, line in enumerate(text.split("\n"), 1):
        words = list(itertools.takewhile(lambda word: not word.startswith("#"), line.split()))
        if words:
            yield number, words


def _named(job: JobFile, text: str, values: Mapping[str, str], parts: Mapping[str, str] | None = None) -> str:
    """The name of a cell's run: the sweep's and `text`, or the job's `name` with the values filled in.

    If characters had to change, or the name is too long, it ends with a digest of the values.
    """
    stem = sweep_name(job)
    if "${" in job.name:
        whole = fill(job.name, values)
        told = [values[name] for _, name in undeclared(job.name, ()) if name in values]
        missed = sorted(name for _, name in undeclared(job.name, ()) if name not in values)
        if missed:
            raise BadCells(path=job.path, what=f"`name` holds ${{{missed[0]}}}, which not every cell has")
    else:
        is_matrix = job.sweep is not None and bool(job.sweep.matrix)
        whole, told = f"{stem}-{text}", list((parts or values).values()) if parts or is_matrix else [text]
    if names.is_name(whole) and all(_PLAIN.fullmatch(value) and ".." not in value for value in told):
        return whole
    room = LONGEST - MARK - 1
    return f"{names.as_name(whole)[:room].rstrip('._-')}-{names.digest(dict(values))[:MARK]}"


def _joined(values: Mapping[str, str], *, bare: bool = False) -> str:
    """The values as one readable word: lr0.1-seed0."""
    return "-".join(value if bare else f"{name.lower()}{value}" for name, value in values.items())


def _epochs(values: Mapping[str, str]) -> int | None:
    """The epochs that a cell states, if any."""
    stated = next((value for name, value in values.items() if name.lower() == "epochs"), "")
    return int(stated) if _is_count(stated) else None


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _texts(item)
    elif hasattr(value, "__dataclass_fields__"):
        for one in fields(value):  # type: ignore[arg-type]
            yield from _texts(getattr(value, one.name))
