"""A handbook as plain text: every command whole on its own line, so that it can be saved, read and copied from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.cli.show.text import clean, fold

if TYPE_CHECKING:
    from sojourn.verbs.takeover.handbook import Handbook

WIDE = 80  # of the text between commands, wherever it is shown: it is meant to be saved


def lines(answer: Handbook) -> list[str]:
    """The run, then every step: why, where, and its commands. Lines of `#` are not commands."""
    known = f"last known state, box not reached ({clean(answer.reach)})" if answer.reach else "read from its box"
    out = [
        f"# How to take over the run {clean(answer.run)} with a bare shell",
        f"# site {clean(answer.site)}, attempt {answer.attempt}, {answer.state.value}; {answer.at}, {known}",
        f"# root {clean(answer.root)}",
    ]
    for remark in answer.remarks:
        out += _comment(remark)
    for number, step in enumerate(answer.steps, 1):
        where = "" if step.where == "box" else " (on this machine)"
        mark = ", CHANGES THE RUN" if step.changes else ""
        out += ["", f"# {number}. {step.title}{where}{mark}", *_comment(step.why)]
        out += [f"  {clean(command)}" for command in step.commands]
    return out


def _comment(text: str) -> list[str]:
    return ["# " + part for part in fold(clean(text), WIDE - 2)]
