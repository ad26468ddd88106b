"""A command in a container of a pod, over the API: WebSocket, subprotocol v5.channel.k8s.io, one thread.

One socket is read and written in turn and never by two threads, which TLS does not bear. Where the connection is cut
the command keeps running there, and what it came to is not known.
Source: kubernetes.io/docs/reference/using-api/api-concepts, k8s.io/apimachinery remotecommand constants (2026-11).
"""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from sojourn.backends.kube.api import BUSY, Api
from sojourn.backends.kube.api import seconds as api_number
from sojourn.core.values import NoAnswer
from sojourn.wire.errors import WorldError

PROTOCOL = "v5.channel.k8s.io"  # the first that says where stdin ends; servers from 1.30 on have it
_STDIN, _STDOUT, _STDERR, _STATUS = 0, 1, 2, 3
_CLOSE_STDIN = bytes((255, _STDIN))
_PIECE = 1 << 15
_HELD = 1 << 17  # bytes that may wait to be sent
_HANDSHAKE_S = 15.0  # for a server that is busy, or a node that is not reached
_STATUS_BYTES = 1 << 16
_PING_S = 20.0  # of silence: proxies and load balancers before an API server cut lines that are idle for a minute
# An API server upgrades the connection first and then asks the node, so that these come as the command's status.
# Source: k8s.io/apiserver pkg/util/proxy/streamtranslator.go, k8s.io/kubelet pkg/cri/streaming (2026-11).
_NO_CONTAINER = ("container not found", "completed pod", "CONTAINER_EXITED", "no running task found")
_NO_NODE = ("error dialing backend", "unable to upgrade connection", "error sending request")
Sink = Callable[[bytes], None]


class OldCluster(WorldError):
    """{context} runs Kubernetes older than 1.30, which cannot signal the end of a command's input."""

    code = "old-cluster"
    next_step = "use a cluster of 1.30 or newer"


class NoSuchPod(WorldError):
    """{context}: {message}."""

    code = "no-such-pod"
    retry = True


@dataclass
class _Talk:
    """One conversation on an open socket."""

    sock: Any
    source: BinaryIO
    out: Sink
    err: Sink
    socket: Any  # a wsproto connection
    to_send: bytearray = field(default_factory=bytearray)
    status: bytearray = field(default_factory=bytearray)
    channel: int | None = None
    is_fed: bool = False
    is_over: bool = False


def run(
    api: Api,
    pod: str,
    container: str,
    argv: Sequence[str],
    *,
    stdin: BinaryIO,
    out: Sink,
    err: Sink,
    timeout_s: float,
    quiet_s: float = float("inf"),
) -> int | NoAnswer:
    """Run argv in a container and return its exit status. Blocks for `timeout_s` and a few seconds at the most.

    What `stdin` and the sinks raise ends the call. Raises: NotAllowed, NoSuchPod, OldCluster, ApiRefused.
    """
    params: list[tuple[str, str]] = [("command", word) for word in argv]
    params += [("container", container), ("stdin", "true"), ("stdout", "true"), ("stderr", "true")]
    began_s = time.monotonic()
    opened = _opened(api, api.path("pods", pod, "exec"), params, min(timeout_s, _HANDSHAKE_S))
    if isinstance(opened, NoAnswer):
        return opened
    response, sock, early = opened
    try:
        import wsproto

        connection = wsproto.connection.Connection(wsproto.ConnectionType.CLIENT)
        talk = _Talk(sock, stdin, out, err, connection)
        sock.settimeout(0.0)
        if early:
            _heard(talk, early)
        return _moved(talk, began_s + timeout_s, timeout_s, quiet_s, argv[0], api.access.context)
    finally:
        sock.settimeout(2.0)
        response.close()


def _moved(
    talk: _Talk, deadline_s: float, timeout_s: float, quiet_s: float, program: str, context: str
) -> int | NoAnswer:
    import wsproto

    moved_s = pinged_s = time.monotonic()
    while not talk.is_over:
        now_s = time.monotonic()
        if now_s >= deadline_s or now_s - moved_s > quiet_s:
            waited_s = min(timeout_s, quiet_s)
            return NoAnswer(sent=True, kind="timeout", detail=f"not finished within {waited_s:g} s: {program}")
        _fill(talk)
        if now_s - max(moved_s, pinged_s) > _PING_S and not talk.to_send:
            talk.to_send += talk.socket.send(wsproto.events.Ping())
            pinged_s = now_s
        has_more = bool(getattr(talk.sock, "pending", lambda: 0)())
        wait_s = 0.0 if has_more else min(deadline_s - now_s, quiet_s, 1.0)
        ready, free, _ = select.select([talk.sock], [talk.sock] if talk.to_send else [], [], wait_s)
        if ready or has_more:
            data = _received(talk.sock)
            if data == b"":
                break
            if data and _heard(talk, data):
                moved_s = time.monotonic()
        if free and talk.to_send:
            sent = _sent(talk.sock, talk.to_send)
            if sent is None:  # it takes no more; how the command ended may still be there to read
                talk.to_send.clear()
                talk.is_fed = True
            moved_s = time.monotonic() if sent and not talk.is_fed else moved_s
    return _result(bytes(talk.status), context)


