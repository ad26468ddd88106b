"""The job file: what the user asks for, read whole or refused with the location of every mistake.

The keys are those of the public interface; docs/job-file.md explains each. A key that means the same as in a SkyPilot
task file has the same name; keys of such a file that mean nothing here are ignored with a warning.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence

from sojourn.store.job.tree import LIMIT_BYTES, BadJobFile, Problem, Problems, Scalar, Table, parse
from sojourn.store.job.values import NAME_RULE, NOTHING, JobFile
from sojourn.wire import names, quote
from sojourn.wire.errors import Misuse


class NoJobFile(Misuse):
    """{path}: {what}"""

    code = "no-job-file"
    next_step = "sojourn init"


def read_job(path: str, env: Mapping[str, str] = NOTHING) -> JobFile:
    """The job file at `path`; `env` (`--env K=V`) overrides its `envs`.

    Raises: NoJobFile (missing, a folder, unreadable), BadJobFile (its `problems` field lists every mistake).
    """
    data = _bytes(path)
    # Not at the top: `status` never reads a job file.
    from sojourn.store.job.keys import read_tree
    from sojourn.store.job.reader import Reader

    try:
        tree = parse(data)
    except Problems as error:
        raise _bad(path, error.problems) from None
    reader = Reader(path)
    job = read_tree(reader, tree, env)
    if reader.problems or job is None:
        raise _bad(path, tuple(reader.problems))
    return job


def read_command(command: Sequence[str], env: Mapping[str, str] = NOTHING) -> JobFile:
    """A job for one command in the current folder, like a job file with `run` alone.

    Raises: BadJobFile (a zero byte).
    """
    from sojourn.store.job.keys import read_tree
    from sojourn.store.job.reader import Reader

    reader = Reader("sojourn.yaml")
    scalar = Scalar(1, 1, quote.join(command))
    job = read_tree(reader, Table(1, 1, ((Scalar(1, 1, "run"), scalar),)), env)
    if reader.problems or job is None:
        raise _bad("the command line", tuple(reader.problems))
    return job


def find_job(folder: str = ".") -> str:
    """The job file of a folder: sojourn.yaml or sojourn.yml. Raises: NoJobFile."""
    for name in ("sojourn.yaml", "sojourn.yml"):
        path = os.path.join(folder, name) if folder != "." else name
        if os.path.lexists(path):
            return path
    raise NoJobFile(path=os.path.join(folder, "sojourn.yaml") if folder != "." else "sojourn.yaml", what="no such file")


def check_name(name: str) -> str:
    """`name`, if valid for a run. Raises: Misuse, which names the nearest valid one."""
    if not names.is_name(name):
        raise Misuse(detail=f"{name!r} {NAME_RULE}; the nearest is {names.as_name(name)!r}")
    return name


def _bad(path: str, problems: tuple[Problem, ...]) -> BadJobFile:
    first, *rest = sorted(set(problems), key=lambda p: (p.line, p.column))
    error = BadJobFile(path=path, line=first.line, column=first.column, what=first.what)
    places = [f"{path}:{p.line}:{p.column}: {p.what}" for p in (first, *rest)]
    error.fields.update(problems=places, lines=places[1:])  # each on its own line
    return error


def _bytes(path: str) -> bytes:
    if "\x00" in path:
        raise NoJobFile(path=path.replace("\x00", "\\0"), what="a path cannot contain a zero byte")
    try:
        # Checked before opening: opening a pipe would wait for a writer.
        kind = os.stat(path).st_mode
        if stat.S_ISDIR(kind):
            inside = os.path.join(path, "sojourn.yaml")
            raise NoJobFile(path=path, what=f"a folder{f'; name {inside}' if os.path.exists(inside) else ''}")
        if not stat.S_ISREG(kind):
            raise NoJobFile(path=path, what="not a regular file")
        with open(path, "rb") as file:
            return file.read(LIMIT_BYTES + 1)
    except FileNotFoundError:
        near = names.nearest(os.path.basename(path), _yaml_files(os.path.dirname(path) or "."))
        raise NoJobFile(path=path, what=f"no such file{f'; the nearest is {near}' if near else ''}") from None
    except OSError as error:
        raise NoJobFile(path=path, what=error.strerror or str(error)) from error
    except UnicodeEncodeError:
        raise NoJobFile(path=ascii(path), what="no such file") from None


def _yaml_files(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if name.endswith((".yaml", ".yml"))]
    except OSError:
        return []
