"""What a script's source says of work that would be lost: said before it is."""

from pathlib import Path

import pytest

from sojourn.store.job.read import read_job
from sojourn.verbs.project.foresight import foresee

TRAIN = """
import os, sys
import numpy as np
import torch
if os.path.exists("out/ckpt.pt"): torch.load("out/ckpt.pt")
DATA = os.path.join("data", "tiny")
x = np.load(os.path.join(DATA, "train.npy"))
torch.save({}, "out/ckpt.pt")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "data/tiny").mkdir(parents=True)
    (tmp_path / "data/tiny/train.npy").write_bytes(b"x" * 2048)
    (tmp_path / ".gitignore").write_text("data/\n")
    return tmp_path


def said(folder: Path, job: str, pushed: set[str]) -> list[str]:
    (folder / "sojourn.yaml").write_text(job)
    return foresee(read_job(str(folder / "sojourn.yaml")), pushed)


def test_checkpoints_and_data_that_would_be_lost_are_named_with_what_to_write(project: Path) -> None:
    kept, read = said(project, "run: python3 train.py\n", {"train.py"})
    assert kept == (
        "train.py:8, torch.save saves checkpoints in out, which a later attempt does not see; "
        "to keep them, add to sojourn.yaml: persist: [out]"
    )
    assert read == (
        "train.py:7 reads data/tiny/train.npy (2.0 KiB), which an ignore file keeps from being pushed; "
        "to push it: echo '!/data/' >> .sojournignore"
    )


def test_following_the_advice_ends_it(project: Path) -> None:
    from sojourn.verbs.project.source.tree import walk

    (project / ".sojournignore").write_text("!/data/\n")
    pushed = {path for path, _ in walk(str(project))}
    assert "data/tiny/train.npy" in pushed
    assert said(project, "run: python3 train.py\npersist: [out]\n", pushed) == []


def test_a_mount_brings_the_data_too(project: Path) -> None:
    job = "run: python3 train.py\npersist: [out]\nfile_mounts: {data/tiny: data/tiny}\n"
    assert said(project, job, {"train.py"}) == []


@pytest.mark.parametrize("run", ["echo done", "bash train.sh", "python3 absent.py", "python3 -m pkg.absent"])
def test_a_command_without_a_script_of_ours_says_nothing(project: Path, run: str) -> None:
    assert said(project, f"run: {run}\n", {"train.py"}) == []


def test_a_script_that_uses_our_checkpointer_needs_nothing(project: Path) -> None:
    text = "from sojourn.train import Checkpointer\nimport torch\ntorch.save({}, 'out/best.pt')\n"
    (project / "train.py").write_text(text)
    assert said(project, "run: python3 train.py\n", {"train.py"}) == []


def test_the_folder_that_the_command_names_counts(project: Path) -> None:
    text = "from transformers import HfArgumentParser\nHfArgumentParser(A)\ntrainer.train(resume_from_checkpoint=x)\n"
    (project / "train.py").write_text(text)
    (line,) = said(project, "run: python3 train.py --output_dir ./results/gpt\n", {"train.py"})
    assert line.endswith("persist: [results]")


def test_a_module_of_a_package_and_what_it_imports_are_read(project: Path) -> None:
    (project / "pkg").mkdir()
    (project / "pkg/__init__.py").touch()
    (project / "pkg/train.py").write_text("from pkg.io import load, save\nload()\nsave()\n")
    text = (
        "import torch\ndef save():\n    torch.save({}, 'weights/a.pt')\ndef load():\n    torch.load('weights/a.pt')\n"
    )
    (project / "pkg/io.py").write_text(text)
    (line,) = said(project, "run: python3 -m pkg.train\n", {"pkg/train.py"})
    assert line.startswith("pkg/io.py:3, torch.save saves checkpoints in weights")


def test_a_script_that_never_loads_is_told_so(project: Path) -> None:
    (project / "train.py").write_text("import torch\ntorch.save({}, 'out/ckpt.pt')\n")
    (line,) = said(project, "run: python3 train.py\n", {"train.py"})
    assert line.startswith("train.py never loads what it saves, so each attempt starts at step 0")
    assert (
        said(project, "run: python3 train.py\nresume: python3 train.py --again\npersist: [out]\n", {"train.py"}) == []
    )
