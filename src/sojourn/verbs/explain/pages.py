"""`sojourn help TOPIC`: a page of the documentation, or the list of them."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sojourn.store import pages as store
from sojourn.store.pages import Page
from sojourn.wire.errors import Misuse

_NEAR = 3


class NoSuchPage(Misuse):
    """There is no page or command {topic!r}{near}."""

    code = "no-such-page"
    next_step = "sojourn help"


class NoPages(Misuse):
    """This copy of sojourn has no documentation pages, neither in the package nor in a clone around it."""

    code = "no-pages"
    next_step = "sojourn COMMAND --help"


@dataclass(frozen=True)
class Text:
    """One page and its Markdown."""

    page: Page
    markdown: str

    def as_json(self) -> dict[str, Any]:
        """The `help` document of a page."""
        return {**_schema(), "topic": self.page.topic, "title": self.page.title, "markdown": self.markdown}


@dataclass(frozen=True)
class Topics:
    """Every page, those of the contents first."""

    pages: tuple[Page, ...]

    def as_json(self) -> dict[str, Any]:
        """The `help` document of the list."""
        rows = [
            {"topic": page.topic, "title": page.title, "group": page.group or None, "about": page.about}
            for page in self.pages
        ]
        return {**_schema(), "topics": rows}


_OBSERVATIONS = Page("observations", "docs/observations.md", "Observations", "Reference", "facts that evidence holds")


def known() -> Mapping[str, Page]:
    """topic -> page, those made from code too, in the order of the contents. Raises: NoPages."""
    found = store.pages()
    if not found:
        raise NoPages()
    last = max((n for n, one in enumerate(found.values()) if one.group == _OBSERVATIONS.group), default=-1) + 1
    rows = list(found.items())
    return dict([*rows[:last], (_OBSERVATIONS.topic, _OBSERVATIONS), *rows[last:]])


def topics() -> Topics:
    """Every page that can be read. Raises: NoPages."""
    return Topics(tuple(known().values()))


def is_page(topic: str) -> bool:
    """Whether a page is called so: `ssh`, `ssh.md` or `docs/ssh.md`, with or without a #heading."""
    return bool(store.pages()) and _name(topic) in known()


def page(topic: str, commands: Collection[str] = ()) -> Text:
    """The page of a topic. `commands`: names that are near enough to be proposed too. Raises: NoPages, NoSuchPage."""
    every, name = known(), _name(topic)
    if name not in every:
        near = _near(name, [*every, *commands])
        raise NoSuchPage(topic=topic, near=f"; nearest: {', '.join(near)}" if near else "")
    if every[name] is _OBSERVATIONS:
        from sojourn.verbs.explain import observations

        return Text(_OBSERVATIONS, observations.text())
    return Text(every[name], store.text(every[name]))


def _name(topic: str) -> str:
    return store.topic_of(topic.partition("#")[0].removeprefix("./"))


def _near(wrong: str, every: Collection[str]) -> list[str]:
    """Names that hold the wrong one, or look like it; then pages whose title holds it."""
    inside = [name for name in every if len(wrong) > 2 and wrong in name]
    alike = difflib.get_close_matches(wrong, every, n=_NEAR, cutoff=0.55)
    said = [
        one.topic for one in store.pages().values() if len(wrong) > 2 and wrong in f"{one.title} {one.about}".lower()
    ]
    return list(dict.fromkeys([*inside, *alike, *said]))[:_NEAR]


def _schema() -> dict[str, Any]:
    return {"schema": "sojourn/help/v1"}
