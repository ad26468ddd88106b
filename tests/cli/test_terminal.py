"""At a real terminal: questions are asked for the exact name, tables replace themselves, nothing in them is obeyed."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

STAND_IN = Path(__file__).with_name("stand_in.py")


def at_terminal(how: str, typed: bytes = b"", *, wait_for: bytes = b"", **env: str) -> tuple[int, str]:
    """The exit status and all that the terminal got; `typed` is typed once `wait_for` was seen."""
    here, there = pty.openpty()
    surroundings = {**os.environ, "FLY": how, "COLUMNS": "80", "TERM": "xterm", "TZ": "UTC", **env}
    process = subprocess.Popen(
        [sys.executable, str(STAND_IN)],
        stdin=there,
        stdout=there,
        stderr=there,
        env=surroundings,
        start_new_session=True,
    )
    os.close(there)
    got, deadline_s = b"", time.monotonic() + 120
    while time.monotonic() < deadline_s:
        if not select.select([here], [], [], 0.1)[0]:
            continue
        try:
            data = os.read(here, 65536)
        except OSError:  # what Linux says when the other side is closed
            break
        if not data:
            break
        got += data
        if typed and wait_for in got:
            if typed == b"\x03":
                os.kill(process.pid, signal.SIGINT)
            else:
                os.write(here, typed)
            typed = b""
    os.close(here)
    return process.wait(timeout=60), got.decode().replace("\r\n", "\n")


def test_a_question_shows_what_it_is_about_and_takes_what_is_typed() -> None:
    status, shown = at_terminal("ask", b"digits\n", wait_for=b"cancels): ")
    assert status == 0
    assert shown.splitlines()[0] == r"stop digits\x1b[2J, attempt 1"
    assert shown.splitlines()[-1] == "answer 'digits'"


def test_a_question_that_gets_no_answer_gets_an_empty_one() -> None:
    assert at_terminal("ask", b"\x04", wait_for=b"cancels): ")[1].splitlines()[-1].endswith("answer ''")


def test_ctrl_c_at_a_question_changes_nothing() -> None:
    status, shown = at_terminal("ask", b"\x03", wait_for=b"cancels): ")
    assert (status, shown.splitlines()[-1]) == (130, "sojourn: interrupted. Nothing was changed.")


def test_without_a_terminal_nobody_is_asked() -> None:
    env = {**os.environ, "FLY": "ask"}
    done = subprocess.run(
        [sys.executable, str(STAND_IN)], input="digits\n", capture_output=True, text=True, env=env, timeout=60
    )
    assert (done.stdout, done.stderr) == ("answer None\n", "")


def test_a_watched_table_replaces_itself() -> None:
    status, shown = at_terminal("watch")
    assert status == 0
    assert "\x1b[1A" in shown or "\x1b[2K" in shown  # the cursor went back up
    assert shown.count("next check in 0.1 s; Ctrl-C does not stop any run") == 1
    assert shown.splitlines()[-2].startswith("next     sojourn watch")  # the last table stays; then the cursor is shown


def test_a_terminal_without_a_cursor_gets_lines() -> None:
    _, shown = at_terminal("watch", TERM="dumb")
    assert "\x1b" not in shown
    assert shown.count("digits  running") == 2


def test_what_a_watch_warns_of_is_seen_in_its_first_look_and_in_its_last() -> None:
    _, shown = at_terminal("alarm")
    assert shown.splitlines()[-2] == "alarm: digits: no output for 5.0 s"
    lines = at_terminal("alarm", TERM="dumb")[1].splitlines()
    assert lines[0] == "10:05 UTC  alarm: digits: no output for 5.0 s"
    assert "10:05 UTC  a channel does not answer" in lines


def test_a_watch_in_a_log_file_says_ever_more_rarely_that_nothing_is_new() -> None:
    env = {**os.environ, "FLY": "quiet", "TZ": "UTC"}
    done = subprocess.run([sys.executable, str(STAND_IN)], capture_output=True, text=True, env=env, timeout=60)
    quiet = [line for line in done.stdout.splitlines() if "nothing new" in line]
    assert len(quiet) == 4
    assert quiet[0] == "10:05 UTC  nothing new since 10:04 UTC"


def test_a_log_on_a_terminal_is_cleaned_and_in_a_pipe_it_is_its_own_bytes() -> None:
    assert at_terminal("log")[1] == "red\\x1b[2J\n10%\n30%\n"
    env = {**os.environ, "FLY": "log"}
    done = subprocess.run([sys.executable, str(STAND_IN)], capture_output=True, env=env, timeout=60)
    assert done.stdout == b"\x1b[31mred\x1b[0m\x1b[2J\n10%\r20%\r30%\n"


def test_progress_at_a_terminal_replaces_itself_and_is_gone_at_the_end() -> None:
    _, shown = at_terminal("slow")
    assert shown == "\r\x1b[Kreading \\x1b[2J 1 of 2\r\x1b[Kdone\n"


def test_nothing_is_coloured() -> None:
    for how in ("watch", "ask", "slow"):
        assert "\x1b[3" not in at_terminal(how, b"x\n", wait_for=b"cancels): ")[1]
