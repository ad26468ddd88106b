"""The grammar: every command explains itself with an example, says how it ends, and takes the flags it is known for."""

import subprocess
import sys
from pathlib import Path

import pytest

from scripts import commands_page
from sojourn.cli import commands
from sojourn.cli.parser import NAMES, BadCommandLine, build, load, page, parse
from sojourn.cli.show.text import width

FOLDER = Path(commands.__file__).parent
READING = set(NAMES) - {"completion"}


def test_every_file_of_commands_is_in_the_list_and_the_other_way_round() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__") == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_help_page_fits_80_columns_and_holds_an_example_that_parses(name: str) -> None:
    import shlex

    assert all(width(line) <= 80 for line in page(name))
    for line, _ in load(name).EXAMPLES:
        words = shlex.split(line.removeprefix('eval "$(').removesuffix(')"').split(" >")[0].split(" |")[0])
        assert words[:2] == ["sojourn", name]
        parse(name, words[2:])


@pytest.mark.parametrize("name", NAMES)
def test_help_is_shown_by_the_real_command(name: str) -> None:
    done = subprocess.run([sys.executable, "-m", "sojourn", name, "--help"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr, done.stdout.splitlines()) == (0, "", page(name))


@pytest.mark.parametrize("name", sorted(READING))
def test_everything_that_answers_can_answer_as_json(name: str) -> None:
    assert "--json" in " ".join(page(name))


@pytest.mark.parametrize("name", NAMES)
def test_every_exit_status_named_is_one_of_the_table(name: str) -> None:
    from scripts.errors_page import EXITS, RUN_EXITS

    named = [status for status, _ in load(name).EXITS]
    assert named[0] == 0 and len(set(named)) == len(named)
    assert set(named) <= set(EXITS) | set(RUN_EXITS)


def test_options_and_arguments_may_come_in_any_order() -> None:
    assert parse("pull", ["a", "--to", "here", "b"]).runs == ["a", "b"]
    assert parse("logs", ["-f", "a", "--tail", "5"]).run == "a"
    assert parse("logs", ["a", "--tail", "5", "-f"]).tail == 5


def test_several_variables_are_kept_in_their_order() -> None:
    assert parse("run", ["--env", "A=1", "job.yaml", "--env", "B=x=y "]).env == [("A", "1"), ("B", "x=y ")]


def test_an_option_is_never_guessed_from_its_beginning() -> None:
    with pytest.raises(BadCommandLine, match="there is no option --conf, did you mean --confirm"):
        parse("stop", ["a", "--conf", "a"])


def test_y_is_taken_where_it_is_no_answer() -> None:
    assert parse("down", ["a", "-y"]).confirm == ""
    assert parse("run", ["-y", "-d"]).detach


def test_the_whole_grammar_is_there_for_shell_completion_and_loads_no_verb() -> None:
    code = "import sys; from sojourn.cli.parser import build; build(); print([m for m in sys.modules if '.verbs' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
    assert build().parse_args(["logs", "a"]).run == "a"


def test_the_page_of_commands_is_what_the_commands_say() -> None:
    assert commands_page.PAGE.read_text(encoding="utf-8") == commands_page.text(), "To accept this: make pages"
