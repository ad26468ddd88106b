"""Faults planted on purpose are caught: no fencing token, no folder sync, no second look of the law; one at a time.

Each is a patch in tests/planted whose first lines name the tests that catch it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PATCHES = sorted((Path(__file__).parent / "planted").glob("*.patch"))
NOT_COPIED = shutil.ignore_patterns(".git", ".venv*", "build", "__pycache__", ".mypy_cache", ".ruff_cache")


def catchers(patch: Path, size: str) -> list[str]:
    """The tests of this size that its header names."""
    return re.findall(rf"(?m)^Caught by make {size}: (\S+)$", patch.read_text("utf-8"))


@pytest.mark.campaign
@pytest.mark.lab
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
@pytest.mark.parametrize("size", ["test", "campaign"])
def test_a_planted_fault_is_caught(size: str, patch: Path, tmp_path: Path) -> None:
    tests = catchers(patch, size)
    if not tests:
        assert size == "test", f"{patch.name} is caught by no campaign"
        return
    tree = tmp_path / "tree"
    shutil.copytree(ROOT, tree, ignore=NOT_COPIED, symlinks=True)
    subprocess.run(["git", "apply", str(patch)], cwd=tree, check=True, env={**os.environ, "GIT_DIR": "/nonexistent"})
    env = {**os.environ, "PYTHONPATH": f"{tree / 'src'}:{tree}"}
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--size={size}", *tests]
    done = subprocess.run(argv, cwd=tree, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 1 and " failed" in done.stdout, done.stdout[-3000:]


def test_at_least_two_of_the_planted_faults_are_caught_by_make_test() -> None:
    assert len(PATCHES) >= 3
    assert sum(bool(catchers(patch, "test")) for patch in PATCHES) >= 2
