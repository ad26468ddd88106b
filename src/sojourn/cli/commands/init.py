"""`sojourn init`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json
from sojourn.cli.screen import Screen

SUMMARY = "inspect the project and write a commented, runnable sojourn.yaml"
GROUP, PLACE = "Every day", 105
ABOUT = (
    "Reads the project's source without executing it to find the training script and its flags, the packages it"
    " needs and the files it writes. Does not touch an existing sojourn.yaml unless you give --force.",
)
EXAMPLES = (
    ("sojourn init", "write ./sojourn.yaml"),
    ("sojourn init --dry-run", "print the file instead of writing it"),
    ("sojourn init ~/projects/digits", "for a project in another folder"),
)
EXITS = (
    (0, "written (or printed)"),
    (2, "sojourn.yaml already exists, or no such folder"),
)
INTERRUPTED = "Nothing was written."


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("folder", nargs="?", default=".", metavar="FOLDER", help="the project (default: this folder)")
    parser.add_argument("--name", default="", metavar="NAME", help="the job's name (default: the folder's)")
    parser.add_argument("--force", action="store_true", help="overwrite an existing sojourn.yaml")
    parser.add_argument("--dry-run", action="store_true", help="print the file instead of writing it")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it, show the answer, return the exit status."""
    from sojourn.cli.show import init as show
    from sojourn.verbs.project.init import init

    draft = init(args.folder, name=args.name, force=args.force, dry_run=args.dry_run)
    if args.json:
        screen.show_json(draft.as_json())
    else:
        screen.show(show.lines(draft, screen.columns))
    return draft.exit_status
