"""Campaigns share one page."""

from pathlib import Path

from tests import reliability


def test_a_campaign_replaces_its_own_section_and_no_other(tmp_path: Path) -> None:
    page = tmp_path / "reliability.md"
    reliability.put("Kills", ["old", "", *reliability.table("measured", {"trials": 1000})], 61, page)
    reliability.put("Line", ["stays"], 5, page)
    reliability.put("Kills", ["new"], 3600, page)
    text = page.read_text()
    assert text.startswith("# Reliability\n\nWritten by `make campaign`.")
    assert "old" not in text and text.index("## Kills") < text.index("new") < text.index("## Line") < text.index(
        "stays"
    )
    assert "60 minutes" in text and text.endswith("stays\n")
