"""What a project must have installed, from the files that say so: requirements, pyproject.toml, a conda environment."""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass

from sojourn.wire.quote import join

_LISTS = (
    "requirements.txt",
    "requirements/train.txt",
    "requirements/base.txt",
    "requirements-train.txt",
    "requirements.in",
)
_CONDA = ("environment.yml", "environment.yaml", "conda.yml", "conda.yaml")


@dataclass(frozen=True)
class Needs:
    """`setup`: a shell line, or ""; `source`: what it is from; `notes`: what a person must decide."""

    setup: str = ""
    source: str = ""
    notes: tuple[str, ...] = ()


def needs(root: str) -> Needs:
    """The setup line for the project at `root`. A file that cannot be read is noted, never an error."""
    notes: list[str] = []
    conda = next((name for name in _CONDA if os.path.isfile(os.path.join(root, name))), "")
    if conda:
        notes.append(
            f"{conda}: make this conda environment on the box once, and activate it in the site's `init` line;"
            " `setup` itself makes a plain virtual environment and fills it with pip"
        )
    for name in _LISTS:
        if os.path.isfile(os.path.join(root, name)):
            return Needs(join(["pip", "install", "-r", name]), name, tuple(notes))
    packages, note = _pyproject(os.path.join(root, "pyproject.toml"))
    notes += [note] if note else []
    if packages:
        return Needs(join(["pip", "install", *packages]), "[project.dependencies] of pyproject.toml", tuple(notes))
    packages = _pip_of_conda(os.path.join(root, conda)) if conda else []
    if packages:
        return Needs(join(["pip", "install", *packages]), f"the pip part of {conda}", tuple(notes))
    if not notes and os.path.isfile(os.path.join(root, "setup.py")):
        notes.append("setup.py lists its requirements only when it runs: fill in `setup` yourself")
    return Needs("", "", tuple(notes))


def _pyproject(path: str) -> tuple[list[str], str]:
    try:
        with open(path, "rb") as f:
            table = tomllib.load(f)
    except FileNotFoundError:
        return [], ""
    except (OSError, ValueError) as wrong:  # ValueError: not TOML, not UTF-8
        return [], f"pyproject.toml could not be read ({wrong})"
    project = table.get("project")
    listed = project.get("dependencies") if isinstance(project, dict) else None
    if isinstance(listed, list):
        return [one for one in listed if isinstance(one, str)], ""
    tool = table.get("tool")
    if isinstance(tool, dict) and isinstance(tool.get("poetry"), dict):
        return [], "pyproject.toml lists its dependencies for poetry only: fill in `setup` yourself"
    return [], ""


def _pip_of_conda(path: str) -> list[str]:
    """The entries below `- pip:`, read line by line; no YAML is needed for this one list."""
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            lines = f.read().splitlines()
    except OSError:
        return []
    found: list[str] = []
    inside = -1
    for line in lines:
        text = re.sub(r"(^|\s)#.*", "", line).rstrip()
        entry = re.fullmatch(r"(\s*)-\s+(.*)", text)
        if entry and entry[2] == "pip:":
            inside = len(entry[1])
        elif inside >= 0 and entry and len(entry[1]) > inside:
            found += entry[2].strip("\"'").split(maxsplit=1) if entry[2].startswith("-") else [entry[2].strip("\"'")]
        elif text:
            inside = -1
    return found
