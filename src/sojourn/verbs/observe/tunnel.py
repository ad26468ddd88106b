"""`tunnel`: a port of a run's box, here: TensorBoard, Jupyter, a debugger. Stays until it is closed."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from sojourn.core.values import NoAnswer
from sojourn.verbs.answers import document
from sojourn.verbs.context import Context, unreachable
from sojourn.wire.errors import Misuse

LIMIT_S = 12 * 3600.0


class NoTunnel(Misuse):
    """{site} is reached by {transport}, which cannot forward ports yet."""

    code = "no-tunnel"
    next_step = "sojourn handbook {run}"


class BadPort(Misuse):
    """{port} is not a port number (1 to 65535)."""

    code = "bad-port"


@dataclass(frozen=True)
class Open:
    """A port that is here now. `is_forwarded`: False where the box is this machine, and nothing had to be done."""

    run: str
    site: str
    port: int
    local_port: int
    is_forwarded: bool
    answers: bool  # something listened at the port when it was opened, as far as that could be seen from here
    limit_s: float
    exit_status: int = 0

    @property
    def address(self) -> str:
        """Where it is here."""
        return f"127.0.0.1:{self.local_port}"

    def as_json(self) -> dict[str, Any]:
        """The `tunnel` document."""
        return document(self, "tunnel", without=("exit_status",), address=self.address)


def tunnel(
    ctx: Context, run: str, port: int, *, local_port: int = 0, limit_s: float = LIMIT_S
) -> Generator[Open, None, None]:
    """Forward 127.0.0.1:`port` of the run's box; yields once when it is up, and then holds it for `limit_s` at most.

    `local_port`: the port here (0: the same number); where it is taken, a free one is used. Closing the iterator ends
    it at once. Raises: Misuse (not-found, no-tunnel, bad-port), Unreachable (it never came up, or broke).
    """
    record = ctx.store.index.find(run)
    site = record.site
    for number in (port, local_port or port):
        if not 1 <= number <= 65535:
            raise BadPort(port=number)
    from sojourn.backends.ssh import tunnel as ssh_tunnel

    if site.transport == "local":
        yield Open(record.id, site.name, port, port, False, ssh_tunnel.listens(port), 0.0)
        return
    if site.transport != "ssh":
        raise NoTunnel(site=site.name, transport=site.transport, run=record.id)
    ctx.say(f"connecting to {site.name}")
    refused: list[str] = []

    def tell(line: str) -> None:
        refused.append(line)
        ctx.say(f"{site.name}: nothing answers at its port {port} ({line})")

    opened = ssh_tunnel.start(site, port, local_port or port, tell)
    if isinstance(opened, NoAnswer):
        raise unreachable(site, opened)
    with opened as up:
        yield Open(record.id, site.name, port, up.local_port, True, not refused, limit_s)
        broken = up.wait(limit_s)
    if broken is not None:
        raise unreachable(site, broken)
