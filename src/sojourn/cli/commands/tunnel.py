"""`sojourn tunnel`."""

from __future__ import annotations

import argparse
import contextlib

from sojourn.cli.parser import add_json, duration, whole
from sojourn.cli.screen import Screen

SUMMARY = "a port of the run's box, here: TensorBoard, Jupyter"
GROUP, PLACE = "Take over a run", 530
ABOUT = (
    "Forwards 127.0.0.1:PORT of the run's box to the same port here, or to a free one where that is taken, for as long"
    " as the command runs. Nobody but users of this machine can reach it.",
)
EXAMPLES = (
    ("sojourn tunnel digits 6006", "then open the address that it shows"),
    ("sojourn tunnel digits 8888 --local 9999 --for 1h", "at port 9999 here, for an hour"),
)
EXITS = (
    (0, "it was closed with Ctrl-C, or its time was over; or the box is this machine"),
    (2, "no such run, or no such port"),
    (3, "the box cannot be reached, or the connection broke"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("run", metavar="RUN", help="a run, or a unique beginning of its name")
    parser.add_argument("port", metavar="PORT", type=whole, help="the port on the box")
    parser.add_argument("--local", type=whole, default=0, metavar="PORT", help="the port here (default: the same)")
    parser.add_argument("--for", dest="limit_s", type=duration, metavar="TIME", help="close it then (default: 12h)")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it and show the answer; the exit status."""
    from sojourn.cli.show import tunnel as show
    from sojourn.verbs.context import Context
    from sojourn.verbs.observe.tunnel import LIMIT_S, tunnel

    limit_s = LIMIT_S if args.limit_s is None else args.limit_s
    with Context.open(say=screen.progress) as ctx:
        opened = tunnel(ctx, args.run, args.port, local_port=args.local, limit_s=limit_s)
        is_up = False
        with contextlib.closing(opened):
            try:
                for answer in opened:
                    is_up = True
                    if args.json:
                        screen.show_json(answer.as_json(), stream=True)
                    else:
                        screen.show(show.lines(answer, args.local or args.port, screen.columns))
            except KeyboardInterrupt:
                if not is_up:
                    raise
                screen.say("closed")  # its usual end
    return 0
