"""`docs/adding-a-launcher.md` followed to the letter: a package of its own, its contract, and a run through it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parent.parent / "docs" / "adding-a-launcher.md"
SOURCE = Path(__file__).resolve().parent.parent / "src"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.M | re.S)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The page's launcher, as installed."""
    code, tests = blocks("python")
    (entries,) = blocks("toml")
    folder = tmp_path / "site"
    info = folder / "sojourn_nohup-1.dist-info"
    info.mkdir(parents=True)
    (folder / "sojourn_nohup.py").write_text(code)
    (folder / "test_nohup.py").write_text(tests)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sojourn-nohup\nVersion: 1\n")
    name, target = re.search(r'^(\w+) = "(.*)"$', entries, re.M).groups()  # type: ignore[union-attr]
    (info / "entry_points.txt").write_text(f"[sojourn.launcher]\n{name} = {target}\n")
    return folder


def python(package: Path, *words: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    env = dict(os.environ, PYTHONPATH=os.pathsep.join([str(package), str(SOURCE)]))
    return subprocess.run([sys.executable, *words], cwd=cwd, env=env, capture_output=True, text=True, timeout=300)


def test_the_pages_launcher_passes_the_contract(package: Path, tmp_path: Path) -> None:
    done = python(package, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_nohup.py", cwd=package)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout + done.stderr


def test_a_site_that_names_it_runs_with_it_and_nothing_of_ours_was_edited(
    package: Path, tmp_path: Path, private_home: Path
) -> None:
    settings = private_home / ".config" / "sojourn" / "settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[sites.mine]\nlauncher = "nohup"\n[sites.mine.nohup]\nanything = 1\n')
    (tmp_path / "sojourn.yaml").write_text("name: r\nrun: echo done > out.txt\noutputs: [out.txt]\nsite: mine\n")
    done = python(package, "-m", "sojourn", "run", "--follow", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    journal = next((private_home / ".local" / "state" / "sojourn").glob("journal*")).read_text()
    assert '"launcher":"nohup"' in journal.replace(" ", "")
    assert python(package, "-m", "sojourn", "pull", "r", cwd=tmp_path).returncode == 0
