"""The way to a rented machine whose address has moved: where the old one does not answer, its provider is asked again.

A container gets another port at every restart, and some hosts another address.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from sojourn.core.ports import Provider, Transport
from sojourn.core.values import Ended, Lease, NoAnswer
from sojourn.wire.errors import SojournError

if TYPE_CHECKING:
    from sojourn.core.streams import StreamingTransport

ASK_S = 10.0  # for the provider, and for a greeting of its sshd


class Following:
    """A transport of a rented machine. `moved`: told of the lease with the new address, before it is used.

    Followed once for each command, and only where nothing can have arrived at the old address.
    """

    def __init__(
        self,
        lease: Lease,
        provider: Provider,
        way: Callable[[Lease], Transport],
        moved: Callable[[Lease], None],
    ) -> None:
        self._lease, self._provider, self._way, self._moved = lease, provider, way, moved
        self._transport, self._has_asked = way(lease), False
        self.attach = self._attach if hasattr(self._transport, "attach") else None  # as `core.ports.Transport` says
        self.stream = self._stream if hasattr(self._transport, "stream") else None  # as `core.streams` says

    def call(self, argv: Sequence[str], **how: Any) -> Ended | NoAnswer:
        """As the port says."""
        answer = self._transport.call(argv, **how)
        return self._transport.call(argv, **how) if self._has_moved(answer) else answer

    def put(self, local: str, remote: str, **how: Any) -> None | NoAnswer:
        """As the port says."""
        answer = self._transport.put(local, remote, **how)
        return self._transport.put(local, remote, **how) if self._has_moved(answer) else answer

    def get(self, remote: str, local: str, **how: Any) -> int | NoAnswer:
        """As the port says."""
        answer = self._transport.get(remote, local, **how)
        return self._transport.get(remote, local, **how) if self._has_moved(answer) else answer

    def _attach(self, argv: Sequence[str], has_terminal: bool) -> list[str]:
        """To where the machine is now: it was asked something just before."""
        way: Any = self._transport
        return list(way.attach(argv, has_terminal))

    def _stream(self, argv: Sequence[str], **how: Any) -> Ended | NoAnswer:
        """What is sent was read, so whoever asked asks again; by then the new address is known."""
        answer: Ended | NoAnswer = cast("StreamingTransport", self._transport).stream(argv, **how)
        self._has_moved(answer)
        return answer

    def _has_moved(self, answer: object) -> bool:
        """Whether there is another address to try. A provider that says anything else leaves the answer as it is."""
        if not isinstance(answer, NoAnswer) or answer.sent or self._has_asked:
            return False
        self._has_asked = True
        try:
            now = self._provider.ready(self._lease, ASK_S)
        except SojournError:
            return False
        if not isinstance(now, Lease) or now.address in ("", self._lease.address):
            return False
        self._moved(now)
        self._lease, self._transport = now, self._way(now)
        return True
