"""Fixtures of the store's tests."""

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    project = tmp_path / "My Project"
    project.mkdir()
    (project / "data").mkdir()
    return project


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def tree(tmp_path: Path, cache: Path) -> Path:
    root = tmp_path / "tree"
    root.mkdir()
    return root
