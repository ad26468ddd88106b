"""Pages of the documentation on the screen, and their list. rich lays out the Markdown."""

from __future__ import annotations

import io
import posixpath
import re
from typing import TYPE_CHECKING

from sojourn.cli.show.text import fold, pad

if TYPE_CHECKING:
    from sojourn.verbs.explain.pages import Text, Topics

WIDEST = 100  # columns; longer lines are hard to read
_TOPIC = 20
_BUILT = {"docs/gotchas": "gotchas list", "docs/platforms": "platforms list"}  # pages replaced by these commands
_FENCE_LINK_OR_CODE = re.compile(
    r"(?P<fence>```.*?```)|\[(?P<label>(?:[^\[\]]|\\.)*)\]\((?P<target>[^)\s]+)\)|(?P<code>`[^`\n]+`)", re.S
)


def lines(answer: Text, columns: int, *, is_terminal: bool) -> list[str]:
    """The page, in colours where `is_terminal`; no line is longer than `columns`."""
    from rich.console import Console
    from rich.markdown import Markdown

    from sojourn.verbs.explain.pages import known

    paths = {page.path: f"help {page.topic}" for page in known().values()}
    markdown = _in_words(answer.markdown, answer.page.path, paths, keeps_marks=not is_terminal)
    out = io.StringIO()
    # rich honours NO_COLOR. A link nobody could follow is a topic by now; an address stays text.
    console = Console(file=out, width=min(columns, WIDEST), force_terminal=is_terminal, highlight=False)
    console.print(Markdown(markdown, hyperlinks=False))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def topics(answer: Topics, columns: int) -> list[str]:
    """The topics under the headings of the contents."""
    out = ["usage    sojourn help TOPIC | COMMAND"]
    group = None
    for page in answer.pages:
        if not page.group:
            continue  # pages missing from the contents are found from pages listed there
        if page.group != group:
            group = page.group
            out += ["", group]
        told = f"{page.title}: {page.about}" if page.about else page.title
        for n, part in enumerate(fold(told.replace("`", "").replace(" °", ""), columns - _TOPIC - 2)):
            out.append(("  " + pad(page.topic if n == 0 else "", _TOPIC) + part).rstrip())
    return [*out, "", "The commands: sojourn --help"]


def _in_words(markdown: str, path: str, topics: dict[str, str], *, keeps_marks: bool) -> str:
    """Links to pages become the topic to type, links to other files their path. `keeps_marks`: `code` keeps its marks,
    for output without colour.
    """

    def word(match: re.Match[str]) -> str:
        if match["fence"]:
            return match["fence"]
        if match["code"]:
            return f"`` {match['code']} ``" if keeps_marks else match["code"]
        label, target = match["label"], match["target"]
        file = target.partition("#")[0]
        if re.match(r"[a-z]+:", target):
            return match.group(0)
        if not file:
            return label
        there = posixpath.normpath(posixpath.join(posixpath.dirname(path), file))
        topic = topics.get(there) or next((said for begin, said in _BUILT.items() if there.startswith(begin)), "")
        if topic:
            return label if topic == f"help {label}" else f"{label} ({topic})"
        return label if there in label else f"{label} ({there})"

    return _FENCE_LINK_OR_CODE.sub(word, markdown)
