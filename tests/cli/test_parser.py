"""The grammar: every command explains itself with an example, says how it ends, and takes the flags it is known for."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sojourn
from scripts import commands_page
from sojourn.cli.parser import MEANT, BadCommandLine, OtherWord, build, groups, load, names, page, parse
from sojourn.cli.show.text import width

NAMES = names()
READING = set(NAMES) - {"completion", "exec", "ssh"}  # these pass on what others say
HELLO = '''"""`sojourn hello`."""
from sojourn.cli.parser import add_json
GROUP, PLACE = "Greetings", 190
SUMMARY = "greet somebody"
ABOUT = ("Greets whoever is named.",)
EXAMPLES = (("sojourn hello ada", "greet Ada"),)
EXITS = ((0, "greeted"),)
def arguments(parser):
    parser.add_argument("who", metavar="WHO", help="whom to greet")
    add_json(parser)
def call(args, screen):
    screen.show([f"hello {args.who}"])
    return 0
'''


def test_a_file_dropped_into_commands_is_a_command_with_its_help_and_its_completion(tmp_path: Path) -> None:
    """A copy of the package with one more file, and nothing else changed."""
    whole, copy = Path(sojourn.__file__).parent, tmp_path / "sojourn"
    copy.mkdir()
    for entry in whole.iterdir():
        if entry.name == "cli":
            shutil.copytree(entry, copy / "cli", ignore=shutil.ignore_patterns("__pycache__"))
        elif entry.name != "__pycache__":
            (copy / entry.name).symlink_to(entry)
    (copy / "cli/commands/hello.py").write_text(HELLO)

    def said(*words: str) -> str:
        argv = [sys.executable, "-m", "sojourn", *words]
        env = {**os.environ, "PYTHONPATH": str(tmp_path)}
        done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    overview = said("--help").splitlines()
    at = overview.index("Greetings")
    assert overview[at + 1] == "  hello       greet somebody"
    assert overview.index("Every day") < at < overview.index("Before a run")  # by its PLACE
    assert said("hello", "--help").startswith("sojourn hello: greet somebody\n\nusage    sojourn hello [--json] WHO\n")
    assert said("hello", "ada") == "hello ada\n"
    assert "hello" in said("completion", "bash")


def test_every_command_says_itself_where_it_stands_in_the_help() -> None:
    assert all({"GROUP", "PLACE"} <= vars(load(name)).keys() for name in NAMES)
    assert len({load(name).PLACE for name in NAMES}) == len(NAMES)
    assert sum(len(members) for _, members in groups()) == len(NAMES)
    titles = [title for title, _ in groups()]
    places = [load(name).GROUP for name in sorted(NAMES, key=lambda name: load(name).PLACE)]
    assert [title for n, title in enumerate(places) if not n or places[n - 1] != title] == titles  # no group is torn


@pytest.mark.parametrize("name", NAMES)
def test_every_help_page_fits_80_columns_and_holds_an_example_that_parses(name: str) -> None:
    import shlex

    assert all(width(line) <= 80 for line in page(name))
    for line, _ in load(name).EXAMPLES:
        words = shlex.split(line.removeprefix('eval "$(').removesuffix(')"').split(" >")[0].split(" |")[0])
        assert words[:2] == ["sojourn", name]
        parse(name, words[2:])


@pytest.mark.campaign(keep=1)
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
    with pytest.raises(BadCommandLine, match="unknown option --conf; did you mean --confirm"):
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


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("ps", "status"),
        ("queue", "status"),
        ("list", "status"),
        ("launch", "run"),
        ("cancel", "stop RUN"),
        ("kill", "stop RUN"),
        ("rm", "clean SITE RUN"),
        ("terminate", "down LEASE"),
    ],
)
def test_a_word_of_another_tool_is_answered_with_ours_and_does_nothing(word: str, meant: str) -> None:
    with pytest.raises(OtherWord) as refused:
        load(word)
    assert (refused.value.exit_status, refused.value.next) == (2, f"sojourn {meant}")


def test_every_word_that_is_answered_leads_to_a_command_of_ours() -> None:
    assert {meant.split()[0] for meant in MEANT.values()} <= set(NAMES)
    assert not set(MEANT) & set(NAMES)
