"""Compiles data/gotchas/*.toml into data/gotchas.index.json, which the program reads. With --check: is it fresh?"""

from __future__ import annotations

import sys
from pathlib import Path

from sojourn.store.gotchas import compile_index

INDEX = Path(__file__).resolve().parent.parent / "src/sojourn/data/gotchas.index.json"


def main() -> int:
    """Write or check the index; 1 when it is stale."""
    text = compile_index()
    if "--check" not in sys.argv[1:]:
        INDEX.write_text(text, encoding="utf-8")
        print(f"wrote  data/gotchas.index.json  {text.count(chr(10)) - 2} gotchas")
    elif not INDEX.exists() or INDEX.read_text(encoding="utf-8") != text:
        print("gotchas: the index is stale. To accept what the data says: make pages", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
