"""What lasts longer than a request: watches, logs, and exec over WebSocket (v5 and v4 of channel.k8s.io)."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import select
import socket
import ssl
import struct
import subprocess
import time
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from tests.kube.nodes import ROOTLESS, user_of
from tests.kube.store import Kind, Object, Refused, selected

if TYPE_CHECKING:
    from tests.kube.cluster import Cluster

_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455


def watch(door: Any, cluster: Cluster, kind: Kind, namespace: str) -> None:
    """ADDED, MODIFIED, DELETED from a version on; an ERROR event where that is forgotten."""
    store, query = cluster.store, door.query
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    until_s = time.monotonic() + float(query.get("timeoutSeconds") or 300)
    door.send_response(200)
    door.send_header("Content-Type", "application/json")
    door.send_header("Transfer-Encoding", "chunked")
    door.end_headers()

    def say(word: str, value: Object) -> None:
        from tests.kube.serve import clean

        data = json.dumps({"type": word, "object": clean(value)}).encode() + b"\n"
        door.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        door.wfile.flush()

    with store.lock:
        version = int(query.get("resourceVersion") or 0)
        if not version:
            for one in store.all(kind.plural, namespace):
                if selected(one, labels, fields):
                    say("ADDED", one)
            version = store.version
            if query.get("sendInitialEvents") == "true":  # a list by way of a watch, as kubectl asks for
                meta = {"resourceVersion": str(version), "annotations": {"k8s.io/initial-events-end": "true"}}
                say("BOOKMARK", {"kind": kind.kind, "apiVersion": kind.api, "metadata": meta})
    while time.monotonic() < until_s and not cluster.is_frozen:
        try:
            for at, word, value in store.since(kind.plural, version):
                version = at
                if namespace in ("", value["metadata"].get("namespace")) and selected(value, labels, fields):
                    say(word, value)
        except Refused as no:
            say("ERROR", no.body)
            break
        with store.changed:
            store.changed.wait(0.2)
    door.wfile.write(b"0\r\n\r\n")
    door.close_connection = True


def serve(door: BaseHTTPRequestHandler, cluster: Cluster, namespace: str, name: str, sub: str) -> None:
    """A pod's log or exec. Raises: Refused."""
    query = parse_qs(urlsplit(door.path).query, keep_blank_values=True)
    pod = cluster.store.get("pods", namespace, name)
    names = [one["name"] for one in pod["spec"]["containers"]]
    container = (query.get("container") or [names[0]])[0]
    if container not in names:
        raise Refused(400, "BadRequest", f"container {container} is not valid for pod {name}")
    if sub == "exec" and door.headers.get("Upgrade", "").lower() != "websocket":
        raise Refused(400, "BadRequest", "Upgrade request required")
    status = next(iter(pod["status"].get("containerStatuses") or ()), {})
    waits = status.get("state", {}).get("waiting")
    if waits or not status:
        why = {"ErrImagePull": "image can't be pulled", "ImagePullBackOff": "trying and failing to pull image"}
        reason = (waits or {}).get("reason", "ContainerCreating")
        text = f'container "{container}" in pod "{name}" is waiting to start: {why.get(reason, reason)}'
        raise Refused(400, "BadRequest", text)
    lost = ""
    if pod["spec"].get("nodeName") in cluster.nodes.lost:
        lost = f"error dialing backend: dial tcp: lookup {pod['spec']['nodeName']}: i/o timeout"
    if sub == "log":
        if lost:
            raise Refused(500, "InternalError", f"Internal error occurred: {lost}")
        _log(door, cluster, pod, query)
        return
    if pod["status"].get("phase") in ("Succeeded", "Failed"):
        text = f"cannot exec into a container in a completed pod; current phase is {pod['status']['phase']}"
        raise Refused(400, "BadRequest", text)
    pid = cluster.nodes.pid(pod["metadata"]["uid"])
    if lost or not pid:  # read, not recorded: the API server upgrades first, and what the node says comes as a status
        _upgraded(door)
        text = lost or f'unable to upgrade connection: container not found ("{container}")'
        _told(door, f"Internal error occurred: {text}")
        return
    _exec(door, cluster, pod, pid, query["command"], has_stdin=query.get("stdin", [""])[0] in ("1", "true"))


