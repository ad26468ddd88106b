"""The one HTTPS client of all providers: JSON both ways, time-outs, limits, no redirects, no repeated writes.

A reading call is repeated where that may help (429, 5xx, a lost connection) for as long as its deadline lets it; a call
that changes something is sent once. Not answering is a value.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

from sojourn.backends.client import limits, log
from sojourn.backends.client.keys import Key
from sojourn.core.values import NoAnswer
from sojourn.wire.errors import Misuse
from sojourn.wire.mask import Mask

CONNECT_S, READ_S, CALL_S = 10.0, 30.0, 60.0
LIMIT_BYTES = 16 << 20
FIRST_PAUSE_S, PAUSE_FACTOR, LAST_PAUSE_S = 0.5, 2.0, 8.0
LOGGED_CHARACTERS = 500  # of an error's body
AGAIN = frozenset((429, 500, 502, 503, 504))  # a reading call may be asked again
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
# (proxy, "" for none; where to) -> the connections there, which are used again. Providers are asked side by side.
_pools: dict[tuple[str, str], Any] = {}
_pools_lock = threading.Lock()
_patience_s: ContextVar[float] = ContextVar("patience_s", default=float("inf"))


@dataclass(frozen=True)
class Reply:
    """An answer. `body`: what its JSON says; None where it is empty or no JSON, which `is_json` tells apart from null.

    `headers`: by names in lower case.
    """

    status: int
    body: Any = None
    is_json: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_ok(self) -> bool:
        """2xx."""
        return 200 <= self.status < 300

    @property
    def fields(self) -> Mapping[str, Any]:
        """`body` where it is an object, else {}."""
        return self.body if isinstance(self.body, dict) else {}


@dataclass(frozen=True)
class Api:
    """One account of one provider. `base`: where its paths begin. `key`: asked for the key when the first call is made.

    `scheme`: what stands before the key in `Authorization`. `every_s`: class of endpoints -> least seconds between two
    calls; others have no limit of their own.
    """

    provider: str
    base: str
    key: Callable[[], Key]
    scheme: str = "Bearer "
    every_s: Mapping[str, float] = field(default_factory=dict)
    now_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def read(
        self,
        path: str,
        query: Mapping[str, Any] | None = None,
        *,
        body: Any = None,
        method: str = "GET",
        kind: str = "read",
        timeout_s: float = CALL_S,
    ) -> Reply | NoAnswer:
        """Ask something that changes nothing; again, until `timeout_s` is over, while the answer is one of `AGAIN` or
        does not come. Raises: NoKey, Misuse (an address that is not https).
        """
        until_s, pause_s = self.now_s() + min(timeout_s, _patience_s.get()), FIRST_PAUSE_S
        while True:
            answer = self._once(method, path, query, body, kind, until_s, is_change=False)
            if isinstance(answer, Reply):
                if answer.status not in AGAIN:
                    return answer
                told_s = limits.retry_after_s(answer.headers)
            else:
                told_s = None
            wait_s = max(pause_s, told_s or 0.0)
            if self.now_s() + wait_s >= until_s:
                return answer
            self.sleep(wait_s)
            pause_s = min(pause_s * PAUSE_FACTOR, LAST_PAUSE_S)

    def write(
        self, method: str, path: str, body: Any = None, *, kind: str = "write", timeout_s: float = CALL_S
    ) -> Reply | NoAnswer:
        """Ask for a change, once. NoAnswer with `sent` False: nothing can have arrived.

        Raises: NoKey, Misuse (an address that is not https).
        """
        return self._once(method, path, None, body, kind, self.now_s() + timeout_s, is_change=True)

    def _once(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        body: Any,
        kind: str,
        until_s: float,
        *,
        is_change: bool,
    ) -> Reply | NoAnswer:
        key, url = self.key(), self.base + path + ("?" + urlencode(query) if query else "")
        account, every_s = f"{self.base} {key.value}", self.every_s.get(kind, 0.0)
        limiter = limits.limiter(self.provider, account, kind, every_s, self.now_s, self.sleep)
        if not limiter.wait(until_s):
            return NoAnswer(sent=False, kind="limited", detail=f"{self.provider} asks to be called less often")
        began_s, mask = self.now_s(), Mask({key.name: key.value})
        if is_change:
            _pool(url).clear()  # a connection that its other end has closed meanwhile would leave a change in doubt
        answer = _sent(method, url, {"Authorization": self.scheme + key.value}, body, until_s - began_s, self.now_s)
        told: dict[str, object] = {"provider": self.provider, "method": method, "path": path}
        told["ms"] = round((self.now_s() - began_s) * 1000)
        if isinstance(answer, NoAnswer):
            log.write({**told, "no_answer": answer.kind, "sent": answer.sent, "detail": answer.detail}, mask)
            return answer
        if not answer.is_ok:
            told["said"] = json.dumps(answer.body)[:LOGGED_CHARACTERS]
        log.write({**told, "status": answer.status}, mask)
        if answer.status == 429:
            limiter.hold(limits.retry_after_s(answer.headers) or 0.0)
        return answer


@contextmanager
def patient_for(seconds: float) -> Iterator[None]:
    """Inside, in this thread, no reading call is repeated or waited for longer than this: somebody waits for it."""
    token = _patience_s.set(seconds)
    try:
        yield
    finally:
        _patience_s.reset(token)


def patience_s() -> float:
    """The most seconds that a reading call of this thread may take, infinity where nobody waits."""
    return _patience_s.get()


def address(url: str) -> str:
    """`url` without a slash at its end, if a key may travel there. Raises: Misuse."""
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise Misuse(detail=f"api = {url!r}: an API key is sent by https only")
    return url.rstrip("/")


def _sent(
    method: str, url: str, headers: Mapping[str, str], body: Any, timeout_s: float, now_s: Callable[[], float]
) -> Reply | NoAnswer:
    """One request, one answer. `timeout_s` is for all of it, however slowly its bytes come."""
    import ssl

    import urllib3

    until_s, pool = now_s() + timeout_s, _pool(url)
    plain = {"Accept": "*/*", "User-Agent": "sojourn", **headers}
    data = None
    if body is not None:
        data, plain["Content-Type"] = json.dumps(body).encode(), "application/json"
    timeout = urllib3.Timeout(connect=min(CONNECT_S, timeout_s), read=min(READ_S, timeout_s))
    try:
        answer = pool.request(
            method, url, body=data, headers=plain, timeout=timeout, retries=False, redirect=False, preload_content=False
        )
    except (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError) as error:
        return NoAnswer(sent=False, kind="refused", detail=_words(error))
    except urllib3.exceptions.SSLError as error:
        is_stranger = isinstance(error.args[0], ssl.SSLCertVerificationError)  # then nothing was said to it
        return NoAnswer(sent=not is_stranger, kind="tls", detail=_words(error))
    except urllib3.exceptions.HTTPError as error:
        is_slow = isinstance(error, urllib3.exceptions.TimeoutError)
        return NoAnswer(sent=True, kind="timeout" if is_slow else "reset", detail=_words(error))
    got = bytearray()
    try:
        while piece := answer.read1(1 << 16):
            got += piece
            if len(got) > LIMIT_BYTES or now_s() > until_s:
                answer.close()
                return NoAnswer(sent=True, kind="timeout", detail="its answer does not end")
        length = answer.headers.get("Content-Length", "")
        if length.isdecimal() and len(got) < int(length) and "Content-Encoding" not in answer.headers:
            return NoAnswer(sent=True, kind="reset", detail="its answer is cut off")
        answer.release_conn()
    except urllib3.exceptions.HTTPError as error:
        return NoAnswer(sent=True, kind="reset", detail=_words(error))
    named = {name.lower(): value for name, value in answer.headers.items()}
    try:
        return Reply(answer.status, json.loads(got), True, named)
    except (ValueError, RecursionError):
        return Reply(answer.status, None, False, named)


def _pool(url: str) -> Any:
    """The connections of this process to where `url` is, through the proxy that the environment names for it."""
    import urllib.request

    import urllib3

    parts = urlsplit(url)
    host = parts.hostname or ""
    is_direct = host in _LOOPBACK or urllib.request.proxy_bypass(host)
    proxy = "" if is_direct else urllib.request.getproxies().get(parts.scheme, "")
    where = proxy, f"{parts.scheme}://{parts.netloc}"
    with _pools_lock:
        if where not in _pools:
            _pools[where] = urllib3.ProxyManager(proxy) if proxy else urllib3.PoolManager(maxsize=4)
        return _pools[where]


def _words(error: Exception) -> str:
    """What went wrong, without addresses of objects."""
    return str(error).rpartition(": ")[2] or type(error).__name__
