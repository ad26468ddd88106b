"""`sojourn tunnel`."""

from __future__ import annotations

import argparse
import contextlib

from sojourn.cli.parser import add_json, duration, whole
from sojourn.cli.screen import Screen

SUMMARY = "forward a port from the run's box (TensorBoard, Jupyter)"
GROUP, PLACE = "While it runs", 320
ABOUT = (
    "Forwards 127.0.0.1:PORT on the box to the same port on this machine, or to a free one if that is taken, until"
    " the command ends. Only users of this machine can connect.",
)
EXAMPLES = (
    ("sojourn tunnel digits 6006", "then open the address it prints"),
    ("sojourn tunnel digits 8888 --local 9999 --for 1h", "on port 9999 here, for an hour"),
)
EXITS = (
    (0, "closed by Ctrl-C or its time limit, or the box is this machine"),
    (2, "no such run, or an invalid port"),
    (3, "cannot reach the box, or the connection broke"),
    (5, "the run's job has no node: it waits in the queue, or has ended"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("run", metavar="RUN", help="a run (any unique prefix of its name)")
    parser.add_argument("port", metavar="PORT", type=whole, help="the port on the box")
    parser.add_argument(
        "--local", type=whole, default=0, metavar="PORT", help="the port on this machine (default: the same)"
    )
    parser.add_argument(
        "--for", dest="limit_s", type=duration, metavar="TIME", help="close it after this long (default: 12h)"
    )
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it, show the answer, return the exit status."""
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
                screen.say("closed")  # the usual end
    return 0
