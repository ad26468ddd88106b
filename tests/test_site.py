"""The documentation as a site: every page in one group, and no link that leads nowhere."""

import re
from pathlib import Path

import pytest

from scripts import docs_site, files_page

needs_sphinx = pytest.mark.skipif(not docs_site.has_sphinx(), reason="Sphinx is not installed (scripts/setup docs)")


def test_every_page_is_in_exactly_one_group() -> None:
    every = docs_site.pages()
    groups = docs_site.groups(every[docs_site.CONTENTS])
    assert list(groups) == ["Start", "Guide", "Reference", "Develop"]
    listed = [path for rows in groups.values() for path in rows]
    found = sorted([*listed, *(below for path in listed for below in docs_site.below(path, list(every)))])
    assert found == sorted(set(every) - {"README.md", docs_site.CONTENTS})


@pytest.mark.campaign
def test_the_contents_mark_the_pages_that_are_not_in_git() -> None:
    marked = re.findall(r"(?m)^- \[.+?\]\((\S+?)\).* °$", docs_site.pages()[docs_site.CONTENTS])
    built = [path for path in docs_site.built_pages() if path.count("/") == 1]
    assert sorted(f"docs/{file}" for file in marked) == sorted(built)


def test_links_lead_to_where_pages_lie_on_the_site() -> None:
    text = (
        "[`a`](../README.md#why) [b](ssh.md) `[c](ssh.md)` [d](../tests/x.py) [e](#here) [f](https://x.example/y.md)\n"
    )
    known = ["README.md", "docs/ssh.md"]
    site = "[`a`](index.md#why) [b](ssh.md) `[c](ssh.md)` d (`tests/x.py`) [e](#here) [f](https://x.example/y.md)\n"
    assert docs_site.relinked("docs/why.md", text, known.__contains__) == site
    deep = docs_site.relinked("docs/decisions/1.md", "[b](../ssh.md) [a](../../README.md)", known.__contains__)
    assert deep == "[b](../ssh.md) [a](../index.md)"


@pytest.mark.campaign
@needs_sphinx
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    count = docs_site.write(tmp_path / "pages")
    assert docs_site.build(tmp_path / "pages", tmp_path / "site") == 0
    html = {path.relative_to(tmp_path / "site").as_posix(): path for path in (tmp_path / "site").rglob("*.html")}
    assert len(html) >= count
    assert 'href="observations.html"' in html["why.html"].read_text()
    menu = re.findall(r'<span class="caption-text">(\w+)</span>', html["index.html"].read_text())
    assert menu == ["Start", "Guide", "Reference", "Develop"]


@needs_sphinx
def test_a_link_that_leads_nowhere_fails_the_build(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages/index.md").write_text("# One\n[two](#gone)\n")
    assert docs_site.build(tmp_path / "pages", tmp_path / "site") != 0
    assert "gone" in capfd.readouterr().err


def test_the_page_of_files_has_every_file_with_its_numbers() -> None:
    page = files_page.text()
    files = [path for path in files_page.PACKAGE.rglob("*.py") if path.name != "__init__.py"]
    assert page.count("\n- **`") == len(files) > 500
    assert "`GRACE_S = 30.0`" in page and "`wait_proven()`" in page
