"""Pages of the catalog and of the platforms say what the data says; the page on adding a gotcha is one that works."""

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

from scripts import knowledge_pages
from scripts.docs_site import built_pages
from sojourn.diagnose.evidence import from_document
from sojourn.diagnose.reason import reason
from sojourn.diagnose.search import Search, compile_index
from sojourn.diagnose.vocabulary import observations
from sojourn.store.gotchas import KEYS, gotchas, parse_gotcha
from sojourn.store.platforms import platforms
from sojourn.verbs.explain import observations as observations_page
from sojourn.verbs.explain.gotchas import search_index

ROOT = Path(__file__).resolve().parent.parent


def test_no_page_made_from_data_is_in_git() -> None:
    argv = ["git", "ls-files", "docs"]
    tracked = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True, timeout=30).stdout
    assert set(built_pages()) & set(tracked.splitlines()) == set()


def test_every_gotcha_and_every_platform_has_a_place_in_the_pages() -> None:
    pages = "\n".join(knowledge_pages.pages().values())
    assert [one.id for one in gotchas() if f"\n## {one.id}\n" not in pages] == []
    assert [name for name in platforms() if f"\n## {name}\n" not in pages] == []


def test_every_observation_and_its_probe_have_a_place_in_the_page() -> None:
    page = observations_page.text()
    assert [name for name in observations() if f"| `{name}` |" not in page] == []
    assert len([line for line in page.splitlines() if line.startswith("| `")]) >= len(observations())


def test_the_example_of_adding_a_gotcha_is_read_as_one() -> None:
    text = (ROOT / "docs/adding-a-gotcha.md").read_text(encoding="utf-8")
    block = re.search(r"```toml\n(.*?)```", text, re.S)
    assert block
    gotcha = parse_gotcha("disk-quota.toml", block.group(1))
    assert gotcha.is_decidable and gotcha.patterns and gotcha.merged
    assert [key for key in KEYS if key not in block.group(1) and key != "undecidable"] == []


def test_the_page_on_adding_a_gotcha_can_be_followed() -> None:
    text = (ROOT / "docs/adding-a-gotcha.md").read_text(encoding="utf-8")
    entry = re.search(r"```toml\n(.*?)```", text, re.S)
    specimens = re.findall(r"```json\n(.*?)```", text, re.S)
    assert entry and len(specimens) == 2
    new = replace(parse_gotcha("disk-quota.toml", entry.group(1)), id="my-quota", refines=())
    catalog = (*(one for one in gotchas() if one.id != "disk-quota"), new)
    for specimen, is_it in zip(specimens, (True, False), strict=True):
        found = reason(catalog, from_document(json.loads(specimen), catalog)).findings
        assert (("my-quota", "confirmed") in [(f.id, f.status) for f in found]) is is_it
    index = compile_index(catalog, search_index()["same"], search_index()["places"])
    assert Search(index, catalog).find("磁盘配额 EDQUOT")[0].id == "my-quota"
