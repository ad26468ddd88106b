"""What a glob of a job file matches, by names alone: the disk is not read. The box finds files by it; a client checks
by it that a file from a box is one it asked for.
"""

from __future__ import annotations

import fnmatch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List


def split(glob: str) -> List[str]:
    """Its parts; [] for the folder itself, which matches everything in it."""
    return [part for part in glob.split("/") if part not in ("", ".")]


def fits(part: str, name: str) -> bool:
    """One name against one part that is not `**`: that very name, or one that it matches as a pattern, where a leading
    dot must be matched explicitly.
    """
    if part == name or not any(letter in part for letter in "*?["):
        return part == name
    return fnmatch.fnmatchcase(name, part) and (part.startswith(".") or not name.startswith("."))


def covers(glob: str, path: str) -> bool:
    """Whether `glob` matches the file `path` (relative, safe), or a folder that contains it. Linear in both."""
    parts = split(glob)
    if ".." in parts:
        return False
    if not parts:
        return True
    if parts[-1] == "**":
        parts.append("*")
    names = path.split("/")
    at = {0}  # the parts that the next name may match
    for depth, name in enumerate(names):
        for index in sorted(at):
            while parts[index] == "**":  # may match no folder
                index += 1
                at.add(index)
        following = set()
        for index in at:
            if parts[index] == "**":
                if not name.startswith("."):
                    following.add(index)
            elif fits(parts[index], name):
                if index + 1 == len(parts):
                    return True  # the file itself, or a folder, which matches everything in it
                if depth + 1 < len(names):
                    following.add(index + 1)
        at = following
    return False
