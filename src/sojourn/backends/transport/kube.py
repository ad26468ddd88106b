"""A namespace of a Kubernetes cluster: commands and files over the API, in a small pod on the site's claim.

The site's address is CONTEXT or CONTEXT/NAMESPACE of the kubeconfig. `[sites.NAME.kube]`: `claim` (default sojourn),
`reader_image` (any with sh and a Python 3.8 or newer), `reader_pod` (more fields of that pod).
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Sequence
from typing import BinaryIO

from sojourn.backends.bounds import Flood, Keep, flooded
from sojourn.backends.kube import api as kube_api
from sojourn.backends.kube import command, names, reader
from sojourn.backends.transport import _copies as copies
from sojourn.core.values import Ended, NoAnswer, Place

WORDS_BYTES = 1 << 16
QUIET_S = 60.0
_PAUSE_S = 0.2


class Backend:
    """Transport `kube`. Holds nothing but the place; any other one finds the same pod."""

    is_alone = True  # nobody else logs in to a pod, and the modes of its claim are the cluster's

    def __init__(self, place: Place) -> None:
        """Asks nobody yet."""
        self._site, self._address = place.site, place.address

    def call(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0, limit_bytes: int = 16 << 20
    ) -> Ended | NoAnswer:
        """As the port says. A command ended by a signal has status 128 + its number."""
        out, err = Keep(limit_bytes), Keep(limit_bytes)
        began_s = time.monotonic()
        rc = self._run(argv, io.BytesIO(stdin), out, err, timeout_s)
        if isinstance(rc, NoAnswer):
            return rc
        seconds = time.monotonic() - began_s
        return Ended(rc, bytes(out.kept), bytes(err.kept), seconds, bool(out.dropped_bytes or err.dropped_bytes))

    def stream(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | BinaryIO = b"",
        out: Callable[[bytes], None],
        timeout_s: float = 600.0,
        quiet_s: float = float("inf"),
    ) -> Ended | NoAnswer:
        """As `core.streams` says."""
        source = io.BytesIO(stdin) if isinstance(stdin, bytes) else stdin
        err, began_s = Keep(WORDS_BYTES), time.monotonic()
        rc = self._run(argv, source, out, err, timeout_s, quiet_s)
        if isinstance(rc, NoAnswer):
            return rc
        return Ended(rc, b"", bytes(err.kept), time.monotonic() - began_s, bool(err.dropped_bytes))

    def put(self, local: str, remote: str, *, timeout_s: float = 600.0) -> None | NoAnswer:
        """As the port says; goes on where an earlier one broke off. Raises: NoSuchFile (here), NotCopied, OSError."""
        return copies.put(self._words, self._site.name, local, remote, timeout_s)

    def get(
        self, remote: str, local: str, *, offset: int = 0, timeout_s: float = 600.0, limit_bytes: int | None = None
    ) -> int | NoAnswer:
        """As the port says. After a NoAnswer the local file may have grown by good bytes: go on at its new size.

        Raises: NoSuchFile, NotCopied (it may not be read), OSError (the local file).
        """
        return copies.get(self._streamed, self._site.name, remote, local, offset, timeout_s, limit_bytes)

    def _words(self, argv: list[str], source: bytes | BinaryIO, timeout_s: float) -> Ended | NoAnswer:
        out, err, began_s = Keep(WORDS_BYTES), Keep(WORDS_BYTES), time.monotonic()
        given = io.BytesIO(source) if isinstance(source, bytes) else source
        rc = self._run(argv, given, out, err, timeout_s, QUIET_S)
        if isinstance(rc, NoAnswer):
            return rc
        return Ended(rc, bytes(out.kept), bytes(err.kept), time.monotonic() - began_s)

    def _streamed(self, argv: list[str], out: Callable[[bytes], None], timeout_s: float) -> Ended | NoAnswer:
        return self.stream(argv, out=out, timeout_s=timeout_s, quiet_s=QUIET_S)

    def _run(
        self,
        argv: Sequence[str],
        stdin: BinaryIO,
        out: Callable[[bytes], None],
        err: Callable[[bytes], None],
        timeout_s: float,
        quiet_s: float = float("inf"),
    ) -> int | NoAnswer:
        """The exit status. A reader that is not there is made, and then asked: it cannot have run anything."""
        api = kube_api.of_site(self._site, self._address)
        words = ["sh", "-c", reader.CALLED, "sojourn", *argv]
        key = (api.access.server, api.access.namespace, reader.name(self._site))
        for is_last in (False, False, True):
            if key not in _known:
                found = reader.ready(api, self._site)
                if isinstance(found, NoAnswer):
                    return found
                _known.add(key)
            try:
                return command.run(
                    api, key[2], names.READER, words, stdin=stdin, out=out, err=err, timeout_s=timeout_s,
                    quiet_s=quiet_s,
                )  # fmt: skip
            except Flood:
                return flooded(sent=True)
            except command.NoSuchPod as no:
                _known.discard(key)
                if is_last:
                    return NoAnswer(sent=False, kind="no-pod", detail=no.message)
                time.sleep(_PAUSE_S)
        raise AssertionError("unreachable")


_known: set[tuple[str, str, str]] = set()  # readers that ran when this process last looked
