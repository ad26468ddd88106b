"""`sojourn seal`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json
from sojourn.cli.screen import Screen

SUMMARY = "close a run's folder: copied, proven and renamed in, or set aside"
GROUP, PLACE = "Retrieve and verify", 340
ABOUT = (
    "ROOT holds active/RUN (mutable), export/RUN (sealed) and quarantine/RUN--N; a layout file may name other folders,"
    " files that must be there or must stay behind, and keys that a file must hold. What does not prove is set aside"
    " with the reason. A sealed run is never written again, and nothing is deleted. Without RUN: which runs there are,"
    " and in which states.",
)
EXAMPLES = (
    ("sojourn seal results", "every run below ./results and its states"),
    ("sojourn seal results lr3", "results/active/lr3 becomes results/export/lr3"),
    ("sojourn seal results lr3 --layout layout.toml", "by the rules of a project"),
)
EXITS = (
    (0, "sealed"),
    (1, "set aside in quarantine: something does not prove"),
    (2, "no such run, or a bad layout file"),
    (4, "it is sealed already"),
)
INTERRUPTED = "Nothing is sealed; active/RUN is as it was. The identical command begins again."


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("root", metavar="ROOT", help="the folder that holds active, export and quarantine")
    parser.add_argument("run", nargs="?", default="", metavar="RUN", help="the run to close")
    parser.add_argument("--layout", default="", metavar="FILE", help="folders and rules, as TOML (docs/verify.md)")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it and show the answer; the exit status."""
    from sojourn.cli.show import seal as show
    from sojourn.store.layout import Layout, read_layout
    from sojourn.verbs.retrieve.seal import seal, standings

    layout = read_layout(args.layout) if args.layout else Layout()
    if not args.run:
        every = standings(args.root, layout)
        screen.answer(every, show.states, is_json=args.json)
        return every.exit_status
    answer = seal(args.root, args.run, layout, say=screen.progress)
    screen.answer(answer, show.lines, is_json=args.json)
    return answer.exit_status