def _log(door: Any, cluster: Cluster, pod: Object, query: dict[str, list[str]]) -> None:
    data = (cluster.folder / "pods" / pod["metadata"]["uid"] / "log").read_bytes()
    lines = data.splitlines(keepends=True)
    if "tailLines" in query:
        lines = lines[-int(query["tailLines"][0]) :] if int(query["tailLines"][0]) else []
    if query.get("timestamps", [""])[0] in ("1", "true"):
        at = time.strftime("%Y-%m-%dT%H:%M:%S.000000000Z ", time.gmtime()).encode()
        lines = [at + line for line in lines]
    data = b"".join(lines)
    if "limitBytes" in query:
        data = data[: int(query["limitBytes"][0])]
    door.send_response(200)
    door.send_header("Content-Type", "text/plain")
    door.send_header("Content-Length", str(len(data)))
    door.end_headers()
    door.wfile.write(data)


def _upgraded(door: Any) -> None:
    """Say 101. Raises: Refused (no subprotocol that is known)."""
    offered = [one.strip() for one in door.headers.get("Sec-WebSocket-Protocol", "").split(",")]
    protocol = next((one for one in offered if one in ("v5.channel.k8s.io", "v4.channel.k8s.io")), "")
    if not protocol:
        raise Refused(400, "BadRequest", "no subprotocol that is spoken here")
    key = base64.b64encode(hashlib.sha1((door.headers["Sec-WebSocket-Key"] + _GUID).encode()).digest()).decode()
    door.send_response(101)
    for name, value in (("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", key),
                        ("Sec-WebSocket-Protocol", protocol)):  # fmt: skip
        door.send_header(name, value)
    door.end_headers()
    door.wfile.flush()
    door.close_connection = True


def _told(door: Any, text: str) -> None:
    """A status on channel 3 of a command that never ran, then the end."""
    status = {"metadata": {}, "status": "Failure", "message": text, "reason": "InternalError",
              "details": {"causes": [{"message": text}]}, "code": 500}  # fmt: skip
    data = bytes([3]) + json.dumps(status).encode()
    door.wfile.write(b"\x82\x7e" + struct.pack("!H", len(data)) + data + b"\x88\x02" + struct.pack("!H", 1000))
    door.wfile.flush()


