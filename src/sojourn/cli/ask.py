"""Asks for the exact NAME before something is stopped or released. `-y` never answers here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.cli.screen import Screen
from sojourn.cli.show.text import clean, fold

if TYPE_CHECKING:
    from sojourn.verbs.confirm import Ask, Confirm


def confirm(screen: Screen, given: str, *, doing: str = "") -> Confirm:
    """Answers a verb's question: `given` (from --confirm), else the person at the terminal, else nobody (None).

    `doing`: what typing the name does, as in "Type NAME to ..." (default: the verb and "it").
    """

    def answer(ask: Ask) -> str | None:
        if given and not ask.is_again:
            return given
        if given or not screen.may_ask:
            return None
        if ask.is_again:
            screen.say_line("The list changed while you were answering:")
        for line in ask.lines:
            for part in fold(clean(line), screen.columns):
                screen.say_line(part)
        what = clean(ask.doing or doing or f"{ask.verb} it")
        return screen.prompt(f"Type {clean(ask.name)} to {what} (anything else cancels): ").strip()

    return answer
