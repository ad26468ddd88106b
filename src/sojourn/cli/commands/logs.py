"""`sojourn logs`."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

from sojourn.cli.parser import add_json, whole
from sojourn.cli.screen import Screen

if TYPE_CHECKING:
    from sojourn.verbs.context import Context

SUMMARY = "show a run's log"
GROUP, PLACE = "Every day", 125
ABOUT = (
    "In a pipe or a file, the output is the log byte for byte. On a terminal, colors are removed and a progress bar"
    " that rewrites its line is shown only in its latest state.",
)
EXAMPLES = (
    ("sojourn logs digits", "the whole log of the newest attempt"),
    ("sojourn logs digits -f --tail 20", "the last 20 lines, then new ones until the run ends"),
    ("sojourn logs digits --attempt 1 > 1.log", "an earlier attempt's log, byte for byte"),
)
EXITS = (
    (0, "shown"),
    (2, "no such run or attempt"),
    (3, "cannot reach the site"),
    (5, "the site returned an error"),
)
INTERRUPTED = "The run continues."


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("run", metavar="RUN", help="a run (any unique prefix of its name)")
    parser.add_argument("-f", "--follow", action="store_true", help="keep printing new lines until the run ends")
    parser.add_argument("--attempt", type=whole, metavar="N", help="show this attempt (default: the newest)")
    parser.add_argument("--tail", type=whole, metavar="N", help="only the last N lines")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it and show the answer; the exit status."""
    from sojourn.verbs.context import Context
    from sojourn.verbs.observe.logs import logs

    with Context.open(say=screen.progress) as ctx:
        show(logs(ctx, args.run, attempt=args.attempt, tail=args.tail, follow=args.follow), screen, args.json)
    return 0


def follow(ctx: Context, run: str, screen: Screen, as_json: bool) -> int:
    """The log until the run ends, then how it ended; 0 when it succeeded, else 1."""
    from sojourn.cli.show import status as show_status
    from sojourn.verbs.observe.logs import logs
    from sojourn.verbs.observe.status import status
    from sojourn.wire.units import unstamp

    show(logs(ctx, run, follow=True), screen, as_json)
    answer = status(ctx, [run])
    if as_json:
        screen.show_json(answer.as_json(), stream=True)
    else:
        screen.show(["", *show_status.one(answer.rows[0], unstamp(answer.at), screen.columns)])
    return 0 if answer.rows[0].state.value == "succeeded" else 1


def show(chunks: Iterable[bytes], screen: Screen, as_json: bool) -> None:
    """Bytes as they come, to wherever stdout goes."""
    if not as_json and not screen.out_is_terminal:
        for chunk in chunks:
            screen.show_bytes(chunk)
        return
    from sojourn.cli.show.log import Lines

    lines = Lines()
    for chunk in chunks:
        _some(lines.feed(chunk), screen, as_json)
    _some(lines.end(), screen, as_json)


def _some(lines: list[str], screen: Screen, as_json: bool) -> None:
    if as_json:
        for line in lines:
            screen.show_json({"schema": "sojourn/log/v1", "line": line}, stream=True)
    elif lines:
        screen.show(lines, stream=True)
