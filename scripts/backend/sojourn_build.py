"""The build backend: flit's, and a wheel carries what lies outside the package: the documentation as its data/pages,
and the labelled logs of the tests as the index data/known-logs.json.

Nothing is written into the checkout: a wheel is built in a copy. Named in pyproject.toml, [build-system].
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from flit_core import buildapi
from flit_core.buildapi import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

PAGES = Path("src/sojourn/data/pages")  # sojourn.store.pages reads them there, in the layout of the repository
LOGS = Path("tests/diagnose/specimens/logs")
INDEX = Path("src/sojourn/data/known-logs.json")  # sojourn.verbs.explain.known_logs reads it there
FRONT = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")


def build_wheel(
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """A wheel of the checkout in the current folder, with its pages; the file's name."""
    here, goal = Path.cwd(), os.path.abspath(wheel_directory)
    metadata = metadata_directory and os.path.abspath(metadata_directory)
    with tempfile.TemporaryDirectory(prefix="sojourn-build-") as name:
        copy = Path(name)
        shutil.copytree(here / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
        for file in ("pyproject.toml", "LICENSE", "README.md"):
            shutil.copy2(here / file, copy / file)
        for page in (*(here / front for front in FRONT), *sorted(here.glob("docs/**/*.md"))):
            to = copy / PAGES / page.relative_to(here)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(page, to)
        if (here / LOGS).is_dir() and sys.version_info >= (3, 11):  # the command line's own Python
            sys.path.insert(0, str(here / "src"))
            from sojourn.verbs.explain.known_logs import compile_folder

            (copy / INDEX).write_text(json.dumps(compile_folder(str(here / LOGS))), encoding="utf-8")
        os.chdir(copy)
        try:
            built: str = buildapi.build_wheel(goal, config_settings, metadata)
        finally:
            os.chdir(here)
    return built
