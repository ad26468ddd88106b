"""A tunnel that is up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.cli.show.text import clean, line
from sojourn.wire.units import say_seconds

if TYPE_CHECKING:
    from sojourn.verbs.observe.tunnel import Open


def lines(answer: Open, wanted: int, columns: int) -> list[str]:
    """The local port, whether it differs from `wanted`, and how it ends."""
    site = clean(answer.site)
    if not answer.is_forwarded:
        out = line("here", f"http://{answer.address} ({site} is this machine: nothing to forward)", columns)
        return out if answer.answers else [*out, *line("", f"nothing is listening on port {answer.port} yet", columns)]
    out = line("tunnel", f"http://{answer.address} forwards to port {answer.port} on {site}", columns)
    if answer.local_port != wanted:
        out += line("", f"port {wanted} is in use on this machine", columns)
    if not answer.answers:
        out += line("", f"nothing is listening on port {answer.port} there yet: start it, then reload", columns)
    return [*out, *line("ends", f"on Ctrl-C, or after {say_seconds(answer.limit_s)}", columns)]
