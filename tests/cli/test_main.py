"""Whatever flies out of a command becomes one clear line, the next command and the exit status of the table."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

STAND_IN = Path(__file__).with_name("stand_in.py")


def fly(how: str, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    surroundings = {**os.environ, "FLY": how, "COLUMNS": "80", **env}
    argv = [sys.executable, str(STAND_IN), *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=240, env=surroundings)


def sojourn(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "sojourn", *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=240, env={**os.environ, "COLUMNS": "80", **env})


def test_an_error_is_one_line_its_list_and_the_next_command() -> None:
    done = fly("refusal")
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.splitlines() == [
        "sojourn: 2 files are not home.",
        "  digits: best.pt",
        r"  digits: \x1b[2J",
        "next     sojourn pull digits",
    ]


def test_with_json_the_typed_error_is_the_last_line_of_stderr() -> None:
    done = fly("refusal", "--json")
    assert json.loads(done.stderr.splitlines()[-1]) == {
        "kind": "error",
        "code": "still-owed",
        "exit": 4,
        "message": "2 files are not home.",
        "next": "sojourn pull digits",
    }
    assert done.stdout == ""


def test_an_unreachable_site_is_exit_3_and_concludes_nothing() -> None:
    done = fly("unreachable")
    assert (done.returncode, done.stderr) == (
        3,
        "sojourn: Cannot reach local: no answer in 20 s. The state of its runs is unknown.\n",
    )


@pytest.mark.parametrize(("how", "what"), [("bug", "TypeError"), ("defect", "a law was bent")])
def test_a_defect_shows_its_traceback_and_where_to_report_it(how: str, what: str) -> None:
    done = fly(how)
    assert done.returncode == 70
    assert "Traceback" in done.stderr and "stand_in.py" in done.stderr and what in done.stderr
    assert "Please report" in done.stderr


def test_a_full_disk_is_one_line() -> None:
    done = fly("full-disk")
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        2,
        "sojourn: this machine's disk: No space left on device.",
    )
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("how", ["no-thread", "no-fork"])
def test_a_machine_without_room_for_a_process_is_one_line(how: str) -> None:
    done = fly(how)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert done.stderr.startswith("sojourn: This machine cannot start another process: ")


def test_an_answer_that_cannot_be_written_is_not_good() -> None:
    with open("/dev/full", "w") as full:
        argv = [sys.executable, "-m", "sojourn", "--help"]
        done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, text=True, timeout=240)
    assert done.returncode == 2
    assert (
        done.stderr.startswith("sojourn: this machine's disk: No space left on device.")
        and "Traceback" not in done.stderr
    )


def test_ctrl_c_is_130_and_says_what_goes_on() -> None:
    done = fly("interrupt")
    assert (done.returncode, done.stderr) == (130, "sojourn: interrupted. It goes on.\n")


def test_a_reader_that_leaves_early_changes_no_answer() -> None:
    done = subprocess.run(
        f"{sys.executable} {STAND_IN} | head -n 1; echo ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "FLY": "much"},
    )
    assert (done.stdout.splitlines(), done.stderr) == (["line 0", "110"], "")


def test_a_stream_ends_quietly_when_its_reader_leaves() -> None:
    done = subprocess.run(
        f"{sys.executable} {STAND_IN} | head -n 1; echo ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "FLY": "stream"},
    )
    assert (done.stdout.splitlines(), done.stderr) == (["line 0", "0"], "")


def test_progress_is_shown_only_to_who_waits_and_never_obeyed() -> None:
    assert (fly("quick").stdout, fly("quick").stderr) == ("done\n", "")
    assert (fly("slow").stdout, fly("slow").stderr) == ("done\n", "sojourn: reading \\x1b[2J 1 of 2\n")


def test_letters_that_a_terminal_does_not_have_do_not_end_the_command() -> None:
    done = fly("letters", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stdout) == (0, "za\\u017c\\xf3\\u0142\\u0107 \\u6570\\u5b57\n")


def test_a_closed_stdout_is_no_defect() -> None:
    done = subprocess.run(
        f"{sys.executable} -m sojourn --help >&-", shell=True, capture_output=True, text=True, timeout=240
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["statsu"], "unknown command 'statsu'; did you mean status?"),
        (["frobnicate"], "unknown command 'frobnicate'"),
        (["status", "--jsno"], "unknown option --jsno; did you mean --json?"),
        (["logs", "digits", "--tial=3"], "unknown option --tial; did you mean --tail?"),
        (["logs", "digits", "--tail", "few"], "argument -n/--tail: 'few' is not a whole number"),
        (["logs", "digits", "--tail"], "argument -n/--tail: expected one argument"),
        (["stop", "digits", "--grace", "soon"], "argument --grace: not a duration: 'soon'"),
        (["run", "--env", "1X=2"], "argument --env: '1X=2' is not KEY=VALUE"),
        (["run", "--env", "=2"], "argument --env: '=2' is not KEY=VALUE"),
        (["stop"], "the following arguments are required: RUN"),
        (["leases", "now"], "unexpected argument 'now'"),
        (
            ["completion", "fsh"],
            "No completion script for the shell 'fsh'; did you mean fish? Supported shells: bash, zsh, fish.",
        ),
    ],
)
def test_a_wrong_word_is_exit_2_and_names_the_nearest(words: list[str], line: str) -> None:
    done = sojourn(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert " ".join(done.stderr.split()).startswith(f"sojourn: {line}")
    assert done.stderr.splitlines()[-1].startswith("next     sojourn")


def test_a_wrong_word_with_json_is_a_typed_error_too() -> None:
    done = sojourn("status", "--jsno", "--json")
    assert json.loads(done.stderr.splitlines()[-1])["code"] == "bad-command-line"


def test_no_command_shows_the_list_and_is_misuse() -> None:
    done = sojourn()
    assert done.returncode == 2 and "\n  status " in done.stdout


@pytest.mark.parametrize("words", [["--help"], ["-h"]])
def test_help_lists_every_command(words: list[str]) -> None:
    from sojourn.cli.parser import names

    done = sojourn(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ")) == list(names())
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


def test_an_old_python_would_get_one_line_and_the_version_costs_no_grammar() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "sojourn", "--version"], capture_output=True, text=True, timeout=240
    )
    assert done.stdout.startswith("sojourn ")
    assert "argparse" not in done.stderr


def test_json_is_one_ascii_line_whatever_is_in_it() -> None:
    done = fly("document", "--json")
    assert done.stdout.count("\n") == 1 and done.stdout.isascii()
    assert json.loads(done.stdout) == {"loss": "nan", "name": "\x1b[2J\u6570"}


def test_without_a_lease_on_record_nobody_says_that_nothing_bills() -> None:
    done = sojourn("leases")
    assert done.returncode == 0 and "billing" not in done.stdout
    assert done.stdout.splitlines()[:2] == [
        "no open leases in the records of this machine",
        "ask      sojourn leases --audit",
    ]