def _exec(door: Any, cluster: Cluster, pod: Object, pid: int, argv: list[str], *, has_stdin: bool) -> None:
    _upgraded(door)
    env = cluster.nodes._env(pod)
    words = ["nsenter", "-t", str(pid), *(["-U", "--preserve-credentials"] if ROOTLESS else []), "-m", "-p", "-u"]
    if user := user_of(pod):
        words += ["-S", str(user), "-G", str(user), "--wd=/"]
    child = subprocess.Popen(
        [*words, *argv], env=env, stdin=subprocess.PIPE if has_stdin else subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    Channels(door.connection, child, cluster).run()


class Channels:
    """The frames of one exec, in one thread. Where the connection is cut the command keeps running, as recorded."""

    def __init__(self, sock: Any, child: subprocess.Popen[bytes], cluster: Cluster) -> None:
        self.sock, self.child, self.cluster = sock, child, cluster
        self.out, self.into, self.got = bytearray(), bytearray(), bytearray()
        self.is_cut = self.is_closed = self.stdin_ends = False
        sock.settimeout(0.0)
        assert child.stdout and child.stderr
        self.pipes: dict[Any, int] = {child.stdout: 1, child.stderr: 2}
        for pipe in (*self.pipes, child.stdin):
            if pipe:
                os.set_blocking(pipe.fileno(), False)

    def run(self) -> None:
        """Until the command has ended and all was sent."""
        ended_s = 0.0
        while self.pipes or self.child.poll() is None:
            if self.child.poll() is not None:
                ended_s = ended_s or time.monotonic()
                if time.monotonic() - ended_s > 3.0:  # a child of its that holds the pipes holds a real exec longer
                    break
            self._once(0.02 if ended_s else 0.1)
        self._end(self.child.wait())
        deadline_s = time.monotonic() + 10
        while self.out and not self.is_cut and time.monotonic() < deadline_s:
            self._once(0.1)
        self.sock.settimeout(2.0)
        with contextlib.suppress(OSError):
            if hasattr(self.sock, "unwrap") and not self.is_cut:
                self.sock.unwrap()
        for pipe in (*self.pipes, self.child.stdin):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _once(self, wait_s: float) -> None:
        reads: list[Any] = [pipe for pipe in self.pipes if len(self.out) < 1 << 18 or self.is_cut]
        writes: list[Any] = []
        if not self.is_cut:
            if not self.is_closed and len(self.into) < 1 << 18:
                reads.append(self.sock)
            if self.out:
                writes.append(self.sock)
        if self.into and self.child.stdin:
            writes.append(self.child.stdin)
        has_more = self.sock in reads and getattr(self.sock, "pending", lambda: 0)()
        ready, free, _ = select.select(reads, writes, [], 0 if has_more else wait_s)
        for pipe in [one for one in ready if one in self.pipes]:
            self._from(pipe)
        if self.sock in ready or has_more:
            self._receive()
        if self.child.stdin in free or (self.stdin_ends and not self.into):
            self._feed()
        if self.out and not self.is_cut:
            self._send()

    def _from(self, pipe: Any) -> None:
        channel = self.pipes[pipe]
        data = os.read(pipe.fileno(), 1 << 15)
        if not data:
            pipe.close()
            del self.pipes[pipe]
            return
        for fault in list(self.cluster.faults):
            if fault("STREAM", str(channel)) == "cut":
                self.is_cut = True
                with contextlib.suppress(OSError):
                    self.sock.shutdown(socket.SHUT_RDWR)
        self._frame(2, bytes([channel]) + data)

    def _end(self, rc: int) -> None:
        status: Object = {"metadata": {}, "status": "Success"}
        if rc:
            code = rc if rc > 0 else 128 - rc
            causes = [{"reason": "ExitCode", "message": str(code)}]
            text = f"command terminated with non-zero exit code: exit status {code}"
            status = {"metadata": {}, "status": "Failure", "message": text, "reason": "NonZeroExitCode",
                      "details": {"causes": causes}}  # fmt: skip
        self._frame(2, bytes([3]) + json.dumps(status).encode())
        self._frame(8, struct.pack("!H", 1000))

    def _frame(self, opcode: int, data: bytes) -> None:
        size = len(data)
        more = bytes([size]) if size < 126 else struct.pack("!BH", 126, size)
        if size >= 1 << 16:
            more = struct.pack("!BQ", 127, size)
        if not self.is_cut:
            self.out += bytes([0x80 | opcode]) + more + data

    def _send(self) -> None:
        try:
            del self.out[: self.sock.send(self.out[: 1 << 16])]
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return
        except OSError:
            self.is_cut = True

    def _receive(self) -> None:
        try:
            data = self.sock.recv(1 << 16)
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return
        except OSError:
            data = b""
        if not data:
            self.is_cut = self.stdin_ends = True
            return
        self.got += data
        while (frame := self._next()) is not None:
            opcode, body = frame
            if opcode == 9:
                self._frame(10, body)
            elif opcode == 8:
                self.is_closed = self.stdin_ends = True
            elif body[:1] == b"\xff":
                self.stdin_ends = True
            elif body[:1] == b"\0":
                self.into += body[1:]

    def _feed(self) -> None:
        pipe = self.child.stdin
        if pipe is None or pipe.closed:
            self.into.clear()
            return
        try:
            if self.into:
                del self.into[: os.write(pipe.fileno(), self.into[: 1 << 16])]
        except BlockingIOError:
            return
        except OSError:
            self.into.clear()
            self.stdin_ends = True
        if self.stdin_ends and not self.into:
            with contextlib.suppress(OSError):
                pipe.close()
            self.child.stdin = None

    def _next(self) -> tuple[int, bytes] | None:
        """The next whole frame; fragments are frames of their own here, which is enough for two clients."""
        if len(self.got) < 2:
            return None
        size, at = self.got[1] & 0x7F, 2
        if size >= 126:
            width = 2 if size == 126 else 8
            size, at = int.from_bytes(self.got[2 : 2 + width], "big"), 2 + width
        masked = 4 if self.got[1] & 0x80 else 0
        if len(self.got) < at + masked + size:
            return None
        mask, data = bytes(self.got[at : at + masked]) or bytes(4), bytes(self.got[at + masked : at + masked + size])
        opcode = self.got[0] & 0x0F
        del self.got[: at + masked + size]
        key = (mask * (size // 4 + 1))[:size]
        return opcode, (int.from_bytes(data, "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big")
