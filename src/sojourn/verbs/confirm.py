"""The exact name that somebody types before something is ended, deleted or let go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sojourn.wire.errors import Refusal


@dataclass(frozen=True)
class Ask:
    """A question before something is rented, stopped or let go: show `lines`, and have `name` typed exactly.

    `command`: what a script says instead. Whoever answers returns what was typed, or None where nobody can be asked.
    `is_again`: the list is another one than a moment ago; a name that was given beforehand is no answer to it.
    """

    verb: str
    name: str
    lines: tuple[str, ...]
    command: str
    is_again: bool = False
    doing: str = ""  # as in "Type NAME to ..."


Confirm = Callable[[Ask], str | None]


class NotConfirmed(Refusal):
    """{what} needs the exact name {name}, which was not {how}. Nothing was changed."""

    code = "not-confirmed"
    next_step = "{command}"


def confirmed(confirm: Confirm, ask: Ask) -> str:
    """What was typed, where it is the name, exactly. Raises: NotConfirmed, whose `lines` is what was listed."""
    typed = confirm(ask)
    if typed != ask.name:
        how = "typed, and there is no terminal to ask at" if typed is None else f"given: {typed!r} is another name"
        if ask.is_again and typed is None:
            how = "given again: the list changed since it was given"
        raise NotConfirmed(what=f"`{ask.verb}`", name=ask.name, how=how, command=ask.command, lines=list(ask.lines))
    return typed
