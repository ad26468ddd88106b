"""The scripts of docs/checkpointing.md and of the examples really run, and go on where they stood."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sojourn.formats.torch import zip as torch_zip
from tests.train.killing import environment

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/checkpointing.md").read_text(encoding="utf-8")
SCRIPTS = dict(re.findall(r"```python title=(\S+)\n(.*?)```", PAGE, re.S))
MARKED = [pytest.param(name, marks=pytest.mark.torch if "import torch" in SCRIPTS[name] else ()) for name in SCRIPTS]


def run(script: Path, folder: Path, *args: str) -> str:
    argv = [sys.executable, str(script), *args]
    done = subprocess.run(argv, cwd=str(folder), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout.decode()
    return done.stdout.decode()


@pytest.mark.parametrize("name", MARKED)
def test_the_scripts_of_the_page_run_and_go_on(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(SCRIPTS[name])
    assert "resumes from" not in run(tmp_path / name, tmp_path)
    assert "resumes from" in run(tmp_path / name, tmp_path)
    assert all(torch_zip.walk(str(path)).problems == () for path in (tmp_path / "checkpoints").glob("*.pt"))


@pytest.mark.campaign
@pytest.mark.parametrize("name", ["digits", pytest.param("digits-torch", marks=pytest.mark.torch)])
def test_the_examples_recognise_digits_after_a_short_training(name: str, tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    said = run(ROOT / "examples" / name / "train.py", tmp_path, "--epochs", "3")
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["test_accuracy"] > 0.93 and metrics["epochs"] == 3, said
    assert "resumes from" in run(ROOT / "examples" / name / "train.py", tmp_path, "--epochs", "4")
    for path in ("checkpoints/best.pt", "predictions.npz", "final.npz" if name == "digits" else "final.pt"):
        assert (tmp_path / path).stat().st_size > 0
