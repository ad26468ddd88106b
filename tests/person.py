"""Somebody with a machine of their own, the digits example, and packages of others that are installed there."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.box.rig import until

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples/digits"
STEPS = 338  # of the example in an epoch


class Person:
    """Calls sojourn as a program, at home in TOP/NAME."""

    def __init__(self, top: Path, name: str, package: Path, site: str, settings: str) -> None:
        self.home = top / name
        self.settings(settings)
        self.project = self.home / "project"
        self.project.mkdir()
        shutil.copy(EXAMPLE / "train.py", self.project)
        self.site = site
        self.job()
        self.env = {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join([str(package), str(ROOT / "src")]),
            **{name: value for name, value in os.environ.items() if name.startswith(("SOJOURN_TEST", "OMP_"))},
        }

    def job(self, epochs: int = 12, more: str = "") -> None:
        """The example's job file, for this site and so many epochs: each takes half a second or more."""
        text = (EXAMPLE / "sojourn.yaml").read_text()
        new = {
            "site: local": f"site: {self.site}",
            "run: python": f"run: {sys.executable}",
            "--epochs 60": f"--epochs {epochs}",
        }
        for old, word in new.items():
            assert text.count(old) == 1, old
            text = text.replace(old, word)
        (self.project / "sojourn.yaml").write_text(text + more)

    def settings(self, text: str) -> None:
        """Write what the user's settings say."""
        file = self.home / ".config/sojourn/settings.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def __call__(
        self, *words: str, rc: int | None = 0, program: tuple[str, ...] = ("-m", "sojourn"), **env: str
    ) -> Any:
        ran = subprocess.run(
            [sys.executable, *program, *words],
            cwd=self.project,
            env={**self.env, **env},
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert rc is None or ran.returncode == rc, f"{words}: {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
        return json.loads(ran.stdout) if "--json" in words and ran.stdout else ran

    def row(self) -> dict[str, Any]:
        (row,) = self("status", "--json", rc=None)["runs"]
        found: dict[str, Any] = row
        return found

    def until_saved(self, folder: Path) -> None:
        """Its training, which lies below `folder`, has a checkpoint."""
        until(lambda: list(folder.rglob("checkpoints/ckpt-*.pt")))

    def fetched(self) -> Path:
        """Pull the digits, verify them, and see that no step was left out or done twice; the folder."""
        to = self.home / "results"
        self("pull", "digits", "--to", str(to))
        self("verify", str(to))
        (metrics,) = to.rglob("metrics.json")
        said = json.loads(metrics.read_text())
        assert said["steps"] == said["epochs"] * STEPS and said["test_accuracy"] > 0.9
        return to

    def until(self, *states: str) -> dict[str, Any]:
        deadline = time.monotonic() + 240
        while (row := self.row())["state"] not in states:
            assert time.monotonic() < deadline, row
            time.sleep(0.1)
        return row


def installed(top: Path, name: str, **backends: str) -> Path:
    """The fake `name` as a package in a folder for PYTHONPATH. `backends`: port -> the class that it is."""
    package = top / "site"
    info = package / f"sojourn_{name}-1.dist-info"
    info.mkdir(parents=True)
    (package / f"sojourn_{name}.py").write_text((ROOT / f"tests/fakes/sojourn_{name}.py").read_text())
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: sojourn-{name}\nVersion: 1\n")
    ports = (f"[sojourn.{port}]\n{name} = sojourn_{name}:{cls}\n" for port, cls in backends.items())
    (info / "entry_points.txt").write_text("".join(ports))
    return package
