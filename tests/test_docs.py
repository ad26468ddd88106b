"""Pages hold together: links lead somewhere, generated pages are fresh, words are ours, nothing names a machine."""

import ast
import os
import re
import subprocess
import sys
from functools import cache
from os.path import normpath
from pathlib import Path
from typing import ClassVar

import pytest
import yaml

from scripts import docs_site, errors_page
from sojourn.wire.errors import Misuse, SojournError

ROOT = Path(__file__).resolve().parent.parent
HEADINGS = ["Context", "Choice", "What we gave up", "When to look again"]


def pages() -> dict[Path, str]:
    """Every page and its text: those in git, and those that are built from data."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("changes/*.md"), *ROOT.glob("examples/**/*.md")]
    return {**{path: path.read_text() for path in sorted(found)}, **built()}


@cache
def built() -> dict[Path, str]:
    return {ROOT / path: text for path, text in docs_site.built_pages().items()}


def committed() -> list[Path]:
    """Every file that git tracks or would add."""
    argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(argv, cwd=ROOT, capture_output=True, check=True, timeout=30).stdout.split(b"\0")
    return [ROOT / name.decode() for name in names if name and (ROOT / name.decode()).is_file()]


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as they are made on the usual code hosts."""
    headings = re.findall(r"^#+ +(.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def broken_links(page: Path, pages: dict[Path, str]) -> list[str]:
    """Links that lead to no file and no page, or to no heading of the page."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", pages[page], flags=re.S)
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = Path(normpath(page.parent / path)) if path else page
        if anchor and file in pages:
            good = anchor in anchors(pages[file])
        else:
            good = file in pages or file.exists()
        if not good:
            broken.append(target)
    return broken


def test_every_link_between_pages_leads_somewhere() -> None:
    every = pages()
    broken = {page.relative_to(ROOT).as_posix(): broken_links(page, every) for page in every}
    assert {page: links for page, links in broken.items() if links} == {}


def test_the_front_page_leads_only_to_files_in_git() -> None:
    """It is read where the code is hosted, and the pages built from data are not there."""
    front = ROOT / "README.md"
    kept = {path: text for path, text in pages().items() if path not in built()}
    assert broken_links(front, kept) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    page, made = tmp_path / "a.md", tmp_path / "sub/d.md"
    text = "# One thing\n[good](#one-thing) [bad](#two) [gone](b.md) `[code](c.md)` [made](sub/d.md#it) [](sub/d.md#x)"
    every = {page: text, made: "# It\n[back](../a.md)\n"}
    assert broken_links(page, every) == ["#two", "b.md", "sub/d.md#x"]
    assert broken_links(made, every) == []


def places(root: Path, home: Path, tools: list[Path]) -> set[str]:
    """Folders that only this machine has: this checkout, and those of its tools that lie in a home."""
    return {str(root), *(str(tool) for tool in tools if home in tool.parents)}


def package_sources() -> set[str]:
    """The addresses and folders that pip is set up to install from here."""
    argv = [sys.executable, "-m", "pip", "config", "list"]
    settings = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout
    values = re.findall(r"(?m)^\S*(?:index-url|find-links)='(.*)'$", settings)
    return {source.rstrip("/") for value in values for source in value.split()}


TOOLS = [Path(sys.base_prefix), *map(Path, os.environ["PATH"].split(os.pathsep))]
HERE = places(ROOT, Path.home(), TOOLS)


def machine_names(text: str, here: set[str]) -> list[str]:
    """Places of this machine, and any address of a package index."""
    own = "|".join(rf"{re.escape(place)}(?![\w.-])" for place in sorted(here))
    return re.findall(rf"{own}|https?://[^\s\"'<>)]*/simple\b", text)


def test_nothing_committed_names_this_machine_or_a_package_index() -> None:
    here, found = HERE | package_sources(), {}
    for path in committed():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if path != Path(__file__) and "specimens" not in path.parts and (names := machine_names(text, here)):
            found[path.relative_to(ROOT).as_posix()] = names[:3]
    assert found == {}


def test_a_machine_path_or_a_package_index_is_found() -> None:
    home = Path("/home/ann")
    here = places(Path("/srv/copy"), home, [home / "tools/python3", home / ".shims", Path("/usr/bin")])
    assert here == {"/srv/copy", "/home/ann/tools/python3", "/home/ann/.shims"}
    text = "see /home/ann/.shims/ruff, /srv/copy/docs and https://index.example/simple, not /usr/bin or /srv/copy2"
    assert machine_names(text, here) == ["/home/ann/.shims", "/srv/copy", "https://index.example/simple"]
    assert machine_names("/home/ann/tools/python3/bin", here) == ["/home/ann/tools/python3"]


@pytest.mark.parametrize("wanted", sorted((ROOT / "requirements").glob("*.in")), ids=lambda path: path.stem)
def test_every_requirement_is_pinned_by_hash(wanted: Path) -> None:
    text = wanted.with_suffix(".txt").read_text()
    entries = re.split(r"\n(?=\S)", text.strip())
    assert entries
    loose = [
        e.splitlines()[0] for e in entries if not re.match(r"[\w.-]+==\S+.*(\n +--hash=sha256:[0-9a-f]{64}.*)+$", e)
    ]
    assert loose == []
    assert "://" not in text


def test_decisions_are_numbered_and_have_their_headings() -> None:
    decisions = sorted(path for path in (ROOT / "docs/decisions").glob("*.md") if path.name != "README.md")
    numbers = [path.name[:4] for path in decisions]
    assert numbers == sorted(set(numbers))
    for path in decisions:
        assert re.fullmatch(r"\d{4}-[a-z0-9-]+\.md", path.name)
        assert re.findall(r"^## (.*)$", path.read_text(), re.M) == HEADINGS, path.name


def test_public_ci_pins_its_actions_and_runs_targets_of_the_makefile() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]
    steps = [step for job in jobs.values() for step in job["steps"]]
    uses = [step["uses"] for step in steps if "uses" in step]
    assert uses and all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action) for action in uses)
    targets = re.findall(r"(?m)^([a-z]+):", (ROOT / "Makefile").read_text())
    made = [step["run"].split()[1] for step in steps if step.get("run", "").startswith("make ")]
    assert {"test", "site"} <= set(made) <= set(targets)


def test_a_change_starts_with_what_it_is() -> None:
    for path in (ROOT / "changes").glob("*.md"):
        assert path.read_text().startswith("# "), path.name
        assert len(path.read_text().splitlines()) <= 20, f"{path.name} is too long for a note"


WRITTEN_BY_SOJOURN = {"sojourn-notes.md"}


def test_code_and_pages_cite_only_pages_that_readers_have() -> None:
    """A Markdown file named in the package, its data or a page is in git, or built, or one that sojourn writes."""
    known = {path.name for path in (*committed(), *built())} | WRITTEN_BY_SOJOURN
    shipped = {path: path.read_text() for kind in ("py", "toml") for path in ROOT.glob(f"src/**/*.{kind}")}
    wrong = []
    for path, text in {**pages(), **shipped}.items():
        cited = re.findall(r"(?:^|[\s`\"'(])(?:\.\./)*(?:docs/)?([a-z][a-z-]+\.md)\b", text)
        wrong += [f"{path.relative_to(ROOT)}: {name}" for name in cited if name not in known]
    assert wrong == []


def words() -> list[list[str]]:
    """The rows of the glossary's tables, heads and rules left out."""
    lines = (ROOT / "docs/words.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return [row for row in rows if row[0] not in ("word", "---")]


def test_each_word_stands_once_in_the_glossary_with_a_meaning() -> None:
    names = [row[0] for row in words()]
    assert len(names) == len(set(names))
    assert all(len(row[1]) > 10 for row in words())


def refused_words() -> dict[str, str]:
    """Words in quotes in the last column, and what to say instead."""
    return {bad: row[0] for row in words() if len(row) > 2 for bad in re.findall(r'"(\w+)"', row[2])}


def wrong_words(source: str, refused: dict[str, str]) -> list[str]:
    """Public functions and classes whose name has a refused word in it."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", node.name)
            found += [f"{node.name}: say {refused[p.lower()]}, not {p}" for p in parts if p.lower() in refused]
    return found


def test_public_names_use_the_words_of_the_glossary() -> None:
    found = []
    for path in sorted((ROOT / "src/sojourn").rglob("*.py")):
        found += [f"{path.relative_to(ROOT)}: {wrong}" for wrong in wrong_words(path.read_text(), refused_words())]
    assert not found, "\n".join(found)


def test_a_wrong_word_is_found() -> None:
    source = "class ChildProcess: ...\ndef download(): ...\ndef downloads(): ...\ndef _child(): ...\n"
    assert wrong_words(source, {"child": "payload", "download": "pull"}) == [
        "ChildProcess: say payload, not Child",
        "download: say pull, not download",
    ]
    assert {"child", "download"} <= set(refused_words())


def test_the_words_of_the_field_are_free() -> None:
    assert {"host", "node", "worker", "task", "heartbeat", "instance", "resume", "daemon"}.isdisjoint(refused_words())


def test_every_error_has_a_code_of_its_own_an_exit_status_of_the_table_and_a_message() -> None:
    assert errors_page.faults(errors_page.error_classes()) == []


def test_the_error_page_says_what_the_code_says() -> None:
    stale = "docs/errors.md is stale. To accept what the code says: make pages"
    assert errors_page.PAGE.read_text() == errors_page.page(errors_page.error_classes()), stale


def test_an_error_at_fault_is_found() -> None:
    class Wrong(SojournError):
        code = "Not A Code"
        exit_status = 99

    class Second(Misuse):
        """{detail}"""

        code: ClassVar[str] = "misuse"

    assert [fault.split(": ", 1)[1] for fault in errors_page.faults([Misuse, Wrong, Second])] == [
        "exit status 99 is not in the table of failures",
        "code 'Not A Code' is not in the form words-with-hyphens",
        "its docstring is its message, and it has none",
        "code 'misuse' is already that of Misuse",
    ]


def test_every_command_that_a_page_names_exists() -> None:
    from sojourn.cli.parser import names

    wrong = []
    for page, text in pages().items():
        if page.name == "errors.md" or "decisions" in page.parts:
            continue
        for verb in re.findall(r"(?m)(?:^\$? *|`)sojourn ([a-z]+)\b", text):
            if verb not in names():
                wrong.append(f"{page.relative_to(ROOT)}: sojourn {verb}")
    assert not wrong, "\n".join(wrong)


def test_the_version_answers_in_one_line_without_loading_any_room() -> None:
    code = "import sys; sys.argv[1:] = ['--version']; from sojourn.__main__ import main; assert main() == 0; "
    code += "print(sorted(name for name in sys.modules if name.startswith('sojourn.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    version, loaded = done.stdout.splitlines()
    assert re.fullmatch(r"sojourn \d+\.\d+\.\d+\S*", version)
    assert loaded == "['sojourn.__main__']"
