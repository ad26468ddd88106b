"""The commands of docs/verify.md, typed as they stand there."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sojourn.store.layout import read_layout
from tests.backends import samples

PAGE = (Path(__file__).resolve().parents[2] / "docs/verify.md").read_text(encoding="utf-8")


@pytest.mark.campaign
def test_the_commands_about_sealed_runs_do_what_the_page_says(tmp_path: Path) -> None:
    part = PAGE[PAGE.index("## Sealed runs") :]
    for run in ("lr3", "lr4"):
        active = tmp_path / "project/active" / run
        (active / "checkpoints").mkdir(parents=True)
        samples.write_npz(str(active / "checkpoints/best.npz"))
        samples.write_json(str(active / "metrics.json"))
        (active / "train.log").write_text("step 1\n")
    (layout,) = re.findall(r"```toml\n(.*?)```", part, re.S)
    (tmp_path / "layout.toml").write_text(layout)
    assert read_layout(str(tmp_path / "layout.toml")).required == ("metrics.json", "**/best.*")
    commands = [line for block in re.findall(r"```sh\n(.*?)```", part, re.S) for line in block.splitlines()]
    assert len(commands) == 7
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "200"}
    said = []
    for command in commands:
        if "copy/lr3" in command and not (tmp_path / "copy").exists():
            shutil.copytree(tmp_path / "project/export/lr3", tmp_path / "copy/lr3")
            shutil.copy(tmp_path / "project/export/lr3.manifest.json", tmp_path / "copy")
        argv = [sys.executable, "-m", *shlex.split(command)]
        done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        said.append(done.stdout)
    assert re.search(r"lr3 +yes +yes", said[1]) and re.search(r"lr4 +yes$", said[1], re.M)
    assert sorted(p.name for p in (tmp_path / "project/export/lr4").iterdir()) == ["checkpoints", "metrics.json"]
    assert "laptop and office agree on 3 files" in said[-1]
