"""A backend in a package of its own, as pip would install it, and Python with that package."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of a language on a page of docs/."""
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / "docs" / page).read_text(), re.M | re.S)


def of_page(folder: Path, page: str) -> Path:
    """The package of a page: its first Python block is the backend, the second its tests, the TOML block its entry."""
    code, tests = blocks(page, "python")
    entries, *_ = blocks(page, "toml")
    port = re.search(r'"sojourn\.(\w+)"', entries)
    entry = re.search(r'^(\w+) = "(.*)"$', entries, re.M)
    assert port and entry, entries
    return installed(folder, port[1], entry[1], code, entry[2], tests)


def installed(folder: Path, port: str, name: str, code: str, target: str, tests: str) -> Path:
    """A package with the backend `name` of `port`."""
    info = folder / f"sojourn_{name}-1.dist-info"
    info.mkdir(parents=True)
    (folder / f"sojourn_{name}.py").write_text(code)
    (folder / f"test_{name}.py").write_text(tests)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: sojourn-{name}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[sojourn.{port}]\n{name} = {target}\n")
    return folder


def python(package: Path, *words: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    """Python with the package and ours."""
    env = dict(os.environ, PYTHONPATH=os.pathsep.join([str(package), str(SOURCE)]))
    return subprocess.run([sys.executable, *words], cwd=cwd, env=env, capture_output=True, text=True, timeout=300)
