"""`sojourn seal`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json
from sojourn.cli.screen import Screen

SUMMARY = "verify a run's folder and seal it, or quarantine it"
GROUP, PLACE = "For experts", 715
ABOUT = (
    "ROOT contains active/RUN (still changing), export/RUN (sealed) and quarantine/RUN--N. A layout file can name"
    " other folders, files that must be present or must stay behind, and keys that a file must contain. A run that"
    " fails verification goes to quarantine with the reason. A sealed run is never written again, and nothing is"
    " deleted. Without RUN, lists all runs and their states.",
)
EXAMPLES = (
    ("sojourn seal results", "list the runs in ./results and their states"),
    ("sojourn seal results lr3", "results/active/lr3 becomes results/export/lr3"),
    ("sojourn seal results lr3 --layout layout.toml", "with a project's own rules"),
)
EXITS = (
    (0, "sealed, or listed"),
    (1, "quarantined: the run failed verification"),
    (2, "no such run, or an invalid layout file"),
    (4, "already sealed"),
)
INTERRUPTED = "Nothing was sealed and active/RUN is unchanged. The same command starts over."


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("root", metavar="ROOT", help="the folder with active, export and quarantine in it")
    parser.add_argument("run", nargs="?", default="", metavar="RUN", help="the run to seal")
    parser.add_argument(
        "--layout", default="", metavar="FILE", help="folders and rules, a TOML file (sojourn help verify.md)"
    )
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it, show the answer, return the exit status."""
    from sojourn.cli.show import seal as show
    from sojourn.store.layout import Layout, read_layout
    from sojourn.verbs.retrieve.seal import seal, seal_states

    layout = read_layout(args.layout) if args.layout else Layout()
    if not args.run:
        every = seal_states(args.root, layout)
        screen.answer(every, show.states, is_json=args.json)
        return every.exit_status
    answer = seal(args.root, args.run, layout, say=screen.progress)
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status
