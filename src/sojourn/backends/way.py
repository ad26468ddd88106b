"""The way to a place: the transport that its site names."""

from __future__ import annotations

from sojourn import backends
from sojourn.core.ports import Transport
from sojourn.core.values import Place


def way(place: Place) -> Transport:
    """The transport that came with the place, else a new one; connects to nothing yet. Raises: NoBackend."""
    found: Transport = place.way or backends.get("transport", place.site.transport)(place)
    return found
