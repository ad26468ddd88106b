"""Make a release in this checkout: gather changes/, set the version, build and try wheel and sdist. Publishes nothing.

    .venv/bin/python scripts/release.py VERSION     for example 0.2.0; the checkout must have no uncommitted changes
    .venv/bin/python scripts/release.py --build     build and try what is here, and change nothing

Each file is tried in an empty environment of its own; pip takes the dependencies from where it is set up to.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE, CHANGELOG, CHANGES = ROOT / "src/sojourn/__init__.py", ROOT / "CHANGELOG.md", ROOT / "changes"
DIST = ROOT / "dist"
VERSION = re.compile(r'(?m)^__version__ = "(\d+\.\d+\.\d+)"$')
BUILD = "import sys, sojourn_build as b; print(b.build_wheel(sys.argv[1])); print(b.build_sdist(sys.argv[1]))"
TIMEOUT_S = 900.0


def notes() -> list[Path]:
    """The notes of changes that no release has gathered yet, by name."""
    return sorted(path for path in CHANGES.glob("*.md") if path.name != "README.md")


def entry(note: str) -> str:
    """A note as an entry of the changelog: headings two levels down, links as seen from the top of the repository."""
    return re.sub(r"\]\(\.\./", "](", re.sub(r"(?m)^#", "###", note)).strip()


def gathered(changelog: str, version: str, day: str, entries: list[str]) -> str:
    """The changelog with the new version above the older ones."""
    head, mark, older = changelog.partition("\n## ")
    return "\n\n".join([head.strip(), f"## {version} ({day})", *entries]) + "\n" + (f"{mark}{older}" if mark else "")


def refusal(version: str) -> str:
    """Why there can be no such release, or nothing."""
    current = VERSION.findall(PACKAGE.read_text(encoding="utf-8"))
    if len(current) != 1:
        return f'{PACKAGE.name} has {len(current)} lines of the form __version__ = "1.2.3"; one is wanted'
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        return f"{version} is not a version of the form 1.2.3"
    if _number(version) < _number(current[0]):
        return f"{version} is older than {current[0]}, the version in {PACKAGE.relative_to(ROOT)}"
    if re.search(rf"(?m)^## {re.escape(version)} ", CHANGELOG.read_text(encoding="utf-8")):
        return f"{version} is in CHANGELOG.md already"
    if not notes():
        return "changes/ holds no note, so there is nothing to release"
    if _run(["git", "status", "--porcelain"], ROOT):
        return "the checkout has uncommitted changes; commit or stash them"
    return ""


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def prepare(version: str, day: str) -> int:
    """Write the changelog and the version, and remove the notes; how many there were."""
    found = notes()
    entries = [entry(note.read_text(encoding="utf-8")) for note in found]
    text = gathered(CHANGELOG.read_text(encoding="utf-8"), version, day, entries)
    CHANGELOG.write_text(text, encoding="utf-8")
    PACKAGE.write_text(VERSION.sub(f'__version__ = "{version}"', PACKAGE.read_text(encoding="utf-8")), encoding="utf-8")
    for note in found:
        note.unlink()
    return len(found)


def build() -> list[Path]:
    """The wheel and the sdist, in dist/."""
    DIST.mkdir(exist_ok=True)
    backend = f"import sys; sys.path.insert(0, {str(ROOT / 'scripts/backend')!r}); {BUILD}"
    return [DIST / name for name in _run([sys.executable, "-c", backend, str(DIST)], ROOT).split()]


def attempt(file: Path, version: str) -> str:
    """Install a file into an empty environment and run the program there; what is wrong, or nothing."""
    with tempfile.TemporaryDirectory(prefix="sojourn-release-") as name:
        empty = Path(name)
        _run([sys.executable, "-m", "venv", str(empty / "venv")], empty)
        python, program = empty / "venv/bin/python", str(empty / "venv/bin/sojourn")
        _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(file)], empty)
        said = _run([program, "--version"], empty).strip()
        if said != f"sojourn {version}":
            return f"--version says {said!r}, and {version} was wanted"
        if "On a Slurm cluster" not in _run([program, "help", "slurm"], empty):
            return "help slurm does not show its page"
        if "out-of-memory" not in _run([program, "gotchas", "search", "oom"], empty):
            return "gotchas search oom finds no gotcha about memory"
    return ""


def _run(argv: list[str], folder: Path) -> str:
    """The output of a command that must succeed, run with none of this checkout's modules in its way."""
    environ = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    ended = subprocess.run(
        argv, cwd=folder, env=environ, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    if ended.returncode != 0:
        raise SystemExit(f"release: {' '.join(argv)} ended with {ended.returncode}\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def next_steps(version: str, files: list[Path]) -> list[str]:
    """What a person does now: none of it is done here."""
    steps = [
        "read it:      git diff HEAD -- CHANGELOG.md",
        f"commit it:    git add -A && git commit -m 'Release {version}'",
        f"              git tag -a v{version} -m 'sojourn {version}'",
        f"publish it:   git push --follow-tags, upload {' and '.join(str(file.relative_to(ROOT)) for file in files)},",
        "              and the documentation: make site",
        "or undo it:   git checkout HEAD -- CHANGELOG.md changes src/sojourn/__init__.py",
    ]
    if not tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"].get("urls"):
        steps.insert(0, "first release: set the public addresses in pyproject.toml, [project.urls]; there are none yet")
    return steps


def main() -> int:
    """Prepare, build, try; 2 when there can be no such release, 1 when a file does not work."""
    parser = argparse.ArgumentParser(description="Make a release in this checkout; publish nothing.")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("version", nargs="?", metavar="VERSION", help="such as 0.2.0")
    which.add_argument("--build", action="store_true", help="build and try what is here, and change nothing")
    args = parser.parse_args()
    if args.version:
        if why_not := refusal(args.version):
            print(f"release: {why_not}", file=sys.stderr)
            return 2
        print(f"gathered  {prepare(args.version, datetime.now(UTC).date().isoformat())} changes into CHANGELOG.md")
    version = VERSION.findall(PACKAGE.read_text(encoding="utf-8"))[0]
    files = build()
    for file in files:
        print(f"built     {file.relative_to(ROOT)}  {file.stat().st_size / 1024:.0f} KiB", flush=True)
        if wrong := attempt(file, version):
            print(f"release: {file.name}: {wrong}", file=sys.stderr)
            return 1
        print(f"tried     {file.relative_to(ROOT)}  in an empty environment")
    for step in next_steps(version, files) if args.version else ():
        print(step)
    return 0


if __name__ == "__main__":
    sys.exit(main())
