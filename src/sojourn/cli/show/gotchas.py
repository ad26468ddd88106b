"""The catalog on the screen: a list, one entry, or search results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.cli.show.text import clean, command, count, fold, line, pad

if TYPE_CHECKING:
    from sojourn.core.gotcha import Gotcha
    from sojourn.verbs.explain.gotchas import GotchaEntry, Listed, Searched


def listed(answer: Listed, columns: int) -> list[str]:
    """One line per entry, by theme."""
    out: list[str] = []
    theme, wide = None, 0
    for one in answer.gotchas:
        if one.theme != theme:
            theme = one.theme
            out += ["", theme] if out else [theme]
            wide = max(len(g.id) for g in answer.gotchas if g.theme == theme)
        number = f" ({one.was})" if one.was else ""
        told = fold(clean(one.title) + number, max(20, columns - wide - 4))
        out += [f"  {pad(one.id if not i else '', wide)}  {part}" for i, part in enumerate(told)]
    return [*out, "", *line("total", f"{count(len(answer.gotchas), 'entry', 'entries')}", columns), _next()]


def entry(answer: GotchaEntry, columns: int) -> list[str]:
    """Symptom, cause, fix, what never to do, what to type; how it is confirmed; related entries."""
    one = answer.gotcha
    out = line(one.severity, f"{clean(one.title)} [{_names(one)}]", columns)
    out += line("where", ", ".join(one.scope) if "universal" not in one.scope else "anywhere", columns)
    out += line("symptom", clean(one.symptom_en), columns)
    out += line("", clean(one.symptom_zh), columns)
    for label, text in (("cause", one.cause), ("fix", one.fix), ("never", one.never.removeprefix("never "))):
        if text:
            out += line(label, clean(text), columns)
    for number, check in enumerate(one.check):
        out += line("check" if not number else "", f"{clean(check.run)}  ({clean(check.shows)})", columns)
    for number, pattern in enumerate(one.patterns):
        out += line("pattern" if not number else "", f"{clean(pattern.regex)}  ({pattern.where})", columns)
    for label, conditions in (("confirms", one.confirm), ("unless", one.refute)):
        for number, condition in enumerate(conditions):
            out += line(label if not number else "", clean(condition), columns)
    if one.undecidable:
        out += line("unknown", f"no available evidence decides it: {clean(one.undecidable)}", columns)
    for number, (name, title) in enumerate(answer.related):
        out += line("related" if not number else "", f"{name}: {clean(title)}", columns)
    out += line("source", "; ".join(clean(source) for source in one.sources), columns)
    return out


def searched(answer: Searched, columns: int) -> list[str]:
    """The results, why each matched, and the first one's fix."""
    if not answer.results:
        return [*line("found", "no matching entry; try other words, or paste the error itself", columns), _next()]
    out: list[str] = []
    for number, found in enumerate(answer.results):
        was = f" {found.was}" if found.was else ""
        out += line(f"{number + 1}", f"{clean(found.title)} [{found.id}{was}]", columns)
        if not number and answer.best is not None:
            out += line("", f"cause: {clean(answer.best.cause)}", columns)
            out += line("", f"fix: {clean(answer.best.fix)}", columns)
            if answer.best.never:
                out += line("", f"never: {clean(answer.best.never.removeprefix('never '))}", columns)
        out += line("", f"matched by {clean('; '.join(found.why[:2]))}", columns)
    ids = {found.id for found in answer.results}
    related = [name for name in answer.results[0].related if name not in ids]
    if related:
        out += line("related", ", ".join(related), columns)
    return [*out, command("next", f"sojourn gotchas show {answer.results[0].id}")]


def _names(one: Gotcha) -> str:
    return ", ".join(filter(None, (one.id, one.was, *(m.was for m in one.merged))))


def _next() -> str:
    return command("next", "sojourn gotchas search WORDS")
