"""The real command line with one command exchanged: `sojourn leases` does what FLY says. Run by the tests."""

import argparse
import errno
import os
import signal
import sys
import threading
import time
import types

from sojourn.cli import live, main, progress
from sojourn.cli.ask import confirm
from sojourn.cli.commands.logs import show
from sojourn.cli.parser import add_json
from sojourn.cli.screen import Screen
from sojourn.core.alarms import Alarm
from sojourn.core.values import State
from sojourn.verbs.answers import Row, Snapshot, StatusReport
from sojourn.verbs.confirm import Ask
from sojourn.wire.errors import Defect, Refusal, Unreachable

LOOK = StatusReport(
    (Row("digits", "local", State.RUNNING, 1, "2026-11-21T10:00:00.000Z"),), "2026-11-21T10:05:00.000Z", 101
)


class StillOwed(Refusal):
    """{count} files are not home."""

    code = "still-owed"
    next_step = "sojourn pull {run}"


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Fly."""
    how = os.environ["FLY"]
    if how == "refusal":
        raise StillOwed(count=2, run="digits", lines=["digits: best.pt", "digits: \x1b[2J"])
    if how == "unreachable":
        raise Unreachable(site="local", detail="no answer in 20 s")
    if how == "defect":
        raise Defect(detail="a law was bent")
    if how == "bug":
        return len(None)  # type: ignore[arg-type]
    if how == "full-disk":
        with open("/dev/full", "w") as f:
            f.write("x")
    if how == "no-thread":
        threading.stack_size(1 << 46)
        threading.Thread(target=print).start()
    if how == "no-fork":
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
    if how == "no-folder":
        os.mkdir("/proc/nope")
    if how == "interrupt":
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)
    if how == "much":
        screen.show(f"line {i}" for i in range(100_000))
        return 110
    if how == "stream":
        for i in range(100_000):
            screen.show([f"line {i}"], stream=True)
    if how == "slow":
        shown, rewrite = threading.Event(), screen._rewrite

        def told(line: str) -> None:
            rewrite(line)
            shown.set()

        screen._rewrite = told  # type: ignore[method-assign]
        screen.progress("reading \x1b[2J 1 of 2")
        shown.wait(50)
        screen.show(["done"])
    if how == "quick":
        progress.QUIET_S = 60.0  # a slow machine is not done within a second
        screen.progress("reading 1 of 2")
        screen.show(["done"])
    if how == "document":
        screen.show_json({"loss": float("nan"), "name": "\x1b[2J\u6570"})
    if how == "ask":
        answer = confirm(screen, "")(
            Ask("stop", "digits", ("stop digits\x1b[2J, attempt 1",), "sojourn stop digits --confirm digits")
        )
        screen.show([f"answer {answer!r}"])
    if how == "watch":
        looks = iter([Snapshot(LOOK, (), 0.0, 0.1, False), Snapshot(LOOK, ("digits: 50 %",), 0.0, 0.0, True)])
        (live.table if screen.can_redraw else live.lines)(looks, screen)
    if how == "alarm":
        alarm = Alarm("stalled", "digits", "no output for 5.0 s", "sojourn why digits")
        first = Snapshot(LOOK, (f"alarm: {alarm.line}",), 0.0, 0.1, False, (alarm,))
        looks = iter([first, Snapshot(LOOK, ("a channel does not answer",), 0.0, 0.0, True, (alarm,))])
        (live.table if screen.can_redraw else live.lines)(looks, screen)
    if how == "quiet":
        quiet = [Snapshot(LOOK, (), float(s), 0.1, s == 500) for s in range(0, 501, 20)]
        live.lines(iter(quiet), screen)
    if how == "log":
        show([b"\x1b[31mred\x1b[0m\x1b[2J\n10%\r", b"20%\r30%\n"], screen, args.json, is_raw=True)
    if how == "letters":
        screen.show(["zażółć 数字"])
    return 0


stand_in = types.ModuleType("sojourn.cli.commands.leases")
stand_in.__dict__.update(
    SUMMARY="s", ABOUT=(), EXAMPLES=(), EXITS=(), arguments=add_json, call=call, INTERRUPTED="It goes on."
)
sys.modules[stand_in.__name__] = stand_in
sys.exit(main.main(["leases", *sys.argv[1:]]))
