"""`tunnel`: a port of a run's box, here: TensorBoard, Jupyter, a debugger. Stays until it is closed."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from sojourn.core.values import NoAnswer, Pulse
from sojourn.store.records import RunRecord
from sojourn.verbs.answers import document
from sojourn.verbs.context import Context, unreachable
from sojourn.verbs.observe import scheduled
from sojourn.verbs.observe.refresh import refresh_one
from sojourn.wire.errors import Misuse, WorldError

LIMIT_S = 12 * 3600.0
HERE = "127.0.0.1"


class NoTunnel(Misuse):
    """{site} is reached by {transport}, which cannot forward ports yet."""

    code = "no-tunnel"
    next_step = "sojourn handbook {run}"


class BadPort(Misuse):
    """{port} is not a port number (1 to 65535)."""

    code = "bad-port"


class NoNode(WorldError):
    """{run} has no node whose port could be forwarded: {why}."""

    code = "no-node"
    retry = True
    next_step = "sojourn status {run}"


def _host(ctx: Context, record: RunRecord) -> str:
    """Where the run's process is, as its box sees it: itself, or the node that a scheduler gave to its job.

    Raises: NoNode while the job has none, Unreachable if that cannot be known now.
    """
    box, handle = ctx.box(record.site, record.lease), scheduled.handle_of(record)
    machine = getattr(box.launcher, "machine", None)
    if machine is None:
        return HERE
    if handle is None:
        raise NoNode(run=record.id, why="its job was not submitted")
    if host := str(machine(box.place, handle)):
        return host
    view = refresh_one(ctx, record)
    word = view.word
    if word is not None and word.is_waiting:
        raise NoNode(run=record.id, why=f"its job waits in the queue ({word.reason})")
    if view.status.state.is_final or (word is not None and word.pulse is Pulse.GONE):
        raise NoNode(run=record.id, why="its job does not run any more")
    why = (word.reason if word else "") or "the scheduler did not say"
    raise unreachable(record.site, NoAnswer(True, "no-node", f"which node its job runs on is unknown: {why}"))


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
    """Forward `port` of the run's box, or of the node of its job; yields once when it is up, and then holds it.

    For `limit_s` at most.

    `local_port`: the port here (0: the same number); where it is taken, a free one is used. Closing the iterator ends
    it at once. Raises: Misuse (not-found, no-tunnel, bad-port), NoNode, Unreachable (it never came up, or broke).
    """
    record = ctx.store.index.find(run)
    site = record.site
    for number in (port, local_port or port):
        if not 1 <= number <= 65535:
            raise BadPort(port=number)
    from sojourn.backends import relay
    from sojourn.backends.ssh import tunnel as ssh_tunnel
    from sojourn.backends.ssh.argv import reached

    if site.transport not in ("local", "ssh"):
        raise NoTunnel(site=site.name, transport=site.transport, run=record.id)
    host = _host(ctx, record)
    refused: list[str] = []

    def tell(line: str) -> None:
        refused.append(line)
        ctx.say(f"{site.name}: nothing answers at its port {port} ({line})")

    if site.transport == "local" and (host == HERE or (relay.is_here(host) and ssh_tunnel.listens(port))):
        yield Open(record.id, site.name, port, port, False, ssh_tunnel.listens(port), 0.0)
        return
    if site.transport == "local":
        wanted = local_port or port
        # A service of this machine that is not up yet: a relay of the same number would reach itself.
        with relay.start(host, port, 0 if wanted == port and relay.is_here(host) else wanted, tell) as here:
            yield Open(record.id, site.name, port, here.local_port, True, ssh_tunnel.listens(port, host), limit_s)
            here.wait(limit_s)
        return
    ctx.say(f"connecting to {site.name}")
    place = reached(ctx.box(site, record.lease).place)
    opened = ssh_tunnel.start(place, port, local_port or port, tell, host)
    if isinstance(opened, NoAnswer):
        raise unreachable(site, opened)
    with opened as up:
        yield Open(record.id, site.name, port, up.local_port, True, not refused, limit_s)
        broken = up.wait(limit_s)
    if broken is not None:
        raise unreachable(site, broken)
