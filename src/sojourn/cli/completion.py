"""Shell completion, generated from the command line's own grammar. Prints nothing and writes no file."""

from __future__ import annotations

import argparse

from sojourn.wire.errors import Misuse
from sojourn.wire.names import nearest

SHELLS = ("bash", "zsh", "fish")

# Arguments completed as files, by their placeholder in the help.
FILES = {"FILE", "PATH", "MANIFEST"}
FOLDERS = {"DIR", "FOLDER"}


class UnknownShell(Misuse):
    """No completion script for the shell {shell!r}{hint} Supported shells: {known}."""

    code = "unknown-shell"
    next_step = "sojourn completion bash"


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The completion script of `parser` for `shell`, for that shell to read; the same text for the same grammar.

    Marks, on `parser` itself, which arguments are files and which are folders.
    Raises: UnknownShell unless `shell` is one of SHELLS.
    """
    if shell not in SHELLS:
        near = nearest(shell, SHELLS)
        hint = f"; did you mean {near}?" if near else "."
        raise UnknownShell(shell=shell, known=", ".join(SHELLS), hint=hint)
    import shtab

    _name_files(parser)
    return shtab.complete(parser, shell=shell)


def _name_files(parser: argparse.ArgumentParser) -> None:
    import shtab

    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                _name_files(child)
            continue
        word = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
        if word in FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif word in FOLDERS:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
