"""`sojourn accept`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json
from sojourn.cli.screen import Screen

SUMMARY = "verify a copied folder on another machine and write a report"
GROUP, PLACE = "For experts", 720
ABOUT = (
    "Reads every byte and loads every file, whatever was verified before. The acceptance report names this machine,"
    " the user, the time, the library versions and the contents of each file. Refused on the machine that wrote the"
    " manifest.",
)
EXAMPLES = (
    ("sojourn accept lr3 --manifest lr3.manifest.json --to acceptance.json", "after copying lr3 to this machine"),
    ("sojourn accept lr3 --manifest lr3.manifest.json --to b.json --node office", "name this machine yourself"),
)
EXITS = (
    (0, "every file matches the manifest and verifies"),
    (1, "a file failed verification; no report was written"),
    (2, "no such folder or manifest, or this machine wrote the manifest"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("path", metavar="PATH", help="the copied folder")
    parser.add_argument("--manifest", required=True, metavar="FILE", help="the manifest written by `seal` or `pull`")
    parser.add_argument("--to", required=True, metavar="FILE", help="where to write the report (a new file)")
    parser.add_argument("--node", default="", metavar="NAME", help="a name for this machine (default: its host name)")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it, show the answer, return the exit status."""
    from sojourn.cli.show import accept as show
    from sojourn.verbs.retrieve.accept import accept

    answer = accept(args.path, args.manifest, to=args.to, node=args.node, say=screen.progress)
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status
