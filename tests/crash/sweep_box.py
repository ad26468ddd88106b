"""A box of the sweep campaign: a real sshd on loopback and a small disk of its own, and what may go wrong with it.

The disk is a tmpfs in a mount namespace that an idle process holds, so that nothing of it outlives the trial.
Needs root and openssh-server.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.crash import judge
from tests.ending import processes
from tests.spine.conftest import alive

DISK_MIB = 96  # preflight wants some 70
HOLD = """
set -e
mount -t tmpfs tmpfs /run && mkdir /run/sshd
printf 'root:*:19000:0:99999:7:::\\n' > /run/shadow && mount --bind /run/shadow /etc/shadow
mount -t tmpfs -o size={size}m,mode=700 tmpfs {base}
: > {ready}
exec sleep 3600
"""


class RealBox:
    """One box. `heal` undoes every fault; killing everything with this HOME ends it."""

    def __init__(self, name: str, folder: Path, home: Path, keys: Path) -> None:
        self.name, self.home, self._keys = name, home, keys
        self.base = folder / f"base-{name}"
        self._folder, self._config = folder, folder / f"ssh-{name}.conf"
        self.base.mkdir()
        self.port = 0
        self._started: list[subprocess.Popen[bytes]] = []
        env = {**os.environ, "HOME": str(home)}
        ready = folder / f"ready-{name}"
        script = HOLD.format(size=DISK_MIB, base=self.base, ready=ready)
        argv = ["unshare", "-m", "--propagation", "private", "sh", "-c", script]
        null = subprocess.DEVNULL
        self._anchor = subprocess.Popen(argv, env=env, stdin=null, stdout=null, start_new_session=True)
        deadline_s = time.monotonic() + 240
        while not ready.exists():
            assert time.monotonic() < deadline_s and self._anchor.poll() is None, "the box's disk was not made"
            time.sleep(0.01)
        self._namespace = namespace(self._anchor.pid)
        self.begin_sshd(free_port())

    @property
    def disk(self) -> Path:
        """Its base as seen from outside."""
        return Path(f"/proc/{self._anchor.pid}/root{self.base}")

    def settings(self) -> str:
        """Its table in the user's settings."""
        return (
            f'[sites.{self.name}]\ntransport = "ssh"\naddress = "{self.name}"\nbase = "{self.base}"\n'
            f'python = "{sys.executable}"\nssh_config = "{self._config}"\n'
        )

    def tell_port(self) -> None:
        """The user writes the port as it is now into their ssh settings."""
        lines = [
            f"Host {self.name}", "HostName 127.0.0.1", f"Port {self.port}", "User root",
            f"IdentityFile {self._keys}/user", "IdentitiesOnly yes", "StrictHostKeyChecking accept-new",
            f"UserKnownHostsFile {self._folder}/known-{self.name}",
        ]  # fmt: skip
        aside = self._config.with_suffix(".new")
        aside.write_text("\n".join(lines) + "\n")
        os.replace(aside, self._config)

    def begin_sshd(self, port: int) -> None:
        """Listen on `port`, and tell the user."""
        self.port = port
        path = self._folder / f"sshd-{self.name}.conf"
        carried = [f"HOME={self.home}"]
        carried += [f"{name}={os.environ[name]}" for name in ("SOJOURN_TEST_SESSION",) if name in os.environ]
        path.write_text(
            f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {self._keys}/host\nPidFile none\nStrictModes no\n"
            f"AuthorizedKeysFile {self._keys}/user.pub\nUsePAM no\nMaxStartups 100\nPermitRootLogin yes\n"
            f"SetEnv {' '.join(carried)}\n"
        )
        env = {**os.environ, "HOME": str(self.home)}
        argv = ["nsenter", f"--mount=/proc/{self._anchor.pid}/ns/mnt", "/usr/sbin/sshd", "-D", "-f", str(path)]
        null = subprocess.DEVNULL
        self._started.append(
            subprocess.Popen(argv, env=env, stdin=null, stdout=null, stderr=null, start_new_session=True)
        )
        deadline_s = time.monotonic() + 240
        while not answers(port):
            assert time.monotonic() < deadline_s, "sshd does not listen"
            time.sleep(0.02)
        self.tell_port()

    def close(self) -> None:
        """End all that lives here; sshd writes over its environment, so nobody else finds it."""
        for pid in self._inside():
            send(pid, signal.SIGKILL)
        for started in (*self._started, self._anchor):
            started.kill()
            started.wait(120)

    @property
    def _listener(self) -> int:
        return self._started[-1].pid

    def daemons(self) -> list[int]:
        """The listener and its sessions, those too of one that was killed before."""
        return [pid for pid in self._inside() if b"sshd" in command(pid).split(b"\0")[0] and alive(pid)]

    def _inside(self) -> list[int]:
        """Every process in the box's mount namespace."""
        return [pid for pid in processes() if namespace(pid) == self._namespace]

    def events(self, run: str = "*") -> list[dict[str, Any]]:
        """What keepers wrote down here, of one run or of all."""
        return [event for path in (self.disk / "runs").glob(f"{run}/events.jsonl") for event in judge.lines(path)]

    def keepers(self, what: str) -> list[int]:
        """Living keepers here of `runs` or `queues`, as they signed."""
        found = []
        for path in (self.disk / what).glob("*/keeper.json"):
            try:
                pid = int(json.loads(path.read_text())["pid"])
            except (OSError, ValueError):
                continue
            if b"keeper-" in command(pid) and f"{self.base}/{what}/".encode() in command(pid) and alive(pid):
                found.append(pid)
        return found

    def prey(self, kind: str) -> list[int]:
        """What a fault of this kind would befall now; [] where there is nothing, and it has to wait."""
        if kind in ("keeper", "queue"):
            return self.keepers("runs" if kind == "keeper" else "queues")[:1]
        if kind == "reset":
            return [pid for pid in self.daemons() if pid != self._listener]
        return [pid for pid in self.daemons() if kind != "port" or pid == self._listener]

    def begin(self, kind: str) -> int:
        """Let it go wrong; how many processes were killed or stopped, or bytes filled: 0 where it befell nothing."""
        if kind == "disk":
            return self._fill()
        hit = sum(send(pid, signal.SIGSTOP if kind == "stall" else signal.SIGKILL) for pid in self.prey(kind))
        if kind == "port":
            self.port = 0
        return hit

    def heal(self, kind: str) -> None:
        """Undo it. Idempotent."""
        if kind == "stall":
            for pid in self.daemons():
                send(pid, signal.SIGCONT)
        if kind in ("sshd", "port") and not alive(self._listener):  # or another fault's end has begun it again
            self.begin_sshd(self.port or free_port())
        if kind == "disk":
            (self.disk / "filler").unlink(missing_ok=True)

    def _fill(self) -> int:
        with open(self.disk / "filler", "ab", buffering=0) as file:
            for size in (1 << 20, 4096, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    continue
            return file.tell()


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def answers(port: int) -> bool:
    """Somebody listens there."""
    try:
        socket.create_connection(("127.0.0.1", port), 1.0).close()
    except OSError:
        return False
    return True


def make_keys(folder: Path) -> None:
    """A host's and a user's key."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("host", "user"):
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, timeout=120)


def command(pid: int) -> bytes:
    """Its arguments, NUL between them."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def namespace(pid: int) -> int:
    """What names its mount namespace, 0 where it is gone."""
    try:
        return os.stat(f"/proc/{pid}/ns/mnt").st_ino
    except OSError:
        return 0


def send(pid: int, number: int) -> bool:
    """Whether it was there to be sent a signal."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
