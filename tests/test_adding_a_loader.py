"""`docs/adding-a-loader.md` followed to the letter: a package of its own, its contract, and files proven with it."""

import wave
from pathlib import Path

import pytest

from tests.installed import of_page, python


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return of_page(tmp_path / "site", "adding-a-loader.md")


def write(path: Path) -> None:
    with wave.open(str(path), "wb") as f:
        f.setparams((1, 2, 8000, 0, "NONE", "none"))
        f.writeframes(bytes(range(256)) * 100)


def test_the_pages_loader_passes_the_contract(package: Path) -> None:
    done = python(package, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_wav.py", cwd=package)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.campaign
def test_verify_and_pull_use_it_and_nothing_of_ours_was_edited(package: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    write(project / "good.wav")
    (project / "cut.wav").write_bytes((project / "good.wav").read_bytes()[:-100])
    found = python(package, "-m", "sojourn", "verify", "good.wav", cwd=project)
    assert found.returncode == 0 and "(wav 1)" in found.stdout, found.stdout + found.stderr
    found = python(package, "-m", "sojourn", "verify", "cut.wav", cwd=project)
    assert found.returncode == 1 and "truncated" in found.stdout, found.stdout + found.stderr
    (project / "sojourn.yaml").write_text("name: r\nrun: cp good.wav out.wav\noutputs: [out.wav]\n")
    assert python(package, "-m", "sojourn", "run", "--follow", cwd=project).returncode == 0
    found = python(package, "-m", "sojourn", "pull", "r", cwd=project)
    assert found.returncode == 0 and "wav 1" in found.stdout, found.stdout + found.stderr
