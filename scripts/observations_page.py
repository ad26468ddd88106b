"""Write docs/observations.md from diagnose/vocabulary.py; with `--check`, say whether the page is stale instead."""

from __future__ import annotations

import sys
from pathlib import Path

from sojourn.diagnose.facts import table
from sojourn.diagnose.vocabulary import observations

PAGE = Path(__file__).resolve().parent.parent / "docs/observations.md"


def text() -> str:
    """The whole page: what an evidence file may hold, then every observation by family, then the probes we read."""
    lines = [
        "# Observations",
        "",
        "This page is produced from the code by `make pages`; `make check` fails while it is stale.",
        "",
        "Gotchas are judged by observations. In an evidence file (`sojourn/evidence/v1`) they stand under `facts`, or",
        "are read from the raw texts under `probes`; raw text wins. An absent observation is unknown; `null` means",
        "looked for and not there (only where the type has a `?`). A share is between 0 and 1.",
        "",
        "| observation | type | unit | probe | how |",
        "| --- | --- | --- | --- | --- |",
    ]
    for known in observations().values():
        kind = known.type + ("?" if known.may_be_null else "")
        how = known.how.replace("|", "\\|")
        lines.append(f"| `{known.name}` | {kind} | {known.unit} | {known.probe} | {how} |")
    lines += [
        "",
        "## Probes that are read",
        "",
        "A probe is known by its name (a path, a command, a short word), and some by how their text begins.",
        "",
        "| the name matches | or the text |",
        "| --- | --- |",
    ]
    for reader in table.readers():
        cells = [f"`{regex}`".replace("|", "\\|") if regex else "" for regex in (reader.named, reader.begins)]
        lines.append(f"| {cells[0]} | {cells[1]} |".replace("\n", "\\n"))
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write or check the page; 1 when it is stale."""
    now = text()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(now, encoding="utf-8")
        print(f"wrote  docs/observations.md  {len(observations())} observations")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != now:
        print("observations: docs/observations.md is stale. To accept what the code says: make pages", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
