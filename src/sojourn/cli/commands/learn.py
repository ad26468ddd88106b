"""`sojourn learn`."""

from __future__ import annotations

import argparse

from sojourn.cli.parser import add_json
from sojourn.cli.screen import Screen
from sojourn.wire.errors import Misuse

SUMMARY = "draft a gotcha or a platform fact from what happened; edits nothing"
GROUP, PLACE = "Knowledge base", 630
ABOUT = (
    "With an evidence file or a log alone it prints a draft: what is known of it as a TOML file, and LACKS where a"
    " person must say it. With the filled draft it prints a patch with the entry and its specimens, for review and"
    " `git apply`, and nothing is written.",
    "A new entry is root-caused (--miss shows a case that looks alike and is not it), reproduced (--again shows it a"
    " second time) or mechanistic (a source tells the mechanism), and the evidence must confirm it; else it is refused"
    " with all that lacks. What is true of one project only is a --note. Secrets are taken out of all of it.",
)
EXAMPLES = (
    ("sojourn learn b.json > nic.toml", "a draft from evidence"),
    ("sojourn learn b.json --draft nic.toml --because root-caused --miss near.json", "a patch"),
    ('sojourn learn train.log --note "the old cluster needs LD_PRELOAD"', "a note"),
    ("sojourn learn --site ssh:gpu7 --as lab >> settings.toml", "remember how a box is set up"),
    ('sojourn learn --platform runpod --fact traffic.out --is 0 --source "its page"', "a platform fact"),
)
EXITS = (
    (0, "the draft or the patch stands on stdout"),
    (2, "no such file, platform or fact"),
    (4, "refused: not root-caused, reproduced or mechanistic, or known already"),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("evidence", nargs="?", default="", metavar="EVIDENCE", help="an evidence file, or a log")
    parser.add_argument("--draft", default="", metavar="FILE", help="the filled draft")
    parser.add_argument("--because", default="", metavar="G", help="root-caused, reproduced or mechanistic")
    parser.add_argument("--again", default="", metavar="FILE", help="a second case in which it happened")
    parser.add_argument("--miss", default="", metavar="FILE", help="a case that looks alike and is not it")
    parser.add_argument("--note", default="", metavar="TEXT", help="a note for this project instead")
    parser.add_argument("--site", default="", metavar="S", help="how this box is set up, for your settings, instead")
    parser.add_argument("--as", default="", dest="name", metavar="NAME", help="what the site is to be called")
    parser.add_argument("--platform", default="", metavar="NAME", help="a fact of this platform instead")
    parser.add_argument("--fact", default="", metavar="T.KEY", help="which fact, say stop.verb or traffic.out")
    parser.add_argument("--is", default="", dest="says", metavar="TEXT", help="what the fact says")
    parser.add_argument("--source", default="", metavar="TEXT", help="where it stands, or how it was seen")
    add_json(parser)


def call(args: argparse.Namespace, screen: Screen) -> int:
    """Run it and show the answer; the exit status."""
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
