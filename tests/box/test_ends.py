"""How an end is judged: evidence in, one word out."""

import os
from pathlib import Path
from typing import Any, Optional

import pytest

from sojourn.box.run import lastwords
from sojourn.box.run.root import Root
from sojourn.box.supervise.ending import Exit, classify_exit, may_retry, words


@pytest.mark.parametrize(
    "rc, signal, why, oom, state",
    [
        (0, None, "", 0, "succeeded"),
        (0, None, "", 3, "succeeded"),
        (1, None, "", 0, "failed"),
        (1, None, "", 3, "failed"),
        (127, None, "", 0, "failed"),
        (139, None, "", 0, "failed"),
        (75, None, "", 0, "preempted"),
        (None, 9, "", 0, "killed"),
        (None, 9, "", 1, "oom"),
        (137, None, "", 1, "oom"),
        (137, None, "", 0, "killed"),
        (143, None, "", 0, "killed"),
        (None, 15, "", 1, "killed"),
        (None, 11, "", 0, "killed"),
        (0, None, "stop", 0, "cancelled"),
        (75, None, "stop", 0, "cancelled"),
        (None, 9, "stop", 1, "cancelled"),
        (0, None, "budget", 0, "timeout"),
        (75, None, "max_duration", 0, "timeout"),
        (None, 9, "max_duration", 0, "timeout"),
        (0, None, "shutdown", 0, "succeeded"),
        (75, None, "shutdown", 0, "preempted"),
        (143, None, "shutdown", 0, "preempted"),
        (None, 9, "shutdown", 0, "preempted"),
        (1, None, "shutdown", 0, "preempted"),
    ],
)
def test_an_end_is_judged_by_what_is_known(
    rc: Optional[int], signal: Optional[int], why: str, oom: int, state: str
) -> None:
    assert classify_exit(Exit(rc, signal, "shim"), why, oom) == state


@pytest.mark.parametrize(("why", "state"), [("", "preempted"), ("shutdown", "preempted"), ("stop", "cancelled")])
def test_a_zero_after_a_sigterm_that_cut_it_short_is_no_success(why: str, state: str) -> None:
    assert classify_exit(Exit(0, None, "shim"), why, 0, is_cut=True) == state


@pytest.mark.parametrize(
    ("log", "is_told", "is_cut"),
    [
        ("Epoch 0:  26%| | 103/400 [00:15<00:45, 6.5it/s]\r[rank: 0] Received SIGTERM: 15\n", False, True),
        ("step 400/400 | loss 1.0\ncaught signal SIGTERM\n", False, False),
        ("loss 1.0\nSIGTERM received, saving\n", False, True),
        ("step 40/100 | loss 1.0\nearly stopping\n", False, False),
        ("step 40/100 | loss 1.0\nsaving\n", True, True),
        ("step 100/100 | loss 1.0\n", True, False),
        ("saved\n", True, False),
        (None, True, False),
    ],
)
def test_its_log_says_whether_it_was_cut_short(tmp_path: Path, log: Optional[str], is_told: bool, is_cut: bool) -> None:
    root = Root(str(tmp_path / "runs" / "r"))
    os.makedirs(root.logs)
    if log is not None:
        Path(root.log(1)).write_text(log)
    assert lastwords.tells_of_being_cut(root, 1, is_told) is is_cut


@pytest.mark.parametrize("why", ["", "stop", "budget", "shutdown"])
def test_an_end_nobody_saw_is_lost_and_never_more(why: str) -> None:
    assert classify_exit(Exit(None, None, "unknown"), why, 0) == "lost"


def test_words_are_short_and_true() -> None:
    assert words(Exit(0, None, "shim")) == ""
    assert words(Exit(3, None, "shim")) == "exit status 3"
    assert words(Exit(None, 9, "shim")) == "ended by signal 9"
    assert "75" in words(Exit(75, None, "shim"))
    assert "no exit status" in words(Exit(None, None, "unknown"))


@pytest.mark.parametrize(
    "state, retry, auto, again",
    [
        ("preempted", {"attempts": 3, "on": ["preempted"]}, None, True),
        ("preempted", {"attempts": 3, "on": ["preempted"]}, 1, True),
        ("preempted", {"attempts": 3, "on": ["preempted"]}, 2, False),
        ("preempted", {"attempts": 1, "on": ["preempted"]}, None, False),
        ("preempted", {"attempts": 3, "on": ["node-failure"]}, None, False),
        ("lost", {"attempts": 3, "on": ["node-failure"]}, None, True),
        ("failed", {"attempts": 3, "on": ["preempted", "node-failure", "network", "failed"]}, None, False),
        ("oom", {"attempts": 3, "on": ["oom"]}, None, False),
        ("cancelled", {"attempts": 3, "on": ["preempted", "cancelled"]}, None, False),
        ("preempted", None, None, False),
        ("preempted", {}, None, False),
    ],
)
def test_the_keeper_repeats_only_what_the_job_names_and_never_the_user_s_error(
    state: str, retry: Any, auto: Any, again: bool
) -> None:
    assert may_retry(state, {"retry": retry}, {"auto": auto}) is again
