"""Questions with a deadline, each asked in a process of its own: what hangs, dies or says too much spoils no other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sojourn.box.system import bounded, members, process
from tests.box.rig import until


def test_a_question_that_hangs_dies_or_says_too_much_spoils_no_other() -> None:
    def dies() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def hangs() -> None:
        subprocess.run(["sleep", "600"])

    before = set(members.below(os.getpid()))
    answers = bounded.ask(
        [
            bounded.Question("good", lambda: {"a": "\udcff"}, 30),
            bounded.Question("raises", lambda: 1 // 0, 30),
            bounded.Question("dies", dies, 30),
            bounded.Question("hangs", hangs, 0.5),
            bounded.Question("large", lambda: "x" * 100000, 30, 1000),
        ]
    )
    assert (answers["good"].value, answers["good"].why) == ({"a": "\udcff"}, "")
    assert answers["raises"].why == bounded.DIED and "ZeroDivisionError" in answers["raises"].detail
    assert answers["dies"].why == bounded.DIED
    assert answers["hangs"].why == bounded.LATE and answers["hangs"].value is None
    assert answers["large"].why == bounded.LARGE
    # Not even what a child started is left, but for what a slow machine has not let end in time to be taken.
    until(lambda: not any(process.is_alive(pid, 0) for pid in set(members.below(os.getpid())) - before))


ASKS = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from sojourn.box.system import bounded
bounded._PATIENCE_S = 0.1
def act():
    open("asked-%d" % os.getpid(), "w").close()
    while not os.path.exists("go"):
        time.sleep(0.05)
    return "answer"
print(bounded.ask([bounded.Question("q", act, 5.0)])["q"].value)
"""


@pytest.mark.campaign
def test_a_machine_that_stood_still_costs_no_question_its_time(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", ASKS, str(Path(bounded.__file__).parents[3])]
    with subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        (asked,) = until(lambda: list(tmp_path.glob("asked-*")))
        pids = [process.pid, int(asked.name.partition("-")[2])]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(6)
        (tmp_path / "go").touch()
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        assert process.communicate(timeout=60)[0] == "answer\n"


def test_a_question_that_gets_on_is_waited_for() -> None:
    def works() -> str:
        until_s = time.process_time() + 0.2
        while time.process_time() < until_s:
            pass
        return "done"

    def asks() -> str:
        answer = bounded.ask([bounded.Question("inner", works, 0.1)], in_group=True)["inner"]
        return str(answer.value)

    answers = bounded.ask([bounded.Question("busy", works, 0.1), bounded.Question("asks", asks, 0.1)])
    assert (answers["busy"].value, answers["asks"].value) == ("done", "done")


def test_questions_within_a_question_end_with_it() -> None:
    def nested() -> str:
        return bounded.ask([bounded.Question("inner", lambda: time.sleep(600), 500)], in_group=True)["inner"].why

    before = set(members.below(os.getpid()))
    assert bounded.ask([bounded.Question("outer", nested, 0.5)])["outer"].why == bounded.LATE
    # Ended, but not always taken: a slow machine may need longer than our patience to let go of a large process.
    until(lambda: not any(process.is_alive(pid, 0) for pid in set(members.below(os.getpid())) - before))
