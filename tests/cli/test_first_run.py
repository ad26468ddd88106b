"""docs/first-run.md is run from top to bottom, and prints what it says it prints; README shows an excerpt of it."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs/first-run.md"
CONSOLE = re.compile(r"(?ms)^```console\n(.*?)^```\n")


@pytest.fixture
def home() -> Iterator[Path]:
    """A short path: what is printed is folded as it would be at home."""
    folder = Path(tempfile.mkdtemp(prefix="sj", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


def project(home: Path) -> Path:
    """The folder that the page asks for. Its first attempt is too slow to end before it is stopped."""
    folder = home / "digits"
    folder.mkdir()
    for name, text in re.findall(r"(?ms)^```python title=(\S+)\n(.*?)^```\n", PAGE.read_text()):
        pace = "time.sleep(0.2 if ckpt.step_count < 40 or os.environ.get('SOJOURN_ATTEMPT') != '1' else 3)"
        (folder / name).write_text(text.replace("time.sleep(0.2)", pace).replace("import json", "import json, os"))
    return folder


def rests(run: Path, folder: Path, env: dict[str, str], line: str) -> None:
    """Wait until what the next command shows does not hang on the moment: the first epoch where the page waits for
    steps, the seal where an attempt has ended.
    """
    deadline_s = time.monotonic() + 240
    events = lambda: (run / "events.jsonl").read_text() if run.exists() else ""  # noqa: E731
    while events().count('"kind":"ended"') != events().count('"kind":"sealed"'):
        assert time.monotonic() < deadline_s, events()
        time.sleep(0.05)
    while line.startswith("sleep "):
        argv = ["sojourn", "status", "digits"]
        if "accuracy" in subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, timeout=120).stdout:
            return
        assert time.monotonic() < deadline_s, events()
        time.sleep(0.5)


def perform(block: str, folder: Path, home: Path) -> str:
    """The console block with what its commands print now."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    env |= {"HOME": str(home), "COLUMNS": "80", "PATH": f"{Path(sys.executable).parent}:{env['PATH']}"}
    shown = []
    for line in re.findall(r"(?m)^\$ (.*)$", block):
        rests(home / ".local/share/sojourn/runs/digits", folder, env, line)
        argv = ["bash", "-c", line]
        done = subprocess.run(argv, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
        progress = re.compile(
            r"^sojourn: (digits: |reading |copying |smoke: |pushing |pulling |asking |letting ).*\n", re.M
        )
        said = progress.sub("", done.stderr.decode())
        shown.append(f"$ {line}\n{done.stdout.decode()}{said}".replace(str(home), "/home/you"))
    return "".join(shown)


def masked(text: str) -> list[str]:
    """Words; every number, duration, clock and size only by its kind, and nothing that hangs on the moment."""
    text = re.sub(r"  its last checkpoint is from step .*\n", "", text)
    text = re.sub(r"\d\d:\d\d \w+", "CLOCK", text)
    text = re.sub(r"\d+ [dhm] \d+ [hms]\b|\d+(\.\d+)? s\b", "TIME", text)
    text = re.sub(r"\d[\d.,]* ([KMGT]iB|B)\b", "SIZE", text)
    return re.sub(r"\d[\d.,]*", "N", text).split()


def test_the_first_run_prints_what_its_page_shows(home: Path) -> None:
    text = PAGE.read_text()
    folder = project(home)
    performed = CONSOLE.sub(lambda found: f"```console\n{perform(found[1], folder, home)}```\n", text)
    if os.environ.get("ACCEPT") == "1":
        PAGE.write_text(performed)
    for shown, now in zip(CONSOLE.findall(text), CONSOLE.findall(performed), strict=True):
        how = "To accept this: ACCEPT=1 python -m pytest tests/cli/test_first_run.py, then read git diff"
        assert masked(now) == masked(shown), f"{now}\n{how}"


def test_the_readme_shows_an_excerpt_of_it() -> None:
    excerpt = "".join(CONSOLE.findall((ROOT / "README.md").read_text())).replace(" --site ssh:gpu1", "")
    excerpt = excerpt.replace("on ssh:gpu1", "on local")  # the second screen is the first, but for where
    shown = [masked(line) for line in "".join(CONSOLE.findall(PAGE.read_text())).splitlines()]
    assert [line for line in excerpt.splitlines() if line and masked(line) not in shown] == []
