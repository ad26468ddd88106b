"""Following a log: nothing twice and nothing left out, also when the box moves the log aside under the reader."""

import contextlib
import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any, cast

import pytest

from sojourn.backends.keeper.client import Answer
from sojourn.cli.main import main
from sojourn.verbs.observe.logs import NoLog, Restless, TooLong, _Log, logs
from tests.box.rig import until
from tests.verbs.conftest import World

COUNT = "i=0; while [ ! -e stop ]; do echo line $i; i=$((i+1)); sleep 0.01; done; echo line $i"


def states(group: int) -> list[str]:
    """Of every process of a group, as the kernel has them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            found += [fields[0]] if int(fields[2]) == group else []
    return found


def test_a_log_that_is_rotated_while_it_is_followed_is_read_whole(world: World) -> None:
    answer = world.run(COUNT)
    log = world.root() / "logs/1.log"
    group = os.getpgid(int(json.loads((world.root() / "exits/1.begun.json").read_text())["pid"]))
    seen, rotated = b"", 0
    for piece in logs(world.ctx, answer.id, follow=True):
        seen += piece
        if rotated < 2 and seen.count(b"\n") > 60 * (rotated + 1):
            os.killpg(group, signal.SIGSTOP)
            until(lambda: all(state in "TZ" for state in states(group)))  # nobody is in the middle of a line
            shutil.copy(log, f"{log}.1")
            os.truncate(log, 0)
            rotated += 1
            os.killpg(group, signal.SIGCONT)
        if rotated == 2 and seen.count(b"\n") > 200:
            (world.root() / "attempts/1/stop").touch()
    lines = seen.decode().splitlines()
    assert rotated == 2 and lines == [f"line {i}" for i in range(len(lines))]


def test_all_of_a_rotated_log_is_shown_in_order(world: World) -> None:
    world.ended("echo new")
    (world.root() / "logs/1.log.1").write_text("old\n")
    assert b"".join(logs(world.ctx, "digits")) == b"old\nnew\n"
    assert b"".join(logs(world.ctx, "digits", tail=1)) == b"new\n"
    assert b"".join(logs(world.ctx, "digits", tail=0)) == b""


def test_an_attempt_that_was_never_made_has_no_log(world: World) -> None:
    world.ended("echo new")
    with pytest.raises(NoLog, match="the newest is attempt 1"):
        list(logs(world.ctx, "digits", attempt=2))


def test_a_cut_line_is_waited_for_and_nothing_is_shown_twice(world: World) -> None:
    world.run("for i in 1 2 3 4 5 6 7 8; do echo line $i; sleep 0.3; done")
    naps = [0]

    def sleep(seconds: float) -> None:
        naps[0] += 1
        world.transport.is_cut = naps[0] % 3 == 0
        time.sleep(seconds)

    world.ctx.sleep = sleep
    assert b"".join(logs(world.ctx, "digits", follow=True)).decode().split("\n")[:-1] == [
        f"line {i}" for i in range(1, 9)
    ]


class Restive:
    """A box whose log never ends (`grows`), or is moved aside each time it is asked."""

    def __init__(self, *, grows: bool) -> None:
        self.grows, self.asked, self.size = grows, 0, 30

    def answer(self, op: str, **asked: Any) -> Answer:
        self.asked += 1
        assert self.asked < 1000
        size = self.size + (self.asked if self.grows else 0)
        value = {"size": size, "offset": asked["offset"], "aside": "" if self.grows else str(self.asked)}
        return Answer(value, (b"x" * min(10, size - asked["offset"]),))


def test_a_log_without_an_end_is_read_to_where_it_ended_when_the_look_began(world: World) -> None:
    world.ended("echo new")
    box = Restive(grows=True)
    log = _Log(cast(Any, box), world.record(), 1)
    assert len(b"".join(log.more())) < 100 and box.asked < 20


def test_a_log_that_a_box_moves_aside_for_ever_ends_the_look(world: World) -> None:
    world.ended("echo new")
    with pytest.raises(Restless):
        list(_Log(cast(Any, Restive(grows=False)), world.record(), 1).more())


def test_a_log_larger_than_any_keeper_writes_is_not_begun(world: World) -> None:
    world.ended("echo new")
    box = Restive(grows=True)
    box.size = 1 << 50
    with pytest.raises(TooLong):
        list(_Log(cast(Any, box), world.record(), 1).more())


def test_bars_in_a_pipe_are_their_last_form_where_a_part_is_asked_for_and_raw_where_that_is(
    world: World, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    world.ended("echo begin; printf '10%%\\r50%%\\r100%%\\n1/9\\r2/9'")

    def shown(*words: str) -> bytes:
        assert main(["logs", "digits", *words]) == 0
        return capfdbinary.readouterr().out

    assert shown() == shown("--raw") == b"begin\n10%\r50%\r100%\n1/9\r2/9"
    assert shown("--tail", "2") == b"100%\n2/9\n"
    assert shown("-f", "--tail", "2") == b"100%\n1/9\n2/9\n", "who follows sees the bar while it moves"
    assert shown("--tail", "2", "--raw") == b"10%\r50%\r100%\n1/9\r2/9"
    assert [json.loads(line)["line"] for line in shown("--tail", "2", "--json").splitlines()] == ["100%", "2/9"]