def _opened(
    api: Api, path: str, params: Sequence[tuple[str, str]], timeout_s: float
) -> tuple[Any, Any, bytes] | NoAnswer:
    """(the answer to close, its socket, what came along with it)."""
    import base64

    import httpcore2
    import httpx2

    deadline_s, pause_s, is_fresh = time.monotonic() + timeout_s, 0.2, False
    while True:
        headers = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
            "Sec-WebSocket-Protocol": PROTOCOL,
        }
        client = api.client()
        request = client.build_request(
            "GET", path, params=params, headers=headers, timeout=timeout_s, extensions=api.extensions
        )
        try:
            response = client.send(request, stream=True)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError, httpx2.PoolTimeout) as error:
            return api.no_answer(error, sent=False)
        except httpx2.HTTPError as error:
            return api.no_answer(error, sent=True)
        if response.status_code == 101:
            break
        try:
            content = response.read()
        except httpx2.HTTPError:
            content = b""
        response.close()
        if response.status_code == 401 and not is_fresh:
            api.renew()
            is_fresh = True
            continue
        wait_s = max(pause_s, api_number(response.headers.get("Retry-After")))
        if response.status_code in BUSY and b"container not found" not in content:
            if time.monotonic() + wait_s < deadline_s:  # nothing was run
                time.sleep(wait_s)
                pause_s *= 2
                continue
        return _refused(api, response.status_code, content, path)
    if response.headers.get("Sec-WebSocket-Protocol") != PROTOCOL:
        response.close()
        raise OldCluster(context=api.access.context)
    stream = response.extensions["network_stream"]
    try:
        early = stream.read(_PIECE, timeout=0.001)
    except httpcore2.ReadTimeout:
        early = b""
    except (httpcore2.NetworkError, httpcore2.ProtocolError, OSError) as error:
        response.close()
        return NoAnswer(sent=True, kind="reset", detail=f"{api.access.server}: {error}")
    return response, stream.get_extra_info("socket"), early


def _refused(api: Api, status: int, content: bytes, path: str) -> NoAnswer:
    """Raises: NoSuchPod, NotAllowed, ApiRefused."""
    words = api.refusal(status, content, "POST", path)
    said = words.fields.get("message", words.message)
    if status == 401:
        return api.no_credentials()
    if status in (404, 400) or "container not found" in said:
        raise NoSuchPod(context=api.access.context, message=said)
    if status in BUSY:
        return NoAnswer(sent=False, kind="busy", detail=f"{api.access.context}: {said}")
    raise words


def _fill(talk: _Talk) -> None:
    """Take more of the input where little waits to be sent."""
    import wsproto

    while not talk.is_fed and len(talk.to_send) < _HELD:
        data = talk.source.read(_PIECE)
        body = bytes((_STDIN,)) + data if data else _CLOSE_STDIN
        talk.is_fed = not data
        talk.to_send += talk.socket.send(wsproto.events.BytesMessage(data=body))


def _heard(talk: _Talk, data: bytes) -> bool:
    """Frames to where they belong; whether any of them was more than an answer to a ping.

    A message may come in parts, and its first byte is the channel.
    """
    import wsproto

    talk.socket.receive_data(data)
    has_more = False
    for event in talk.socket.events():
        has_more = has_more or not isinstance(event, wsproto.events.Pong)
        if isinstance(event, wsproto.events.Ping):
            talk.to_send += talk.socket.send(event.response())
        elif isinstance(event, wsproto.events.CloseConnection):
            talk.is_over = True
        elif isinstance(event, (wsproto.events.BytesMessage, wsproto.events.TextMessage)):
            body = event.data.encode() if isinstance(event.data, str) else bytes(event.data)
            if talk.channel is None and body:
                talk.channel, body = body[0], body[1:]
            if talk.channel == _STDOUT and body:
                talk.out(body)
            elif talk.channel == _STDERR and body:
                talk.err(body)
            elif talk.channel == _STATUS and len(talk.status) < _STATUS_BYTES:
                talk.status += body
            if event.message_finished:
                talk.is_over = talk.is_over or talk.channel == _STATUS
                talk.channel = None
    return has_more


def _received(sock: Any) -> bytes | None:
    """What came; b"" where the other side is gone, None where nothing is there yet."""
    import ssl

    try:
        return bytes(sock.recv(1 << 16))
    except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return None
    except OSError:
        return b""


def _sent(sock: Any, data: bytearray) -> int | None:
    """Bytes that went, taken from `data`; None where the other side is gone."""
    import ssl

    try:
        count = int(sock.send(data[: 1 << 16]))
    except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return 0
    except OSError:
        return None
    del data[:count]
    return count


def _result(status: bytes, context: str) -> int | NoAnswer:
    """The exit status, from the Status object of channel 3. Raises: NoSuchPod."""
    try:
        said = json.loads(status)
    except ValueError:
        return NoAnswer(sent=True, kind="reset", detail="the connection to the pod was cut; the command may still run")
    if said.get("status") == "Success":
        return 0
    causes = (said.get("details") or {}).get("causes") or ()
    code = next((str(one.get("message")) for one in causes if one.get("reason") == "ExitCode"), "")
    if code.isdigit():
        return int(code)
    text = str(said.get("message") or "the pod ran no command")[:400]
    if any(word in text for word in _NO_CONTAINER):
        raise NoSuchPod(context=context, message=text)
    is_unsent = any(word in text for word in _NO_NODE)  # the node was never reached, so nothing ran
    return NoAnswer(sent=not is_unsent, kind="busy" if is_unsent else "no-exec", detail=f"{context}: {text}")
