"""Saves a campaign the starts of interpreters: the same code, in a process that has it loaded already.

A call of the keeper is answered by a fork of a process that holds the very keeper file; what it starts (keepers,
payloads) is started as ever. Files are loaded in a child that serves one pull after the other.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from sojourn.backends.keeper import bootstrap
from sojourn.backends.proof import loading, proof
from sojourn.core.values import Ended, NoAnswer

SERVER = """
import json, os, signal, socket, sys
sys.path.insert(0, sys.argv[1])
import sojourn.box.main, sojourn.box.call

for op in ("about", "begin", "clean", "files", "hello", "intent", "roots", "since", "survey", "code"):
    try:
        __import__("sojourn.box.ops." + op)
    except ImportError:
        pass
door = socket.socket(socket.AF_UNIX)
door.bind(sys.argv[2])
door.listen(16)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
sys.stdout.write("ready\\n")
sys.stdout.flush()
while True:
    line, _ = door.accept()
    if os.fork():
        line.close()
        continue
    door.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    asked, fds, _, _ = socket.recv_fds(line, 1 << 20, 3)
    pid = os.fork()
    if pid:
        line.sendall(json.dumps(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
        os._exit(0)
    line.close()
    asked = json.loads(asked)
    os.setsid()
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
    os.environ.clear()
    os.environ.update(asked["environ"])
    sys.argv = [asked["keeper"], "call"]
    sys.path[0] = asked["keeper"]
    try:
        rc = sojourn.box.main.main(["call"])
        sys.stdout.flush()
    except BaseException:
        import traceback
        traceback.print_exc()
        rc = 1
    sys.stderr.flush()
    os._exit(rc or 0)
"""


class Answering:
    """A process that answers calls of one keeper file. Ends with us."""

    def __init__(self, keeper: Path) -> None:
        self.name = keeper.name
        self._folder = tempfile.mkdtemp(prefix="law-")
        self._door = os.path.join(self._folder, "door")
        argv = [sys.executable, "-I", "-S", "-c", SERVER, str(keeper), self._door]
        self._child = subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        assert self._child.stdout is not None and self._child.stdout.readline() == b"ready\n"
        atexit.register(self.close)

    def close(self) -> None:
        """End it. Idempotent."""
        self._child.kill()
        self._child.wait()
        if self._child.stdout:
            self._child.stdout.close()
        if os.path.exists(self._door):
            os.unlink(self._door)
            os.rmdir(self._folder)

    def takes(self, argv: Sequence[str]) -> bool:
        """Whether these are the words of a call of this very keeper, which is where it must be."""
        is_call = len(argv) == 7 and argv[2] == bootstrap.SHORT
        return is_call and argv[5] == self.name and os.path.exists(f"{argv[4]}/keepers/{self.name}")

    def call(
        self,
        argv: Sequence[str],
        environ: Mapping[str, str],
        *,
        stdin: bytes = b"",
        timeout_s: float = 30.0,
        limit_bytes: int = 16 << 20,
    ) -> Ended | NoAnswer:
        """What `sh -c SHORT ...` would have come to."""
        began_s = time.monotonic()
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            given.write(stdin)
            given.seek(0)
            asked = json.dumps({"keeper": f"{argv[4]}/keepers/{self.name}", "environ": dict(environ)}).encode()
            with socket.socket(socket.AF_UNIX) as line:
                line.settimeout(timeout_s)
                line.connect(self._door)
                socket.send_fds(line, [asked], [given.fileno(), out.fileno(), err.fileno()])
                try:
                    rc = int(line.recv(64) or b"70")
                except TimeoutError:
                    return NoAnswer(sent=True, kind="timeout", detail=f"no end within {timeout_s:g} s")
            out.seek(0)
            err.seek(0)
            return Ended(rc, out.read(limit_bytes), err.read(limit_bytes), time.monotonic() - began_s)


class _Kept(loading.Loading):
    """Loading that goes on after a command has left it."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        return


def keep_loading() -> None:
    """From now on, in this process, all commands load with the same child."""
    kept: list[_Kept] = []

    def one(processes: int, **more: Any) -> _Kept:
        if not kept:
            kept.append(_Kept(1, **more))
            atexit.register(lambda: loading.Loading.__exit__(kept[0], None, None, None))
        return kept[0]

    proof.Loading = one  # type: ignore[attr-defined,assignment]
