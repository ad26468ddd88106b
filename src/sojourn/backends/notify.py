"""Messages to a person through apprise: ntfy, mail, chats and the like, each a URL. Nothing of a URL is ever told."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from sojourn.wire.errors import Misuse

SERVICE_S = 10.0  # for one channel to take one message


class NoNotices(Misuse):
    """Notifications need apprise, which is not installed."""

    code = "no-notices"
    next_step = "pip install 'sojourn[notify]'"


def check() -> None:
    """Raises: NoNotices where the library is missing. Loads nothing."""
    from importlib.util import find_spec

    if find_spec("apprise") is None:
        raise NoNotices()


def send(urls: Sequence[str], title: str, body: str) -> list[str]:
    """One message to each channel, one after the other; for each "" or, in words without the URL, why it did not go.

    Plain text. Bounded by about SERVICE_S a channel.   Raises: NoNotices.
    """
    try:
        import apprise
    except ImportError as error:
        raise NoNotices() from error

    log = logging.getLogger("apprise")  # what it logs may hold a channel's name, address or key
    log.propagate, log.handlers = False, [logging.NullHandler()]
    return [_one(apprise, url, title, body) for url in urls]


def _one(apprise: object, url: str, title: str, body: str) -> str:
    made = apprise.AppriseAsset(  # type: ignore[attr-defined]
        app_id="sojourn",
        app_desc="sojourn",
        storage_mode="memory",
        service_timeout=SERVICE_S,
    )
    one = apprise.Apprise(asset=made)  # type: ignore[attr-defined]
    if not one.add(url):
        return "apprise does not support this channel"
    return "" if one.notify(title=title, body=body, body_format="text") else "it did not accept the message"
