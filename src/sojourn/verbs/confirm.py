"""The exact name that somebody types before something is ended, deleted or let go."""

from __future__ import annotations

from sojourn.verbs.answers import Ask, Confirm
from sojourn.wire.errors import Refusal


class NotConfirmed(Refusal):
    """{what}: its name, {name}, was not {how}. Nothing was changed."""

    code = "not-confirmed"
    next_step = "{command}"


def confirmed(confirm: Confirm, ask: Ask) -> str:
    """What was typed, where it is the name, exactly. Raises: NotConfirmed, whose `lines` is what was listed."""
    typed = confirm(ask)
    if typed != ask.name:
        how = "typed, and there is no terminal to ask at" if typed is None else f"given: {typed!r} is another name"
        if ask.is_again and typed is None:
            how = "given again: the list changed since it was given"
        raise NotConfirmed(
            what=f"sojourn {ask.verb}", name=ask.name, how=how, command=ask.command, lines=list(ask.lines)
        )
    return typed
