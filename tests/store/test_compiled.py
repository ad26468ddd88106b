"""What is compiled from data is built once, again after each change of a source, and never stands in the way."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sojourn.store import compiled, places


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with one source in it."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "one.toml").write_text("1")
    monkeypatch.setattr(compiled, "DATA", str(folder))
    return folder


def asked(data: Path, built: list[int], value: Any = None) -> Any:
    def build() -> Any:
        built.append(1)
        return value or {"text": (data / "one.toml").read_text()}

    return compiled.compiled("thing", [str(data)], build)


def test_it_is_built_once_and_anew_when_a_source_changed(data: Path) -> None:
    built: list[int] = []
    assert [asked(data, built) for _ in range(3)] == [{"text": "1"}] * 3 and len(built) == 1
    (data / "one.toml").write_text("two")
    assert asked(data, built) == {"text": "two"} and len(built) == 2
    (data / "more.toml").write_text("x")
    asked(data, built)
    assert len(built) == 3 and len(list((data / "__pycache__").iterdir())) == 1


def test_what_was_kept_and_is_damaged_is_built_anew(data: Path) -> None:
    built: list[int] = []
    asked(data, built)
    (kept,) = (data / "__pycache__").iterdir()
    kept.write_text(kept.read_text()[:-2])
    assert asked(data, built) == {"text": "1"} and len(built) == 2
    assert json.loads(kept.read_text()) == {"text": "1"}


def test_where_the_data_cannot_be_written_beside_it_is_kept_in_the_cache_else_nowhere(data: Path) -> None:
    built: list[int] = []
    (data / "__pycache__").write_text("a file in the way")
    for _ in range(2):
        asked(data, built)
    assert len(built) == 1 and len(os.listdir(places.cache_dir())) == 1
    os.unlink(os.path.join(places.cache_dir(), *os.listdir(places.cache_dir())))
    os.rmdir(places.cache_dir())
    Path(places.cache_dir()).write_text("another")
    for _ in range(2):
        assert asked(data, built, {"a": [1]}) == {"a": [1]}
    assert len(built) == 3


def test_a_tuple_is_a_list_from_the_first_time_on(data: Path) -> None:
    assert [asked(data, [], {"a": (1, 2)}) for _ in range(2)] == [{"a": [1, 2]}] * 2
