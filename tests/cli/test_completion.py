"""The completion scripts are produced from the grammar, and real shells read them and complete with them."""

import argparse
import shutil
import subprocess
from pathlib import Path

import pytest

from sojourn.cli.completion import SHELLS, UnknownShell, script


def grammar() -> argparse.ArgumentParser:
    """A small grammar with the parts that ours has: commands, flags, values, files."""
    parser = argparse.ArgumentParser(prog="sojourn")
    commands = parser.add_subparsers(dest="command")
    pull = commands.add_parser("pull", help="bring it home: proven, 100 %% of it")
    pull.add_argument("run", nargs="*", metavar="RUN", help="which")
    pull.add_argument("--to", metavar="DIR", help="where")
    commands.add_parser("plan", help="what it's worth").add_argument("file", nargs="?", metavar="FILE", help="job file")
    return parser


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_reads_the_script_without_a_word(shell: str, tmp_path: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    file = tmp_path / "completion"
    file.write_text(script(grammar(), shell))
    done = subprocess.run([program, "-n", str(file)], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "offered"),
    [("sojourn p", {"pull", "plan"}), ("sojourn pull --t", {"--to"}), ("sojourn plan ./jo", {"./job.yaml"})],
)
def test_bash_completes_commands_flags_and_files(words: str, offered: set[str], tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("")
    (tmp_path / "completion").write_text(script(grammar(), "bash"))
    ask = f"""
source ./completion
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMP_LINE='{words}'; COMP_POINT=${{#COMP_LINE}}
how=$(complete -p sojourn); function=${{how#*-F }}; function=${{function%% *}}
$function sojourn "${{COMP_WORDS[$COMP_CWORD]}}" "${{COMP_WORDS[$COMP_CWORD-1]}}"
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    argv = ["bash", "--norc", "-c", ask]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert {line.strip() for line in done.stdout.splitlines()} == offered, done.stderr


def test_fish_completes_commands_and_flags(tmp_path: Path) -> None:
    program = shutil.which("fish")
    if program is None:
        pytest.skip("fish is not installed")
    (tmp_path / "completion").write_text(script(grammar(), "fish"))
    ask = "source ./completion; complete -C 'sojourn p'; complete -C 'sojourn pull --t'"
    done = subprocess.run(
        [program, "--no-config", "-c", ask], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["plan", "pull", "--to"], done.stderr


def test_the_same_grammar_gives_the_same_script() -> None:
    assert script(grammar(), "zsh") == script(grammar(), "zsh")


def test_a_shell_we_do_not_know_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownShell, match="did you mean fish"):
        script(grammar(), "fsh")
