"""JSON without `json`: what it reads, writes and refuses is what `json` reads, writes and refuses."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sojourn.store import parcel
from sojourn.wire import lean_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
STYLES = [
    {},
    {"separators": (",", ":"), "ensure_ascii": False},
    {"sort_keys": True, "ensure_ascii": False, "allow_nan": False},
]


def outcome(act: Callable[..., Any], *what: Any, **how: Any) -> str:
    """What came of it, or what it raised."""
    try:
        return repr(act(*what, **how))
    except (ValueError, TypeError, RecursionError) as error:
        return "%s: %s" % (type(error).__name__, error)


@given(VALUES, st.sampled_from(STYLES))
@example({2: "a", None: 2, True: 3.0}, {})
@example({"x": {1, 2}}, {})
@example({("a",): 1}, {})
@example({"a": float("nan")}, STYLES[2])
@example("\udcff\x00\u2028", STYLES[1])
def test_it_writes_what_json_writes(value: Any, style: Any) -> None:
    assert outcome(lean_json.dumps, value, **style) == outcome(json.dumps, value, **style)


@given(st.text(max_size=20) | VALUES.map(json.dumps))
@example("")
@example(" \n[1, 2.50, -0, 1e999, NaN, -Infinity]\t ")
@example("[1] x")
@example("\ufeff[]")
@example('{"a": 1, "a": 2}')
@example('"\n"')
@example("{")
@example("\x0b1")
@example("1" * 300 + ".5")
def test_it_reads_what_json_reads(text: str) -> None:
    assert outcome(lean_json.loads, text) == outcome(json.loads, text)


def test_its_hooks_are_those_of_json() -> None:
    text = '{"a": [1.5, NaN, 2, -Infinity]}'
    hooks: Any = {"parse_float": str, "parse_constant": str}
    assert lean_json.loads(text, **hooks) == json.loads(text, **hooks)


def test_what_lies_too_deep_is_refused() -> None:
    with pytest.raises(RecursionError):
        lean_json.loads("[" * 100_000)


@pytest.mark.parametrize("half", ["None", "type('other', (), {'make_scanner': None, 'make_encoder': None})"])
def test_a_python_without_that_half_does_the_same(half: str) -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); from sojourn.wire import lean_json as j; j._json = %s;"
    code += "print(j.loads(' [1, NaN]'), j.dumps({'a': 'é'}))"
    source = str(Path(lean_json.__file__).parents[2])
    done = subprocess.run([sys.executable, "-c", code % half, source], capture_output=True, timeout=60)
    assert done.stdout.split() == b'[1, nan] {"a": "\\u00e9"}'.split(), done.stderr


def test_a_look_at_a_box_loads_neither_json_nor_what_json_brings_along(tmp_path: Any) -> None:
    name, data = parcel.keeper_bytes()
    (tmp_path / name).write_bytes(data)
    code = "import sys; sys.path.insert(0, sys.argv[1]); import sojourn.box.ops.since, sojourn.wire.lean_json as j;"
    code += "j.loads(j.dumps([1])); print(*sys.modules)"
    argv = [sys.executable, "-I", "-S", "-c", code, str(tmp_path / name)]
    loaded = set(subprocess.run(argv, capture_output=True, check=True, timeout=60).stdout.decode().split())
    assert "sojourn.box.ops.since" in loaded
    assert loaded.isdisjoint(["json", "re", "enum", "functools", "collections", "contextlib", "typing"]), loaded
