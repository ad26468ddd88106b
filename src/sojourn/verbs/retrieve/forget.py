"""Secrets that a keeper could not remove from the box, because it was killed, go with the next look at the end."""

from __future__ import annotations

from collections.abc import Sequence

from sojourn.core.values import NoAnswer
from sojourn.store.records import RunRecord
from sojourn.verbs.context import Box, Context
from sojourn.wire.errors import WorldError


def forget_secrets(ctx: Context, box: Box, records: Sequence[RunRecord]) -> None:
    """Remove the secrets of runs with no live process. A failure is reported and stops nothing else.

    Without them the box lists the logs again, in which it has hidden them.
    """
    named = [record.id for record in records if record.attempt and record.run.spec.get("secrets")]
    if not named:
        return
    try:
        answer = box.ask("forget_secrets", runs=named)
    except WorldError as error:
        ctx.say(f"the secrets of {', '.join(named)} may still be on the box: {error.message}")
        return
    left = named if isinstance(answer, NoAnswer) else answer.value["kept"]
    if left:
        ctx.say(f"the secrets of {', '.join(left)} may still be on the box")
