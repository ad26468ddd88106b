"""The text of gotchas.md, gotchas/THEME.md and platforms.md, made from data. scripts/docs_site.py writes them."""

from __future__ import annotations

from collections.abc import Iterable

from sojourn.cli.show import platforms as show
from sojourn.core.gotcha import Gotcha
from sojourn.store.gotchas import gotchas
from sojourn.store.platforms import document, platforms
from sojourn.verbs.explain.platforms import show_platform

HEAD = "Generated from data; to change it, change the data."


def pages() -> dict[str, str]:
    """Every page by its path in the repository, as if it were committed there."""
    themes = sorted({gotcha.theme for gotcha in gotchas()})
    by_theme = {theme: [gotcha for gotcha in gotchas() if gotcha.theme == theme] for theme in themes}
    out = {"docs/gotchas.md": _contents(by_theme), "docs/platforms.md": _platforms()}
    home = {gotcha.id: gotcha.theme for gotcha in gotchas()}
    return {**out, **{f"docs/gotchas/{theme}.md": _theme(theme, own, home) for theme, own in by_theme.items()}}


def _contents(by_theme: dict[str, list[Gotcha]]) -> str:
    lines = ["# Gotchas", "", HEAD, ""]
    lines += [
        f"{len(gotchas())} known ways to lose work or money. `sojourn gotchas search` finds them by what you see,",
        "`sojourn why` by evidence. Numbers such as U6 are those of the [field notes](words.md) that it began with.",
        "To add an entry: [adding a gotcha](adding-a-gotcha.md).",
    ]
    for theme, own in by_theme.items():
        lines += ["", f"## {theme}", ""]
        for one in own:
            number = f" ({one.was})" if one.was else ""
            lines.append(f"- [{one.id}](gotchas/{theme}.md#{one.id}): {one.title}{number}")
    return "\n".join(lines) + "\n"


def _theme(theme: str, own: list[Gotcha], home: dict[str, str]) -> str:
    lines = [f"# Gotchas: {theme}", "", HEAD, "", "[All themes](../gotchas.md)"]
    for one in own:
        lines += ["", f"## {one.id}", "", f"**{_text(one.title)}**", "", *_facts(one, home)]
    return "\n".join(lines) + "\n"


def _facts(one: Gotcha, home: dict[str, str]) -> Iterable[str]:
    where = "anywhere" if "universal" in one.scope else ", ".join(one.scope)
    numbers = ", ".join(filter(None, (one.was, *(merged.was for merged in one.merged))))
    yield f"- {one.severity}; {where}" + (f"; {numbers} in the field notes" if numbers else "")
    yield f"- symptom: {_text(one.symptom_en)}"
    yield f"- 现象: {_text(one.symptom_zh)}"
    if one.patterns:
        yield "- messages: " + ", ".join(_code(pattern.regex) for pattern in one.patterns)
    yield f"- cause: {_text(one.cause)}"
    yield f"- fix: {_text(one.fix)}"
    if one.never:
        yield f"- never: {_text(one.never.removeprefix('never '))}"
    for check in one.check:
        yield f"- check: {_code(check.run)}: {_text(check.shows)}"
    if one.confirm:
        yield "- confirmed by: " + " or ".join(_code(condition) for condition in one.confirm)
    if one.refute:
        yield "- ruled out by: " + " or ".join(_code(condition) for condition in one.refute)
    if one.undecidable:
        yield f"- cannot be decided: {_text(one.undecidable)}"
    if see := [name for name in (*one.see, *one.refines) if name in home]:
        yield "- see: " + ", ".join(f"[{name}]({home[name]}.md#{name})" for name in dict.fromkeys(see))
    yield f"- source: {_text('; '.join(one.sources))}"


def _platforms() -> str:
    lines = ["# Platforms", "", HEAD, ""]
    lines += [
        "What stops billing, what survives it, and what a platform deletes on its own. Every fact about money, storage",
        "or interruption has a source and the month it was last checked; `sojourn platforms stale` lists old facts.",
        "None of this was tested on a live platform. To add or correct one: [adding a platform](adding-a-platform.md).",
        "",
        "## What stops billing",
        "",
        "| platform | stop verb | final | checked |",
        "| --- | --- | --- | --- |",
    ]
    for name in platforms():
        stop = document(name)["stop"]
        final = "yes" if stop["is_final"]["is"] else "no"
        lines.append(f"| [{name}](#{name}) | {_cell(stop['verb']['is'])} | {final} | {stop['verb']['verified']} |")
    lines += [
        "",
        "## What survives",
        "",
        "| platform | storage | where | stop | destroy |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name in platforms():
        for row in document(name).get("tier", ()):
            cells = (name, row["name"], row["path"], row["stop"], row["destroy"])
            lines.append("| " + " | ".join(map(_cell, cells)) + " |")
    lines += ["", "## Danger clocks", "", "| platform | what | when | loses |", "| --- | --- | --- | --- |"]
    for name in platforms():
        for row in document(name).get("clock", ()):
            lines.append("| " + " | ".join(map(_cell, (name, row["what"], row["at"], row["loses"]))) + " |")
    for name in platforms():
        lines += ["", f"## {name}", "", "```text", *show.page(show_platform(name), 80), "```"]
    return "\n".join(lines) + "\n"


def _text(text: str) -> str:
    """Prose in a page: what Markdown or HTML would read as markup is told as it is."""
    for mark in ("\\", "*", "_", "<", "[", "`", "|"):
        text = text.replace(mark, "\\" + mark)
    return text.replace("\n", " ")


def _code(text: str) -> str:
    fence = "``" if "`" in text else "`"
    return f"{fence}{' ' if '`' in text else ''}{text}{' ' if '`' in text else ''}{fence}".replace("\n", "\\n")


def _cell(text: str) -> str:
    return _text(str(text))
