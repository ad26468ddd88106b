"""The outcome of `notify test`: one line per channel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.cli.show.text import clean, line

if TYPE_CHECKING:
    from sojourn.verbs.observe.notices import Notified


def lines(answer: Notified, columns: int) -> list[str]:
    """Each channel, and whether it accepted the message."""
    return [
        part
        for label, why in answer.channels
        for part in line("failed" if why else "sent", clean(f"{label}{': ' + why if why else ''}"), columns)
    ]
