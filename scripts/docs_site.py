"""Collect every documentation page under build/pages: those in git, and those made from data, which are not.

.venv/bin/python -m scripts.docs_site
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from posixpath import dirname, normpath, relpath

from scripts import knowledge_pages, observations_page

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "build/pages"
FRONT = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md"}
CODE_OR_LINK = re.compile(r"```.*?```|\[(?P<label>(?:[^\[\]]|\\.)*)\]\((?P<target>[^)\s]+)\)|`[^`\n]*`", re.S)


def built_pages() -> dict[str, str]:
    """The text of each page that is made from data, by the path it would have in the repository."""
    return {**knowledge_pages.pages(), "docs/observations.md": observations_page.text()}


def pages() -> dict[str, str]:
    """The text of every page of the documentation by its path in the repository, in git or not."""
    paths = [*(ROOT / name for name in FRONT), *sorted(ROOT.glob("docs/**/*.md"))]
    return {**{path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}, **built_pages()}


def place(path: str) -> str:
    """Where a page lies on the site: `docs/ssh.md` -> `ssh.md`, `README.md` -> `index.md`."""
    return FRONT.get(path) or path.removeprefix("docs/")


def relinked(path: str, text: str, known: Callable[[str], bool]) -> str:
    """The page with its links as they are on the site. A file that is not `known` as one of its pages is only named."""

    def link(match: re.Match[str]) -> str:
        label, target = match["label"], match["target"] or ""
        file, mark, anchor = target.partition("#")
        if not file or re.match(r"[a-z]+:", target):
            return match.group(0)
        there = normpath(f"{dirname(path)}/{file}" if dirname(path) else file)
        if not known(there):
            return f"{label} (`{there}`)" if there not in label else label
        return f"[{label}]({relpath(place(there), dirname(place(path)) or '.')}{mark}{anchor})"

    return CODE_OR_LINK.sub(link, text)


def write(folder: Path) -> int:
    """Put every page into an emptied folder as the site wants it; how many there are."""
    if folder.exists():
        shutil.rmtree(folder)
    every = pages()
    for path, text in every.items():
        file = folder / place(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(relinked(path, text, every.__contains__), encoding="utf-8")
    return len(every)


def main() -> int:
    """Write the pages."""
    print(f"wrote  {PAGES.relative_to(ROOT)}  {write(PAGES)} pages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
