"""The pages of the documentation: below `data/pages` in a wheel, the repository's files in a clone."""

from __future__ import annotations

import functools
import os
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass

CONTENTS = "docs/README.md"
# Files beside docs/ that the wheel also contains (scripts/backend/sojourn_build.py).
FRONT = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_ROW = re.compile(r"(?m)^- \[(.+?)\]\((\S+?)\)(?:: (.*))?")


@dataclass(frozen=True)
class Page:
    """One page. `topic`: what the user types for it; `path`: in the repository; `group`: its heading in the contents,
    or ""; `about`: its description there.
    """

    topic: str
    path: str
    title: str
    group: str = ""
    about: str = ""


def topic_of(path: str) -> str:
    """The topic of a page of the repository: `docs/ssh.md` -> ssh, `docs/decisions/README.md` -> decisions."""
    inside = path.removeprefix("docs/").removesuffix(".md")
    return inside.removesuffix("/README").lower()


@functools.cache
def pages() -> Mapping[str, Page]:
    """topic -> page: first those in the contents, in that order, then the others. {} if none are here."""
    top = _top()
    if not top:
        return {}
    paths = {path: None for path in (*FRONT, *_below(top, "docs")) if os.path.isfile(os.path.join(top, path))}
    listed: dict[str, Page] = {}
    for part in re.split(r"(?m)^## ", _read(top, CONTENTS))[1:]:
        group, _, rows = part.partition("\n")
        for title, target, about in _ROW.findall(rows):
            path = posixpath.normpath(posixpath.join("docs", target))
            if path in paths:
                listed[topic_of(path)] = Page(topic_of(path), path, title, group.strip(), about)
    rest = [path for path in paths if topic_of(path) not in listed and path != CONTENTS]
    return {**listed, **{topic_of(path): Page(topic_of(path), path, _heading(_read(top, path))) for path in rest}}


def text(page: Page) -> str:
    """The Markdown of a page. Raises: OSError."""
    return _read(_top(), page.path)


def _top() -> str:
    """The folder laid out like the repository; "" if there is none."""
    for folder in (os.path.join(_PACKAGE, "data", "pages"), os.path.dirname(os.path.dirname(_PACKAGE))):
        if os.path.isfile(os.path.join(folder, CONTENTS)):
            return folder
    return ""


def _below(top: str, folder: str) -> list[str]:
    found = []
    for at, folders, files in os.walk(os.path.join(top, folder)):
        folders.sort()
        inside = os.path.relpath(at, top).replace(os.sep, "/")
        found += [f"{inside}/{name}" for name in sorted(files) if name.endswith(".md")]
    return found


def _heading(markdown: str) -> str:
    return markdown.partition("\n")[0].removeprefix("# ").strip()


def _read(top: str, path: str) -> str:
    with open(os.path.join(top, path), encoding="utf-8") as file:
        return file.read()
