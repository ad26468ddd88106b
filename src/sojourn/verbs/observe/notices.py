"""Notification channels of settings and runs, and sending to them. A slow channel delays nothing.

A channel is a URL of apprise, or `env:NAME`: the variable NAME of this machine's environment holds the URL.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from sojourn.store.records import RunRecord
from sojourn.verbs.answers import document
from sojourn.verbs.context import Context
from sojourn.wire.errors import Misuse, SojournError

LAST_S = 15.0  # for messages that are still on their way when a watch ends
LINES = 12  # of one message


class NoChannel(Misuse):
    """No notification channel is set, in settings or in the run."""

    code = "no-channel"
    next_step = "sojourn notify --help"


@dataclass(frozen=True)
class Channel:
    """One channel. `label`: a form that may be shown; `url`: "" if `env:NAME` is not set here."""

    label: str
    url: str


@dataclass(frozen=True)
class Notified:
    """What `notify test` came to: (channel, "" or why it did not accept the message)."""

    channels: tuple[tuple[str, str], ...]

    @property
    def exit_status(self) -> int:
        """0: every channel took it; else 1."""
        return 1 if any(why for _, why in self.channels) else 0

    def as_json(self) -> dict[str, Any]:
        """The `notify` document."""
        told = [{"channel": label, "ok": not why, "why": why or None} for label, why in self.channels]
        return document(self, "notify", without=("channels",), channels=told, exit=self.exit_status)


def channels(ctx: Context, records: Iterable[RunRecord]) -> list[Channel]:
    """Those of settings, then those of the runs' job files, each once. Raises: BadSettings."""
    from sojourn.store.settings import read_settings

    named = dict.fromkeys(read_settings().notify)
    for record in records:
        named.update(dict.fromkeys(str(one) for one in record.local.get("notify") or ()))
    return [_channel(ctx, number, text) for number, text in enumerate(named, 1)]


def notify_test(ctx: Context, names: Sequence[str] = ()) -> Notified:
    """Send a message to every channel, of settings and of the runs named, and say which took it.

    Raises: Misuse (no-channel, no-notices, not-found, bad-settings).
    """
    from sojourn.backends import notify
    from sojourn.verbs.observe.status import chosen

    found = channels(ctx, chosen(ctx, names) if names else ())
    if not found:
        raise NoChannel()
    notify.check()
    set_ = [one for one in found if one.url]
    said = dict(zip([c.label for c in set_], notify.send([c.url for c in set_], "sojourn", "a test"), strict=True))
    return Notified(tuple((one.label, said.get(one.label, "its variable is not set here")) for one in found))


class Notices:
    """Sends to channels in the background, one message after another. `trouble` reports a failing channel once."""

    def __init__(self, found: Sequence[Channel]) -> None:
        self._channels = [one for one in found if one.url]
        self._told = {
            f"{one.label}: its variable is not set here; no message is sent there" for one in found if not one.url
        }
        self._new = sorted(self._told)
        self._pool: ThreadPoolExecutor | None = None
        self._sent: list[Future[list[str]]] = []

    def send(self, title: str, lines: Sequence[str]) -> None:
        """A message of these lines; the rest of too many is counted. Returns at once."""
        if not self._channels or not lines:
            return
        from sojourn.backends import notify

        body = "\n".join([*lines[:LINES], *([f"and {len(lines) - LINES} more"] if len(lines) > LINES else [])])
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1)
        urls = [one.url for one in self._channels]
        self._sent.append(self._pool.submit(notify.send, urls, title, body))

    def trouble(self) -> list[str]:
        """What is new about channels that did not take a message; never a URL."""
        for done in [future for future in self._sent if future.done()]:
            self._sent.remove(done)
            try:
                whys = done.result()
            except SojournError as error:
                whys = [error.message] * len(self._channels)
            for channel, why in zip(self._channels, whys, strict=True):
                line = f"{channel.label}: {why}"
                if why and line not in self._told:
                    self._told.add(line)
                    self._new.append(line)
        new, self._new = self._new, []
        return new

    def close(self) -> None:
        """Wait for what is on its way, LAST_S at most. Idempotent."""
        from concurrent.futures import wait

        if self._pool is not None:
            wait(self._sent, LAST_S)
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


def _channel(ctx: Context, number: int, text: str) -> Channel:
    kind, _, rest = text.partition(":")
    if kind == "env":
        return Channel(f"channel {number} ({text})", ctx.environ.get(rest, ""))
    return Channel(f"channel {number} ({kind})", text)
