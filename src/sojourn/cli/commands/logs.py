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
    "If a progress bar rewrites its line, only its latest state is shown; on a terminal, colors are removed too."
    " A whole log sent to a pipe or a file is written byte for byte; with --raw, so is any part of one.",
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
    parser.add_argument("-n", "--tail", type=whole, metavar="N", help="only the last N lines")
    parser.add_argument(
        "--raw", action="store_true", help="in a pipe or a file, keep every state of a progress bar (with -f or --tail)"
    )
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it, show the answer, return the exit status."""
    from sojourn.verbs.context import Context
    from sojourn.verbs.observe.logs import logs

    with Context.open(say=screen.progress) as ctx:
        chunks = logs(ctx, args.run, attempt=args.attempt, tail=args.tail, follow=args.follow)
        is_whole = args.tail is None and not args.follow
        show(chunks, screen, args.json, is_raw=args.raw or is_whole, is_live=args.follow)
    return 0


def follow(ctx: Context, run: str, screen: Screen, as_json: bool) -> int:
    """The log until the run ends, then how it ended; 0 if it succeeded, else 1."""
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


def show(chunks: Iterable[bytes], screen: Screen, as_json: bool, is_raw: bool = False, is_live: bool = True) -> None:
    """Bytes as they come, to stdout. `is_raw`: unchanged, except on a terminal. `is_live`: moving progress bars are
    shown as they move.
    """
    is_plain = not as_json and not screen.out_is_terminal
    if is_plain and is_raw:
        for chunk in chunks:
            screen.show_bytes(chunk)
        return
    from sojourn.cli.show.log import Lines

    lines = Lines(is_plain, is_live)
    for chunk in chunks:
        _some(lines.feed(chunk), screen, as_json, is_plain)
    _some(lines.end(), screen, as_json, is_plain)


def _some(lines: list[str], screen: Screen, as_json: bool, is_plain: bool) -> None:
    if as_json:
        for line in lines:
            screen.show_json({"schema": "sojourn/log/v1", "line": line}, stream=True)
    elif is_plain and lines:
        screen.show_bytes("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape"))
    elif lines:
        screen.show(lines, stream=True)
