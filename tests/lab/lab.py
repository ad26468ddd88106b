"""The laboratory as Python values: boxes with a real sshd, their faults, and the namespace from which alone they
can be reached.

A machine has places for a few laboratories; a session takes a free one when it loads this module, and has it to itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

HERE = Path(__file__).resolve().parent
PLACES = 8  # laboratories that one machine can have at once


def _take_place() -> tuple[Path, IO[str] | None]:
    """The first free place and its lock, held until this process ends; place 0 without a lock where none is free."""
    for number in range(PLACES):
        folder = Path(f"/tmp/sojourn-lab{number or ''}")
        lock = open(f"{folder}.lock", "w")  # noqa: SIM115
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return folder, lock
        except BlockingIOError:
            lock.close()
    return Path("/tmp/sojourn-lab"), None


FOLDER, _lock = _take_place()
SJ = "sj" + FOLDER.name.removeprefix("sojourn-lab")  # names of namespaces and cgroups, as in the script `boxes`
CLIENT = Path(f"/run/netns/{SJ}-cli")
NEEDS = {
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "ip": "iproute2",
    "nft": "nftables",
    "ethtool": "ethtool",
    "mkfs.ext4": "e2fsprogs",
    "tcsh": "tcsh",
    "fish": "fish",
    "zsh": "zsh",
    "busybox": "busybox",
}
CLONE_NEWNET = 0x40000000
CLEAR = """
for p in /proc/[0-9]*; do
  [ "$p" = /proc/$$ ] || case "$(readlink $p/cwd) $(tr '\\0' ' ' < $p/cmdline)" in
    */root/.local/*) kill -9 ${p#/proc/} ;;
  esac
done 2> /dev/null
rm -rf /root/.local
"""


def missing() -> str:
    """Why there can be no laboratory here, or nothing."""
    if os.geteuid() != 0:
        return "the laboratory needs root"
    places = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    absent = sorted(package for command, package in NEEDS.items() if not shutil.which(command, path=places))
    return "missing Debian packages: " + " ".join(absent) if absent else ""


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """Have the place for us alone; waits where all were taken when this module was loaded."""
    if _lock:
        yield
        return
    with open(f"{FOLDER}.lock", "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def client_namespace() -> Iterator[None]:
    """Move this thread, and so everything it starts meanwhile, to where only the boxes are.

    Only the network namespace changes. os.setns would do it from Python 3.12 on.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    inside = os.open(CLIENT, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(inside, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
        yield
    finally:
        if libc.setns(before, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns back")
        os.close(inside)
        os.close(before)


def boxes(*words: str, timeout_s: float = 300.0, **knobs: str) -> str:
    """Run the script `boxes`; what it printed. Raises: CalledProcessError, TimeoutExpired."""
    done = subprocess.run(
        [str(HERE / "boxes"), *words],
        env={**os.environ, "LAB": str(FOLDER), **knobs},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    if done.returncode:
        print(done.stderr, file=sys.stderr)  # the error itself shows none of it
        raise subprocess.CalledProcessError(done.returncode, ["boxes", *words], done.stdout, done.stderr)
    return done.stdout


@dataclass(frozen=True)
class Box:
    """One box. Every fault is undone by `heal`, every extra sshd and user by `power_off` and `power_on`."""

    number: int

    @property
    def address(self) -> str:
        """Where its sshd listens, at port 22."""
        return f"10.213.0.{10 + self.number}"

    def sh(self, script: str, timeout_s: float = 120.0) -> str:
        """Run a shell script as root inside, without ssh; what it printed."""
        return boxes("sh", str(self.number), "sh", "-ec", script, timeout_s=timeout_s)

    def fault(self, verb: str, *words: str) -> None:
        """`cut`, `blackhole`, `refuse`, `loss PCT`, `rate MBIT`, `drop-conns [PORT]`, `power-off`, `new-hostkey`."""
        boxes(verb, str(self.number), *words)

    def wire(self, **limits: float | str) -> None:
        """A slow line: `delay` and `jitter` in ms one way, `loss` in percent, `rate` in Mbit/s, `flap`="ON,OFF"
        in seconds.
        """
        words = [word for name, value in limits.items() for word in (f"--{name}", str(value))]
        subprocess.run(
            [sys.executable, str(HERE / "wire"), "up", str(self.number), *words],
            env={**os.environ, "LAB": str(FOLDER)},
            stdin=subprocess.DEVNULL,
            check=True,
            timeout=120,
        )

    def memory(self, spare_bytes: int) -> None:
        """Let the box have this much more memory than it uses now; 0 for as much as it began with. Needs cgroup
        v1.
        """
        group = Path(f"/sys/fs/cgroup/memory/{SJ}-b{self.number}")
        (group / "memory.force_empty").write_text("0")
        limit_bytes = int((group / "memory.usage_in_bytes").read_text()) + spare_bytes if spare_bytes else 1 << 30
        (group / "memory.limit_in_bytes").write_text(str(limit_bytes))

    def clear(self) -> None:
        """End every keeper and training process of ours inside, and delete root's `.local`."""
        self.sh(CLEAR)

    def heal(self) -> None:
        """Undo `cut`, `blackhole`, `refuse`, `loss`, `rate` and `wire`; switch it on where it is off."""
        if (FOLDER / f"wire.{self.number}").exists():
            words = [sys.executable, str(HERE / "wire"), "down", str(self.number)]
            subprocess.run(words, env={**os.environ, "LAB": str(FOLDER)}, check=True, timeout=120)
        boxes("heal", str(self.number))
        boxes("power-on", str(self.number))
        listening = subprocess.run(["ip", "netns", "exec", f"{SJ}-b{self.number}", "ss", "-ltn"], capture_output=True)
        if b":22 " not in listening.stdout:  # its sshd was ended, by want of memory perhaps, and the box lives
            boxes("power-off", str(self.number))
            boxes("power-on", str(self.number))

    def sshd(self, port: int, *lines: str) -> None:
        """A second sshd inside, with settings of its own (they win over the box's). Gone with the box.

        It leaves for the background before it listens: so we wait until it does.
        """
        config = "\\n".join([f"Port {port}", f"PidFile /run/sshd-{port}.pid", *lines]).replace("'", "'\\''")
        keys = "|".join(line.split()[0] for line in lines) or "Port"  # sshd takes the first or the last, it depends
        self.sh(
            f"printf '{config}\\n' > /etc/ssh/box_config_{port};"
            f"grep -viE '^({keys}) ' /etc/ssh/box_config >> /etc/ssh/box_config_{port};"
            f"[ ! -e /run/sshd-{port}.pid ] || kill $(cat /run/sshd-{port}.pid);"
            f"while ss -ltn | grep -q ':{port} '; do sleep 0.05; done;"
            f"/usr/sbin/sshd -f /etc/ssh/box_config_{port} -E /var/log/sshd-{port}.log;"
            f"until ss -ltn | grep -q ':{port} '; do sleep 0.05; done"
        )

    def user(self, name: str, shell: str) -> None:
        """Add a user who may log in with the laboratory's key."""
        self.sh(
            f"id {name} >/dev/null 2>&1 || useradd -m -p '*' -s {shell} {name};"
            f"mkdir -p /home/{name}/.ssh; cp /root/.ssh/authorized_keys /home/{name}/.ssh/;"
            f"chown -R {name} /home/{name}"
        )

    def processes(self, pattern: str) -> list[str]:
        """Command lines inside that hold `pattern`."""
        listing = self.sh("ps -ww -eo args")
        return [line for line in listing.splitlines() if pattern in line]


@dataclass(frozen=True)
class Lab:
    """What a session gets."""

    boxes: tuple[Box, ...]

    @property
    def folder(self) -> Path:
        """Holds `key`, `known_hosts` and the `ssh_config` with one alias `boxN` for each box."""
        return FOLDER / "boxes"
