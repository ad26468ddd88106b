"""What one version of the program keeps is not taken for another's."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import sojourn


def code(package: Path) -> str:
    said = "from sojourn.store.program import read_code; print(read_code())"
    env = {**os.environ, "PYTHONPATH": str(package.parent)}
    return subprocess.run([sys.executable, "-c", said], env=env, capture_output=True, text=True, check=True).stdout


def test_a_file_that_was_changed_in_length_or_in_time_makes_another_program(tmp_path: Path) -> None:
    package = tmp_path / "sojourn"
    shutil.copytree(Path(sojourn.__file__).parent, package, ignore=shutil.ignore_patterns("data", "__pycache__"))
    answers = package / "verbs/answers.py"
    seen = [code(package)]
    assert code(package) == seen[0] and len(seen[0].strip()) == 64
    answers.write_text(answers.read_text() + "# more\n")
    seen.append(code(package))
    os.utime(answers, ns=(1, 1))
    seen.append(code(package))
    shutil.copytree(package, tmp_path / "elsewhere/sojourn")
    seen.append(code(tmp_path / "elsewhere/sojourn"))
    assert len(set(seen)) == 4


def test_a_program_that_is_no_files_of_its_own_keeps_nothing(tmp_path: Path) -> None:
    package = tmp_path / "sojourn"
    shutil.copytree(Path(sojourn.__file__).parent, package, ignore=shutil.ignore_patterns("data", "__pycache__"))
    packed = shutil.make_archive(str(tmp_path / "packed"), "zip", tmp_path, "sojourn")
    assert code(Path(packed) / "sojourn").strip() == ""
