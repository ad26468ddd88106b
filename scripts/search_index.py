"""Compiles the gotchas and data/words.toml into data/search.index.json, for search. With --check: is it fresh?"""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

from sojourn.diagnose.search import compile_index
from sojourn.store.gotchas import gotchas

DATA = Path(__file__).resolve().parent.parent / "src/sojourn/data"
INDEX = DATA / "search.index.json"


def text() -> str:
    """The index as it should be: a line for each term, so that a change of one gotcha is a change of few lines."""
    words = tomllib.loads((DATA / "words.toml").read_text(encoding="utf-8"))
    index = compile_index(gotchas(), words["same"], words["places"])
    return "{\n" + ",\n".join(f"{_json(key)}:{_rows(value)}" for key, value in index.items()) + "\n}\n"


def _rows(value: dict[str, object] | list[object]) -> str:
    if isinstance(value, dict):
        return "{\n" + ",\n".join(f"{_json(key)}:{_json(row)}" for key, row in value.items()) + "\n}"
    return "[\n" + ",\n".join(_json(row) for row in value) + "\n]"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def main() -> int:
    """Write or check the index; 1 when it is stale."""
    now = text()
    if "--check" not in sys.argv[1:]:
        INDEX.write_text(now, encoding="utf-8")
        print(f"wrote  data/search.index.json  {len(now) >> 10} KiB")
    elif not INDEX.exists() or INDEX.read_text(encoding="utf-8") != now:
        print("search: the index is stale. To accept what the data says: make pages", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
