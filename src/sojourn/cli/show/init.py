"""What `init` found and wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.cli.show.text import clean, command, line

if TYPE_CHECKING:
    from sojourn.verbs.project.init import Draft


def lines(draft: Draft, columns: int) -> list[str]:
    """The file itself if nothing was written; else what was recognized, what to check, the next command."""
    if not draft.written:
        return [clean(text) for text in draft.text.splitlines()]
    out = line("wrote", clean(draft.path), columns)
    if draft.script:
        out += line("script", f"{clean(draft.script)}  ({', '.join(clean(why) for why in draft.why)})", columns)
    for other in draft.others:
        out += line("other", f"{clean(other)} may be a training script too", columns)
    if draft.outputs:
        out += line("outputs", ", ".join(clean(glob) for glob in draft.outputs), columns)
    for note in draft.notes:
        out += line("check", clean(note), columns)
    return [*out, command("next", clean(draft.next))]
