"""README's install commands work from a clone and from a wheel, and a release can be made: all without a network.

Dependencies come from wheels packed again from what is installed here, so every installer resolves and unpacks them.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest

from scripts.release import gathered

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BIN = Path(sys.executable).parent
# What the program and its extras need, what builds it, and what pipx puts into the environment that its own share.
WANTED = ["sojourn", "flit-core", "pip"]
INSTALLS = re.findall(r"(?m)^((?:pip|pipx|uv tool) install .*?)(?: +#.*)?$", (ROOT / "README.md").read_text())


def needed(names: list[str]) -> dict[str, Distribution]:
    """These distributions and all that they require here, extras included."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    found: dict[str, Distribution] = {}
    todo = [(name, frozenset({"plot", "notify"})) for name in names]
    while todo:
        name, extras = todo.pop()
        if canonicalize_name(name) in found:
            continue
        found[canonicalize_name(name)] = here = distribution(name)
        for one in map(Requirement, here.requires or ()):
            if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in {"", *extras}):
                todo.append((one.name, frozenset(one.extras)))
    return found


def packed(here: Distribution, folder: Path) -> None:
    """The wheel that this distribution was installed from, without the programs that the installer made."""
    info = next(file.parent for file in here.files or () if file.name == "WHEEL")
    tags = [tag.split("-") for tag in re.findall(r"(?m)^Tag: (\S+)", here.read_text("WHEEL") or "")]
    tag = "-".join(".".join(sorted({parts[n] for parts in tags})) for n in range(3))
    stem = info.name.removesuffix(".dist-info")
    files = [file for file in here.files or () if ".." not in file.parts and file.suffix != ".pyc"]
    kept = [file for file in files if file.parent != info or file.name not in ("RECORD", "INSTALLER", "REQUESTED")]
    with zipfile.ZipFile(folder / f"{stem}-{tag}.whl", "w") as wheel:
        for file in kept:
            wheel.write(str(file.locate()), str(file))
        rows = "".join(f'"{file}",,\n' for file in kept)
        wheel.writestr(f"{info}/RECORD", f"{rows}{info}/RECORD,,\n")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    for name, here in needed(WANTED).items():
        if name != "sojourn":
            packed(here, folder)
    return folder


@pytest.fixture
def environ(wheels: Path, tmp_path: Path, private_home: Path) -> dict[str, str]:
    """No package index but our wheels, and on PATH only the installers and what they install in this test's home."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("pipx", "uv"):
        (tools / tool).symlink_to(BIN / tool)
    ours = re.compile(r"(PIP|UV|PIPX)_|VIRTUAL_ENV|PYTHONPATH")
    return {
        **{name: value for name, value in os.environ.items() if not ours.match(name)},
        "PATH": f"{tmp_path / 'env/bin'}:{private_home / '.local/bin'}:{tools}:/usr/bin:/bin",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_COMPILE": "1",
        "PIPX_DEFAULT_PYTHON": sys.executable,
        "UV_NO_INDEX": "1",
        "UV_FIND_LINKS": str(wheels),
        "UV_PYTHON": sys.executable,
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_NO_CONFIG": "1",
    }


def clone(folder: Path) -> Path:
    """A repository of its own with what is here, tests apart, committed."""
    argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", ":!tests", ":!benchmarks"]
    names = subprocess.run(argv, cwd=ROOT, capture_output=True, check=True, timeout=60).stdout.decode().split("\0")
    for name in names:
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "all")
    return folder


def git(folder: Path, *words: str) -> str:
    argv = ["git", "-c", "user.name=Ann", "-c", "user.email=ann@example.com", *words]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone in which the wheel was built, as README says but for the isolation."""
    folder = clone(tmp_path_factory.mktemp("built"))
    argv = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "-w", "dist", "."]
    run(argv, folder, dict(os.environ))
    return folder


def run(argv: list[str], folder: Path, environ: dict[str, str]) -> str:
    ended = subprocess.run(argv, cwd=folder, env=environ, capture_output=True, text=True, timeout=280, check=False)
    assert ended.returncode == 0, f"{argv}\n{ended.stdout}{ended.stderr}"
    return ended.stdout


def test_the_readme_installs_from_a_clone_and_from_a_wheel_with_each_installer() -> None:
    kinds = {(line.split()[0], ".whl" in line) for line in INSTALLS}
    assert kinds == {(tool, wheel) for tool in ("pip", "pipx", "uv") for wheel in (False, True)}


