"""`sojourn accept`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json
from sojourn.cli.screen import Screen

SUMMARY = "read and load a folder again on another machine, and write down what it found"
GROUP, PLACE = "Retrieve and verify", 350
ABOUT = (
    "Every byte is read and every file loaded, whatever was proven before. The acceptance names this machine, the user,"
    " the time, the libraries and what each file held. It is refused on the machine that made the manifest.",
)
EXAMPLES = (
    ("sojourn accept lr3 --manifest lr3.manifest.json --to acceptance.json", "after copying lr3 here"),
    ("sojourn accept lr3 --manifest lr3.manifest.json --to b.json --node office", "name this machine yourself"),
)
EXITS = (
    (0, "every file is as the manifest says, and proves"),
    (1, "something does not prove: no acceptance is written"),
    (2, "no such folder or manifest, or this machine made the manifest"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("path", metavar="PATH", help="the folder, as it was copied here")
    parser.add_argument("--manifest", required=True, metavar="FILE", help="what was sealed, or what `pull` wrote")
    parser.add_argument("--to", required=True, metavar="FILE", help="the acceptance: a new file")
    parser.add_argument("--node", default="", metavar="NAME", help="what to call this machine (default: its own name)")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it and show the answer; the exit status."""
    from sojourn.cli.show import accept as show
    from sojourn.verbs.retrieve.accept import accept

    answer = accept(args.path, args.manifest, to=args.to, node=args.node, say=screen.progress)
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status
