"""What a client believes of a name is what the box finds by the same glob."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sojourn.box.system import globs as on_the_box
from sojourn.wire.globs import covers

TREE = ["a", "b.pt", ".hid", "out/a", "out/b.pt", "out/.hid", "out/deep/a", "out/deep/b.pt", "out/.git/hooks/a"]
TREE += ["deep/a", "deep/deep/b.pt", ".git/hooks/a", ".git/b.pt", "[x]/a", "out/deep/deep/deep/a"]
PARTS = ["a", "b.pt", "out", "deep", ".git", ".hid", ".*", "*", "**", "*.pt", "?", "[x]", "o*", "hooks", ".", "", ".."]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tree")
    for name in TREE:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    return root


@given(parts=st.lists(st.sampled_from(PARTS), max_size=5))
@example(parts=["**"])
@example(parts=["**", "**", "a"])
@example(parts=["out", "**"])
@example(parts=["*", ".git"])
@example(parts=[])
def test_a_name_is_covered_exactly_where_the_box_finds_the_file(tree: Path, parts: list[str]) -> None:
    glob = "/".join(parts)
    assert {name for name in TREE if covers(glob, name)} == set(on_the_box.hits(str(tree), glob))


def test_what_no_output_names_is_not_covered() -> None:
    for path in ("sitecustomize.py", ".git/hooks/post-checkout", "Out/a", "out", "outer/a", "x/out/a"):
        assert not covers("out/*", path) and not covers("out/**", path), path
    assert covers(".git", ".git/hooks/post-checkout") and covers("out", "out/.hidden/x")


def test_a_hostile_name_takes_no_time() -> None:
    began_s = time.monotonic()
    assert not covers("/".join(["**"] * 30 + ["x.pt"]), "/".join(["a"] * 2000))
    assert time.monotonic() - began_s < 30
