"""A box for tests: a base folder with the packed keeper in it, real keepers started on real roots, and cleaning up."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable

from sojourn.box.run.root import Root
from sojourn.box.system.members import holders, of_attempt
from sojourn.box.system.process import is_alive
from sojourn.store import parcel
from sojourn.wire import atomic, events, framing, manifest

PATIENCE_S = 240.0  # a hang guard


class Rig:
    """One box. `python` runs its keepers; `base` has spaces, quotes, a newline and letters beyond ASCII in it."""

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        self.base = folder / 'a b\'s "box"\nn\u00e4chste'
        self.python = python
        name, data = parcel.keeper_bytes()
        self.keeper = self.base / "keepers" / name
        self.keeper.parent.mkdir(parents=True)
        self.keeper.write_bytes(data)
        self.started: list[subprocess.Popen[bytes]] = []
        self.within: list[str] = []  # what keepers are started by: `nsenter ...`, a shell that joins a control group
        (folder / "tmp").mkdir()
        self.env = dict(os.environ, TMPDIR=str(folder / "tmp"))
        self.env.pop("PYTHONPATH", None)  # a payload has that of its keeper behind its own

    def call(self, op: str, **fields: Any) -> dict[str, Any]:
        """One call; its JSON answer, with the byte frames as `blobs`."""
        request = framing.pack_json(dict(fields, op=op))
        argv = [*self.within, self.python, "-I", "-S", str(self.keeper), "call"]
        done = subprocess.run(argv, input=request, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr.decode()
        frames = list(framing.frames(done.stdout))
        answer: dict[str, Any] = frames[0][1]
        answer["blobs"] = [data for _, data in frames[1:]]
        return answer

    def place(self, script: str = "true", run: str = "r", attempt: int = 1, **spec: Any) -> Root:
        """Make a run whose script is bash, with short beats; nothing is started. `spec`: other fields of run.json."""
        fields: dict[str, Any] = {
            "schema": "sojourn/run/v1",
            "run": run,
            "name": run,
            "argv": ["bash", "-eo", "pipefail", "-c", script],
            "outputs": [],
            "keeper": self.keeper.name,
            "grace_s": 30.0,  # no payload is killed for being slow to hear its signal
            "beat_s": 0.1,
            "identity": "same",
        }
        fields.update(spec)
        answer = self.call("place", run=fields, want={"attempt": attempt, "by": "run", "token": "t"})
        assert answer["ok"], answer
        return Root(answer["root"])

    def supervise(self, root: Root, python: str | None = None) -> subprocess.Popen[bytes]:
        """Start a keeper on a root."""
        program = [python or self.python, "-I", "-S", str(self.keeper)]
        argv = [*self.within, *program, "supervise", "--root", root.path]
        with open(os.path.join(root.logs, "keeper.log"), "ab") as log:
            child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env)
        self.started.append(child)
        return child

    def finish(self, root: Root) -> dict[str, Any]:
        """Start a keeper, wait until it has nothing left to do; the last `ended` event."""
        keeper = self.supervise(root)
        assert keeper.wait(PATIENCE_S) == 0, keeper_log(root)
        return found(root, "ended")[-1]

    def evidence(self, root: Root, **fields: Any) -> dict[str, Any]:
        """What the call `bundle` says of the newest attempt."""
        answer = self.call("bundle", run=root.id, **fields)
        assert answer["ok"], answer
        told: dict[str, Any] = answer["evidence"]
        return told

    def snapshot(self, files: dict[str, bytes], executable: tuple[str, ...] = ()) -> str:
        """Push files as a snapshot; its digest."""
        import io
        import tarfile

        rows = []
        pack = io.BytesIO()
        with tarfile.open(fileobj=pack, mode="w") as tar:
            for path, data in sorted(files.items()):
                role = "x" if path in executable else "f"
                rows.append(
                    {"path": path, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "role": role}
                )
                entry = tarfile.TarInfo(path)
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
        digest = manifest.roster_digest(rows)
        staging = self.base / "staging"
        staging.mkdir(exist_ok=True)
        (staging / "pack.tar").write_bytes(pack.getvalue())
        answer = self.call("unpack", tar=str(staging / "pack.tar"), digest=digest, roster=rows)
        assert answer["ok"], answer
        return digest

    def close(self) -> None:
        """End everything that lives on this box."""
        for path in (self.base / "runs").glob("*"):
            root = Root(str(path))
            keeper = atomic.read_json(root.keeper) or {}
            watchers: set[int] = set()
            if is_alive(keeper.get("pid", 0), keeper.get("start", 0)):
                watchers.add(keeper["pid"])
            victims: set[int] = set()
            for number in range(1, 9):
                shim = (atomic.read_json(root.begun(number)) or {}).get("shim") or {}
                if is_alive(shim.get("pid", 0), shim.get("start", 0)):
                    watchers.add(shim["pid"])
                victims.update(of_attempt(root.path, number, 0, set()))
            kill(watchers, signal.SIGKILL)  # before what they watch: nobody is to write down how that ended
            kill(victims | set(holders(root.payload_lock)), signal.SIGKILL)
        for child in self.started:
            if child.poll() is None:
                child.kill()
            child.wait(PATIENCE_S)


def all_events(root: Root) -> list[dict[str, Any]]:
    """Every whole event."""
    try:
        with open(root.events, "rb") as f:
            return events.parse(f.read())[0]
    except FileNotFoundError:
        return []


def found(root: Root, kind: str) -> list[dict[str, Any]]:
    """Every event of one kind."""
    return [event for event in all_events(root) if event["kind"] == kind]


def until(what: Callable[[], Any], patience_s: float = PATIENCE_S) -> Any:
    """Wait for something to come true; its value. A file that it reads may come later too."""
    deadline = time.monotonic() + patience_s
    while True:
        with contextlib.suppress(FileNotFoundError):
            value = what()
            if value:
                return value
        assert time.monotonic() < deadline, "waited %s s in vain" % patience_s
        time.sleep(0.01)


def heard(root: Root, kind: str, count: int = 1) -> dict[str, Any]:
    """Wait for the `count`-th event of a kind; that event."""
    return until(lambda: found(root, kind)[count - 1 :])[0]


def kill(pids: set[int], number: int = signal.SIGKILL) -> None:
    """Send a signal to each that is still there."""
    for pid in pids:
        if pid > 1:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue


def gone(pid: int) -> bool:
    """No process runs under this pid."""
    return not is_alive(pid, 0)


def keeper_log(root: Root) -> str:
    """What keepers of this root said."""
    return Path(root.logs, "keeper.log").read_text(errors="replace")


def log(root: Root, attempt: int = 1) -> str:
    """What the payload said."""
    return Path(root.log(attempt)).read_text(errors="replace")


def shown(value: Any) -> str:
    """JSON, for failures."""
    return json.dumps(value, indent=1, ensure_ascii=False)
