"""Collect every documentation page under build/pages, those made from data too, and build the site in build/site.

    .venv/bin/python -m scripts.docs_site [--pages]     (--pages: collect only, which needs no Sphinx)

docs/README.md lists every page under the heading of its group; the site's menu is made from it. Settings: docs/conf.py.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from posixpath import dirname, normpath, relpath

from scripts import files_page, knowledge_pages
from sojourn.verbs.explain import observations

ROOT = Path(__file__).resolve().parent.parent
PAGES, SITE = ROOT / "build/pages", ROOT / "build/site"
CONTENTS = "docs/README.md"
FRONT = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
CODE_OR_LINK = re.compile(r"```.*?```|\[(?P<label>(?:[^\[\]]|\\.)*)\]\((?P<target>[^)\s]+)\)|`[^`\n]*`", re.S)


def built_pages() -> dict[str, str]:
    """The text of each page that is made from data or code, by the path it would have in the repository."""
    made = {"docs/observations.md": observations.text(), "docs/files.md": files_page.text()}
    return {**knowledge_pages.pages(), **made}


def pages() -> dict[str, str]:
    """The text of every page of the documentation by its path in the repository, in git or not."""
    paths = [*(ROOT / name for name in FRONT), *sorted(ROOT.glob("docs/**/*.md"))]
    return {**{path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}, **built_pages()}


def place(path: str) -> str:
    """Where a page lies on the site: `docs/ssh.md` -> `ssh.md`, `README.md` -> `index.md`."""
    return "contents.md" if path == CONTENTS else FRONT.get(path) or path.removeprefix("docs/")


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


def groups(contents: str) -> dict[str, dict[str, str]]:
    """The pages that docs/README.md lists under each heading: path in the repository -> label."""
    found: dict[str, dict[str, str]] = {}
    for part in re.split(r"(?m)^## ", contents)[1:]:
        title, _, rest = part.partition("\n")
        rows = re.findall(r"(?m)^- \[(.+?)\]\((\S+?)\)", rest)
        found[title.strip()] = {normpath(f"docs/{file}"): label for label, file in rows}
    return found


def below(path: str, every: list[str]) -> list[str]:
    """The pages that belong to a page: those in the folder of a README, or in the folder named like the page."""
    folder = dirname(path) if path.endswith("/README.md") else path.removesuffix(".md")
    return [] if path == CONTENTS else sorted(other for other in every if dirname(other) == folder and other != path)


def menu(path: str, every: dict[str, str]) -> str:
    """What a page adds to the site's menu: the front page adds the groups, a page those below it."""
    if path != "README.md":
        return _tree("", [place(other) for other in below(path, list(every))]) if below(path, list(every)) else ""
    trees = [_tree("", ["Contents <contents>"])]
    for title, rows in groups(every[CONTENTS]).items():
        trees.append(_tree(title, [f"{label} </{place(other).removesuffix('.md')}>" for other, label in rows.items()]))
    return "".join(trees)


def _tree(title: str, rows: list[str]) -> str:
    head = ["", "```{toctree}", ":hidden:", *([f":caption: {title}"] if title else []), ""]
    return "\n".join([*head, *(row if row.endswith(">") else f"/{row}" for row in rows), "```", ""])


def write(folder: Path) -> int:
    """Put every page into an emptied folder as the site wants it; how many there are."""
    if folder.exists():
        shutil.rmtree(folder)
    every = pages()
    for path, text in every.items():
        file = folder / place(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(relinked(path, text, every.__contains__) + menu(path, every), encoding="utf-8")
    return len(every)


def has_sphinx() -> bool:
    """Whether the site can be built here."""
    return find_spec("sphinx") is not None and find_spec("myst_parser") is not None and find_spec("furo") is not None


def build(source: Path, target: Path) -> int:
    """Run Sphinx over the pages; a warning, such as a link that leads nowhere, is an error. Its exit status."""
    argv = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--fresh-env", "--quiet"]
    return subprocess.run([*argv, "-c", str(ROOT / "docs"), str(source), str(target)], check=False).returncode


def main() -> int:
    """Write the pages, and build the site unless only they are wanted."""
    print(f"wrote  {PAGES.relative_to(ROOT)}  {write(PAGES)} pages")
    if "--pages" in sys.argv[1:]:
        return 0
    ended = build(PAGES, SITE)
    if ended == 0:
        print(f"built  {SITE.relative_to(ROOT)}/index.html")
    return ended


if __name__ == "__main__":
    sys.exit(main())
