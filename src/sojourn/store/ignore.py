"""What is not pushed from a working folder: .gitignore files as git reads them, then .sojournignore."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sojourn.wire.errors import Misuse

if TYPE_CHECKING:
    import pathspec

# Lowest precedence, so that a .sojournignore can bring one of them back.
_ALWAYS = [".git", ".venv", "__pycache__", ".sojourn"]
_GIT, _OURS = ".gitignore", ".sojournignore"
IGNORE_FILES = frozenset((_GIT, _OURS))


class BadIgnoreFile(Misuse):
    """{path}: {what}"""

    code = "bad-ignore-file"


@dataclass(frozen=True)
class Rules:
    """The patterns for one folder: its own first, then those of the folders above."""

    # (absolute folder, its patterns, whether they are git's), highest precedence first
    levels: tuple[tuple[str, pathspec.GitIgnoreSpec, bool], ...]

    def below(self, folder: str) -> Rules:
        """The rules in a subfolder. Raises: BadIgnoreFile."""
        own = ((folder, patterns, name == _GIT) for name in (_OURS, _GIT) if (patterns := _read(folder, name)))
        return Rules((*own, *self.levels))

    def of_another_repository(self) -> Rules:
        """The rules that still apply in a submodule, where git's own stop."""
        return Rules(tuple(level for level in self.levels if not level[2]))

    def skips(self, path: str, is_folder: bool) -> bool:
        """Whether the file or folder at the absolute `path`, directly in the folder of these rules, is left out."""
        for folder, patterns, _ in self.levels:
            relative = path[len(folder.rstrip(os.sep)) + 1 :] + ("/" if is_folder else "")
            verdict = patterns.check_file(relative).include
            if verdict is not None:
                return bool(verdict)
        return False


def rules_for(root: str) -> Rules:
    """The rules in the folder `root` (absolute): its own, and those up to the top of its git work tree.

    Rules from above that would leave out `root` itself are ignored: it was named on purpose. Raises: BadIgnoreFile.
    """
    import pathspec

    base = Rules(((root, pathspec.GitIgnoreSpec.from_lines(_ALWAYS), False),))
    above = Rules(())
    for folder in reversed(_parents(root)):
        above = above.below(folder)
        inside = os.path.relpath(root, folder).split(os.sep)
        if any(above.skips(os.path.join(folder, *inside[: n + 1]), True) for n in range(len(inside))):
            above = Rules(())
            break
    return Rules(above.levels + base.levels).below(root)


def _parents(root: str) -> list[str]:
    """Folders above `root` up to the one that holds `.git`, nearest first; none if there is no such folder."""
    found = []
    folder = root
    while not os.path.lexists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return []
        found.append(above)
        folder = above
    return found


def _read(folder: str, name: str) -> pathspec.GitIgnoreSpec | None:
    """The patterns of one file; None if it does not exist."""
    import pathspec

    path = os.path.join(folder, name)
    try:
        with open(path, "rb") as file:
            text = file.read().decode("utf-8-sig")
        # Not splitlines: git ends a line at \n alone.
        return pathspec.GitIgnoreSpec.from_lines(line.removesuffix("\r") for line in text.split("\n"))
    except (FileNotFoundError, IsADirectoryError):
        return None
    except OSError as error:
        raise BadIgnoreFile(path=path, what=error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise BadIgnoreFile(path=path, what=f"byte {error.start} is not UTF-8") from error
    except ValueError as error:
        raise BadIgnoreFile(path=path, what=str(error)) from error
