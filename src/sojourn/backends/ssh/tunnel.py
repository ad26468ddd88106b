"""A port of a box, here: one separate `ssh -N -L`, known to be up, and gone when closed."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType

from sojourn.backends.ssh import argv as ssh_argv
from sojourn.backends.ssh import failures as ssh_failures
from sojourn.core.values import NoAnswer, Site

UP_S = 30.0  # from ssh's start until it forwards
TRIES = 3  # a free port may be taken before ssh gets it
LEAVE_S = 3.0
_LINES = 200


class Tunnel:
    """An active forwarding. `local_port`: its port here. Close it, or use it as a context manager."""

    def __init__(self, site: Site, local_port: int, child: subprocess.Popen[bytes], said: Said) -> None:
        self.site, self.local_port = site, local_port
        self._child, self._said = child, said

    def __enter__(self) -> Tunnel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def wait(self, limit_s: float) -> NoAnswer | None:
        """Wait until the connection breaks (returns why), or `limit_s` have passed (None)."""
        try:
            self._child.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None
        verdict = ssh_failures.broken(self._said.text(), self.site.address)
        return NoAnswer(True, verdict.kind, verdict.detail, verdict.next_step)

    def close(self) -> None:
        """End ssh. Idempotent; at most LEAVE_S."""
        _end(self._child)


class Said:
    """ssh's output, its last lines; messages about the forwarding go to `tell` at once."""

    def __init__(self, child: subprocess.Popen[bytes], tell: Callable[[str], None]) -> None:
        self._child, self._tell = child, tell
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def text(self) -> str:
        """The kept text; complete once ssh has ended."""
        if self._child.poll() is not None:
            self._thread.join(1.0)
        return "\n".join(self._lines)

    def _read(self) -> None:
        assert self._child.stderr
        for raw in self._child.stderr:
            line = raw.decode("utf-8", "replace").rstrip()
            self._lines.append(line)
            if "open failed" in line:
                self._tell(line)


def start(
    site: Site, port: int, local_port: int, tell: Callable[[str], None], host: str = "127.0.0.1"
) -> Tunnel | NoAnswer:
    """Forward `port` of `host`, as the box sees it, to `local_port` here, or to a free port if that is taken.

    `tell` gets ssh's message if nothing listens at the port there. Blocks for UP_S at most.
    Raises: BadSshAddress.
    """
    wanted = local_port
    for _ in range(TRIES):
        at = free_port(wanted)
        argv = ssh_argv.tunnel(site, at, port, host)
        try:
            child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        except FileNotFoundError:
            verdict = ssh_failures.state("no-ssh", "there is no `ssh` on this machine", site.address)
            return NoAnswer(False, verdict.kind, verdict.detail, verdict.next_step)
        said = Said(child, tell)
        try:
            why = _await_up(child, said, at)
        except BaseException:
            _end(child)
            raise
        if why == "":
            return Tunnel(site, at, child, said)
        _end(child)
        if why != "taken":
            verdict = ssh_failures.classify(said.text(), site.address)
            if why == "time":
                verdict = ssh_failures.state("timeout", f"no forwarding within {UP_S:g} s", site.address)
            return NoAnswer(False, verdict.kind, verdict.detail, verdict.next_step)
        wanted = 0
    verdict = ssh_failures.state("config", "ssh cannot listen on any port of 127.0.0.1 here", site.address)
    return NoAnswer(False, verdict.kind, verdict.detail, verdict.next_step)


def free_port(wanted: int) -> int:
    """`wanted` if nothing listens on it here, else any free port."""
    for port in (wanted, 0):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as ssh does: only a listener conflicts
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    return wanted


def listens(port: int, host: str = "127.0.0.1") -> bool:
    """Whether something answers at `port` of `host`, as seen from here."""
    try:
        with socket.create_connection((host, port), timeout=1.0):
            return True
    except OSError:
        return False


def _await_up(child: subprocess.Popen[bytes], said: Said, port: int) -> str:
    """Empty once it forwards; taken (another program has the port), ended, or time."""
    deadline = time.monotonic() + UP_S
    while time.monotonic() < deadline:
        text = said.text()
        if f"cannot listen to port: {port}" in text:
            return "taken"
        if child.poll() is not None:
            return "ended"
        # The listener is made after the login; anything that answers earlier is another program.
        if ssh_failures.is_authenticated(text) and listens(port):
            time.sleep(0.1)  # for its message about an unavailable port
            return "taken" if f"cannot listen to port: {port}" in said.text() else ""
        time.sleep(0.05)
    return "time"


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(LEAVE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
