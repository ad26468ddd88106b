"""`sojourn verify`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json
from sojourn.cli.screen import Screen

SUMMARY = "load every artifact below a path; needs no history of sojourn"
GROUP, PLACE = "Retrieve and verify", 320
ABOUT = (
    "Every file is read whole, its structure checked, and loaded by the loader of its format, which runs nothing that"
    " it reads. With a manifest the bytes are also compared with what they should be. What was proven and is unchanged"
    " since is not read again; a verify that was ended goes on where it was.",
)
EXAMPLES = (
    ("sojourn verify results", "everything below a folder"),
    ("sojourn verify best.pt metrics.json", "two files"),
    ("sojourn verify results --manifest manifest.json", "and compare sizes and hashes"),
    ("sojourn verify results --fresh", "read every byte, also of files that were proven before"),
)
EXITS = (
    (0, "everything loads"),
    (1, "something does not load, or is missing"),
    (2, "no such manifest"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a file, or a folder with everything below it")
    parser.add_argument(
        "--manifest", default="", metavar="FILE", help="what should be there, as the box or `pull` wrote it"
    )
    parser.add_argument(
        "--fresh", action="store_true", help="read also what was proven before and looks unchanged since"
    )
    parser.add_argument(
        "--cross-mounts", action="store_true", help="read also other file systems that are mounted below a path"
    )
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it and show the answer; the exit status."""
    from sojourn.cli.show import verify as show
    from sojourn.verbs.retrieve.verify import verify

    answer = verify(args.paths, manifest=args.manifest, say=screen.progress, fresh=args.fresh, across=args.cross_mounts)
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status
