"""Fixtures of the store's tests."""

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    project = tmp_path / "My Project"
    project.mkdir()
    (project / "data").mkdir()
    return project
