"""`sojourn verify`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json
from sojourn.cli.screen import Screen

SUMMARY = "check that every file under a path loads; needs no run"
GROUP, PLACE = "Sweeps and results", 415
ABOUT = (
    "Reads each file in full, checks its structure, and loads it with the loader for its format, which executes no"
    " code from the file. With a manifest, sizes and hashes are compared too. Files that were verified before and"
    " have not changed are skipped; an interrupted verify continues where it stopped.",
)
EXAMPLES = (
    ("sojourn verify results", "everything under a folder"),
    ("sojourn verify best.pt metrics.json", "two files"),
    ("sojourn verify results --manifest manifest.json", "also compare sizes and hashes"),
    ("sojourn verify results --fresh", "read every byte again"),
)
EXITS = (
    (0, "every file loads"),
    (1, "a file does not load, or is missing"),
    (2, "no such manifest"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a file, or a folder with everything in it")
    parser.add_argument(
        "--manifest", default="", metavar="FILE", help="the expected files, as written by `pull` or the box"
    )
    parser.add_argument(
        "--fresh", action="store_true", help="also read files that were verified before and look unchanged"
    )
    parser.add_argument("--cross-mounts", action="store_true", help="also read other file systems mounted under a path")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it, show the answer, return the exit status."""
    from sojourn.cli.show import verify as show
    from sojourn.verbs.retrieve.verify import verify

    answer = verify(args.paths, manifest=args.manifest, say=screen.progress, fresh=args.fresh, across=args.cross_mounts)
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status
