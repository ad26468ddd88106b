"""What a glob of a job file means, for names alone: no disk is looked at. The box finds files by it, a client checks by
it that a file which a box sends is one that was asked for.
"""

from __future__ import annotations

import fnmatch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List


def split(glob: str) -> List[str]:
    """Its parts; [] for the folder itself, which stands for everything in it."""
    return [part for part in glob.split("/") if part not in ("", ".")]


def fits(part: str, name: str) -> bool:
    """One name against one part that is not `**`: a name that begins with a dot must be named with its dot."""
    if not any(letter in part for letter in "*?["):
        return part == name
    return fnmatch.fnmatchcase(name, part) and (part.startswith(".") or not name.startswith("."))


def covers(glob: str, path: str) -> bool:
    """Whether `glob` names the file `path` (relative, safe), or a folder that it lies in. Linear in both."""
    parts = split(glob)
    if ".." in parts:
        return False
    if not parts:
        return True
    if parts[-1] == "**":
        parts.append("*")
    names = path.split("/")
    at = {0}  # the parts that the next name may have to fit
    for depth, name in enumerate(names):
        for index in sorted(at):
            while parts[index] == "**":  # stands for no folder too
                index += 1
                at.add(index)
        following = set()
        for index in at:
            if parts[index] == "**":
                if not name.startswith("."):
                    following.add(index)
            elif fits(parts[index], name):
                if index + 1 == len(parts):
                    return True  # the file itself, or a folder, which stands for all in it
                if depth + 1 < len(names):
                    following.add(index + 1)
        at = following
    return False
