"""`sojourn help`: every page that the program names can be read where it is installed."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.backend import sojourn_build
from sojourn.cli import parser
from sojourn.cli.main import main
from sojourn.cli.show import pages as show
from sojourn.store import pages as store
from sojourn.verbs.explain import known_logs, pages

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.compile(r"docs/[\w/-]+\.md|(?<=sojourn help )[\w./-]+")
SOURCES = [path for end in ("py", "toml") for path in sorted((ROOT / "src").rglob(f"*.{end}"))]


def test_every_page_that_code_or_data_names_is_shown() -> None:
    named = {
        word.rstrip(".")
        for path in SOURCES
        for line in path.read_text().splitlines()
        for word in NAMED.findall(re.sub(r"https?://\S+", "", line))
    }
    assert {"docs/json.md", "job-file", "readme"} <= named
    unknown = {word for word in named if not pages.is_page(word) and word not in parser.names()}
    assert unknown == {"TOPIC"}


def test_the_list_has_every_page_of_the_contents(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help"]) == 0
    shown = {line.split()[0] for line in capsys.readouterr().out.splitlines() if re.match(r"  \S", line)}
    listed = set(re.findall(r"(?m)^- \[.+?\]\((?:\.\./)?([\w/.-]+)\.md\)", (ROOT / "docs/README.md").read_text()))
    topics = {store.topic_of(name) for name in listed}
    # Two are made from data, and a command shows what is in them; one is made from code, for those who change it.
    assert topics - shown == {"gotchas", "platforms", "files"} and set(parser.names()) >= {"gotchas", "platforms"}


@pytest.mark.parametrize("topic", sorted(pages.known()))
def test_a_page_reads_at_80_columns(topic: str) -> None:
    found = pages.page(topic)
    lines = show.lines(found, 80, is_terminal=False)
    assert len(lines) > 3 and max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert "](" not in re.sub(r"`[^`]*`", "", text) and "\x1b" not in text


@pytest.mark.parametrize("word", ["slurm", "slurm.md", "docs/slurm.md", "docs/slurm.md#sweeps"])
def test_a_page_can_be_named_as_it_is_printed(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", word]) == 0
    assert "On a Slurm cluster, a run is a Slurm job." in capsys.readouterr().out


def test_a_command_comes_first_and_its_page_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "verify"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "page     sojourn help verify.md"
    assert main(["help", "verify.md"]) == 0
    assert "What `verify` proves" in capsys.readouterr().out


@pytest.mark.parametrize(("wrong", "near"), [("slrum", "slurm"), ("queue.md", ""), ("checkpoints", "checkpointing")])
def test_an_unknown_topic_names_the_nearest(wrong: str, near: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", wrong]) == 2
    said = capsys.readouterr().err
    assert f"no page or command '{wrong}'" in said and near in said


def test_the_wheel_carries_what_the_program_looks_for(tmp_path: Path) -> None:
    assert sojourn_build.FRONT == store.FRONT
    name = subprocess.run(
        [sys.executable, "-c", "import sojourn_build as b, sys; print(b.build_wheel(sys.argv[1]))", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "scripts/backend")},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout.strip()
    subprocess.run([sys.executable, "-m", "zipfile", "-e", str(tmp_path / name), str(tmp_path / "into")], check=True)
    ours = {page.relative_to(ROOT).as_posix() for page in ROOT.glob("docs/**/*.md")} | set(store.FRONT)
    carried = tmp_path / "into/sojourn/data/pages"
    assert {page.relative_to(carried).as_posix() for page in carried.rglob("*.md")} == ours
    argv = [sys.executable, "-c", "import sys; from sojourn.cli.main import main; sys.exit(main())", "help", "slurm"]
    said = subprocess.run(argv, cwd=tmp_path / "into", capture_output=True, text=True, check=True, timeout=60).stdout
    assert "On a Slurm cluster" in said and not (ROOT / "src/sojourn/data/pages").exists()
    ask = "from sojourn.verbs.explain.known_logs import *; print(os.path.isfile(CARRIED), len(known_logs()['logs']))"
    found = subprocess.run(
        [sys.executable, "-c", ask], cwd=tmp_path / "into", capture_output=True, text=True, check=True, timeout=60
    )
    assert found.stdout.split() == ["True", str(len(known_logs.known_logs()["logs"]))]
    assert not os.path.exists(known_logs.CARRIED)


def test_on_a_terminal_a_page_goes_through_the_pager(private_home: Path) -> None:
    near, far = pty.openpty()
    environ = {**os.environ, "PAGER": "sed s/^/paged:/", "TERM": "xterm"}
    argv = [sys.executable, "-m", "sojourn", "help", "words"]
    child = subprocess.Popen(argv, stdout=far, env=environ)
    os.close(far)
    said = b""
    try:
        while piece := os.read(near, 1 << 16):
            said += piece
    except OSError:  # the end of a terminal on Linux
        pass
    os.close(near)
    assert child.wait(60) == 0 and said.startswith(b"paged:") and b"\x1b[" in said
