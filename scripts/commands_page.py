"""Write docs/commands.md from the command line's own help; with `--check`, say whether the page is stale instead.

.venv/bin/python scripts/commands_page.py [--check]
"""

from __future__ import annotations

import sys
from pathlib import Path

from sojourn.cli.parser import groups, overview, page

PAGE = Path(__file__).resolve().parent.parent / "docs/commands.md"


def text() -> str:
    """The whole page: the overview, then each command's help as `sojourn COMMAND --help` shows it."""
    lines = [
        "# Commands",
        "",
        "Generated from the command line by `make pages`; `make check` fails if it is out of date.",
        "What the exit statuses mean, and every error with its code, is in [errors.md](errors.md).",
        "",
        *_block(overview()),
    ]
    for title, names in groups():
        lines += ["", f"## {title}"]
        for name in names:
            lines += ["", f"### sojourn {name}", "", *_block(page(name))]
    return "\n".join(lines) + "\n"


def _block(lines: list[str]) -> list[str]:
    return ["```text", *lines, "```"]


def main() -> int:
    """Write or check the page; 1 when it is stale."""
    now = text()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(now, encoding="utf-8")
        print("wrote  docs/commands.md")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != now:
        print("commands: docs/commands.md is stale. To accept what the code says: make pages", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