def test_the_readme_names_every_extra_as_pyproject_does() -> None:
    text = (ROOT / "README.md").read_text()
    named = {extra for line in INSTALLS for extras in re.findall(r"\[([\w,-]+)\]", line) for extra in extras.split(",")}
    assert named <= set(PROJECT["optional-dependencies"])  # keyring is not among the pinned wheels of the tests
    assert [extra for extra in PROJECT["optional-dependencies"] if f"`{extra}`" not in text] == []


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("line", INSTALLS)
def test_an_install_command_of_the_readme_works(
    line: str, built: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    if line.startswith("pip "):
        run([sys.executable, "-m", "venv", str(tmp_path / "env")], tmp_path, environ)
    run(["sh", "-ec", line], built, environ)
    program = shutil.which("sojourn", path=environ["PATH"])
    assert program is not None and not program.startswith(str(BIN))
    version = re.findall(r'__version__ = "(.+)"', (ROOT / "src/sojourn/__init__.py").read_text())[0]
    assert run([program, "--version"], tmp_path, environ) == f"sojourn {version}\n"
    assert "out-of-memory" in run([program, "gotchas", "search", "oom"], tmp_path, environ)
    assert "On a Slurm cluster" in run([program, "help", "slurm"], tmp_path, environ)
    for extra in re.findall(r"\[([\w,-]+)\]", line):
        python = Path(os.path.realpath(program)).parent / "python"
        modules = {"plot": "matplotlib", "notify": "apprise"}
        run([str(python), "-c", "import " + ", ".join(modules[one] for one in extra.split(","))], tmp_path, environ)


def release(folder: Path, environ: dict[str, str], version: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "scripts/release.py", version]
    return subprocess.run(argv, cwd=folder, env=environ, capture_output=True, text=True, timeout=280, check=False)


@pytest.mark.campaign
def test_a_release_gathers_the_changes_and_builds_files_that_work(environ: dict[str, str], tmp_path: Path) -> None:
    here = clone(tmp_path / "clone")
    (here / "changes/a-note.md").write_text("# A note\n\nSee [ssh](../docs/ssh.md).\n")
    git(here, "add", "-A")
    git(here, "commit", "-qm", "note")
    titles = [path.read_text().splitlines()[0] for path in (here / "changes").glob("*.md") if path.name != "README.md"]
    done = release(here, environ, "9.9.9")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [path.name for path in (here / "changes").iterdir()] == ["README.md"]
    assert re.search(r'(?m)^__version__ = "9\.9\.9"$', (here / "src/sojourn/__init__.py").read_text())
    text = (here / "CHANGELOG.md").read_text()
    assert re.search(r"(?m)^## 9\.9\.9 \(\d{4}-\d\d-\d\d\)$", text)
    assert [title for title in titles if f"\n##{title}\n" not in text] == []
    assert "See [ssh](docs/ssh.md)." in text and "](../" not in text
    files = {path.name for path in (here / "dist").iterdir()}
    assert files == {"sojourn-9.9.9-py3-none-any.whl", "sojourn-9.9.9.tar.gz"}
    assert done.stdout.count("in an empty environment") == 2
    assert "git tag -a v9.9.9" in done.stdout and "git push" in done.stdout
    assert git(here, "tag") == "" and git(here, "log", "--format=%s").splitlines() == ["note", "all"]


@pytest.mark.campaign
def test_a_release_that_cannot_be_changes_nothing(tmp_path: Path) -> None:
    here = clone(tmp_path / "clone")
    (here / "changes/another.md").write_text("# Another change\n")
    before = git(here, "status", "--porcelain")
    for version, why_not in (("1.2", "not a version"), ("0.0.1", "is older than"), ("9.9.9", "uncommitted changes")):
        done = release(here, dict(os.environ), version)
        assert done.returncode == 2 and why_not in done.stderr
    assert git(here, "status", "--porcelain") == before


def test_a_new_version_stands_above_the_older_ones() -> None:
    first = gathered("# Changelog\n\nHead.\n", "0.1.0", "2026-01-02", ["### One", "### Two\n\nText."])
    assert first == "# Changelog\n\nHead.\n\n## 0.1.0 (2026-01-02)\n\n### One\n\n### Two\n\nText.\n"
    second = gathered(first, "0.2.0", "2026-02-03", ["### Three"])
    assert re.findall(r"(?m)^#+ .*", second) == [
        "# Changelog",
        "## 0.2.0 (2026-02-03)",
        "### Three",
        "## 0.1.0 (2026-01-02)",
        "### One",
        "### Two",
    ]
    assert second.endswith(first.partition("\n## ")[2])


def test_public_addresses_are_https_and_known_by_name() -> None:
    urls = PROJECT.get("urls", {})
    assert set(urls) <= {"Homepage", "Documentation", "Source", "Issues", "Changelog"}
    assert [url for url in urls.values() if not url.startswith("https://")] == []
