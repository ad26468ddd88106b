"""`sojourn learn`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json
from sojourn.cli.screen import Screen
from sojourn.wire.errors import Misuse

SUMMARY = "draft a gotcha or platform fact for review; edits nothing"
GROUP, PLACE = "For experts", 735
ABOUT = (
    "Given only an evidence file or a log, prints a draft TOML file with what is known, and LACKS wherever you must"
    " fill something in. Given the completed draft too, prints a patch with the entry and its test cases, to review"
    " and apply with `git apply`. Writes no files.",
    "A new entry must be confirmed by the evidence, and be root-caused (--miss gives a case that looks alike but has"
    " another cause), reproduced (--again gives a second case) or mechanistic (a source explains the mechanism);"
    " otherwise it is refused with a list of what is missing. For something that holds only for this project, use"
    " --note. Secrets are removed.",
)
EXAMPLES = (
    ("sojourn learn b.json > nic.toml", "a draft from evidence"),
    ("sojourn learn b.json --draft nic.toml --because root-caused --miss near.json", "a patch"),
    ('sojourn learn train.log --note "the old cluster needs LD_PRELOAD"', "a note for this project"),
    ("sojourn learn --site ssh:gpu7 --as lab >> settings.toml", "record how a box is set up"),
    ('sojourn learn --platform runpod --fact traffic.out --is 0 --source "its page"', "a platform fact"),
)
EXITS = (
    (0, "the draft or patch is on stdout"),
    (2, "no such file, platform or fact"),
    (4, "refused: not root-caused, reproduced or mechanistic, or already known"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("evidence", nargs="?", default="", metavar="EVIDENCE", help="an evidence file or a log")
    parser.add_argument("--draft", default="", metavar="FILE", help="the completed draft")
    parser.add_argument("--because", default="", metavar="G", help="root-caused, reproduced or mechanistic")
    parser.add_argument("--again", default="", metavar="FILE", help="a second case of the same problem")
    parser.add_argument("--miss", default="", metavar="FILE", help="a case that looks alike but has another cause")
    parser.add_argument("--note", default="", metavar="TEXT", help="instead: write a note for this project")
    parser.add_argument(
        "--site", default="", metavar="S", help="instead: record how this box is set up, for your settings"
    )
    parser.add_argument("--as", default="", dest="name", metavar="NAME", help="a name for the site")
    parser.add_argument("--platform", default="", metavar="NAME", help="instead: draft a fact about this platform")
    parser.add_argument("--fact", default="", metavar="T.KEY", help="which fact, such as stop.verb or traffic.out")
    parser.add_argument("--is", default="", dest="says", metavar="TEXT", help="the value of the fact")
    parser.add_argument(
        "--source", default="", metavar="TEXT", help="where the fact is documented, or how it was observed"
    )
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it, show the answer, return the exit status."""
    from sojourn.verbs.explain import learn

    if [bool(args.platform), bool(args.evidence), bool(args.site)].count(True) != 1:
        ways = "--platform NAME with --fact, --is and --source, or --site S with --as NAME"
        raise Misuse(detail=f"give an EVIDENCE file, or {ways}")
    if args.site:
        from sojourn.verbs.context import Context
        from sojourn.verbs.explain.learn_site import site

        with Context.open(say=screen.progress) as ctx:
            answer = site(ctx, args.site, args.name)
    elif args.platform:
        from sojourn.verbs.explain.learn_fact import fact

        answer = fact(args.platform, args.fact, args.says, args.source)
    elif args.note:
        answer = learn.note(args.evidence, args.note)
    elif args.draft:
        answer = learn.patch(args.evidence, args.draft, args.because, again=args.again, miss=args.miss)
    else:
        answer = learn.draft(args.evidence)
    if args.json:
        screen.show_json(answer.as_json())
    else:
        screen.show(answer.text.splitlines())
        for remark in answer.remarks:
            screen.say(remark)
    return 0
