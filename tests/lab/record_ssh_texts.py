"""Writes tests/backends/ssh_texts anew: what this machine's ssh prints for each fault, one folder a kind.

Run by hand as root: `python -m tests.lab.record_ssh_texts`. Files whose name begins with `source-` are texts of
other versions of OpenSSH, taken from its source; they are left alone.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from sojourn.backends.bounds import Keep
from sojourn.backends.ssh import argv as ssh_argv
from sojourn.backends.ssh import talk as ssh_talk
from sojourn.backends.ssh.argv import Line
from sojourn.core.values import Site
from tests.lab import faults, lab
from tests.lab.lab import Box

TEXTS = Path(__file__).resolve().parent.parent / "backends/ssh_texts"
QUICK = Line("p", alive_s=1, alive_count=2, persist_s=60)
OWN = (
    "UserKnownHostsFile {hosts}\nStrictHostKeyChecking accept-new\nIdentityFile {key}\nIdentitiesOnly yes\nUser root\n"
)


def said(address: str, config: str, *, command: str = "true", timeout_s: float = 12.0, path: str = "") -> str:
    """What one ssh process writes on stderr, and what the box says before our command, or in the middle of it."""
    with tempfile.NamedTemporaryFile("w", suffix=".ssh_config") as f:
        f.write(config)
        f.flush()
        site = Site("box", transport="ssh", address=address, options={"ssh_config": f.name})
        nonce = ssh_argv.nonce()
        argv = ssh_argv.argv(site, QUICK, control_path=path, nonce=nonce, timeout_s=3)
        program = ssh_argv.program(["sh", "-c", command], nonce)
        limits = ssh_talk.Limits(timeout_s)
        out, err = Keep(1 << 20), Keep(1 << 20)
        told = ssh_talk.talk(argv, nonce, program, b"", out, err, limits, is_shared=bool(path))
    return "\n".join(text for text in (told.said, told.tail, told.chatter) if text).replace(
        f.name, "/home/u/.ssh/config"
    )


def midway(box: Box, config: str, *verb: str) -> str:
    """What ssh says when the fault comes while a command runs."""
    timer = threading.Timer(1.0, box.fault, verb)
    timer.start()
    text = said("box1", config, command="sleep 20")
    timer.join()
    box.heal()
    return text


def record(box: Box, key: Path, scratch: Path) -> dict[str, Callable[[], str]]:
    """Slug, with its kind in front, of every fault, and how to make it."""
    (scratch / "empty").touch()
    own = OWN.format(hosts=scratch / "hosts", key=key)
    box1 = f"Host box1\n HostName {box.address}\n{own}"
    stranger = box1.replace(str(key), str(scratch / "stranger"))
    unknown = box1.replace("accept-new", "yes").replace(str(scratch / "hosts"), str(scratch / "empty"))
    ask = unknown.replace("Checking yes", "Checking ask")
    changed = box1.replace(str(scratch / "hosts"), str(scratch / "changed"))
    jump = f"Host far\n HostName 10.213.0.12\n ProxyJump jump\n{own}\nHost jump\n HostName {box.address}\n{own}"

    def during(verb: str) -> Callable[[], str]:
        def run() -> str:
            box.fault(verb)
            try:
                return said("box1", box1)
            finally:
                box.heal()

        return run

    def port(number: int, *lines: str) -> Callable[[], str]:
        def run() -> str:
            box.sshd(number, *lines)
            return said(f"box1:{number}", box1)

        return run

    def against(answer: Callable[..., None]) -> Callable[[], str]:
        def run() -> str:
            with faults.server(answer) as number:
                return said(f"127.0.0.1:{number}", own)

        return run

    def full() -> str:
        box.sshd(2201, "MaxStartups 2:100:2")
        with faults.held_logins(box.address, 2201, 2):
            return said("box1:2201", box1)

    def no_route() -> str:
        subprocess.run(["ip", "route", "add", "unreachable", "10.99.0.0/16"], check=True)
        return said("10.99.0.1", own)

    return {
        "config/bad-option": lambda: said("box1", "NoSuchOption yes\n" + box1),
        "config/missing-argument": lambda: said("box1", "Port\n" + box1),
        "host-key/changed": lambda: said("box1", changed),
        "host-key/unknown-strict": lambda: said("box1", unknown),
        "host-key/unknown-ask": lambda: said("box1", ask),
        "auth/wrong-key": lambda: said("box1", stranger),
        "auth/no-such-user": lambda: said("nobody-there@box1", box1),
        "auth/too-many-failures": port(2202, "MaxAuthTries 0"),
        "auth/at-the-jump-host": lambda: said("far", jump.replace(str(key), str(scratch / "stranger"))),
        "name/no-such-host": lambda: said("no-such-box.invalid", own),
        "kex/no-common-method": port(2203, "KexAlgorithms diffie-hellman-group14-sha1"),
        "proxy/jump-host-refuses": lambda: said("far", jump.replace(box.address, f"{box.address}\n Port 2299")),
        "proxy/box-behind-refuses": lambda: said("far", jump.replace("10.213.0.12", "10.213.0.12\n Port 2299")),
        "name/no-such-jump-host": lambda: said("far", jump.replace(box.address, "no-such-jump.invalid")),
        "proxy/no-such-command": lambda: said("far", f"Host far\n ProxyCommand no-such-command %h\n{own}"),
        "banner/silent": against(faults.silent),
        "banner/web-server": against(faults.garbage),
        "busy/max-startups": full,
        "busy/reset-at-once": against(faults.slam),
        "refused/closed-port": lambda: said("box1:2299", box1),
        "refused/reset-by-firewall": during("refuse"),
        "timeout/cut": during("cut"),
        "timeout/blackhole": during("blackhole"),
        "timeout/cut-midway": lambda: midway(box, box1, "cut"),
        "no-route/network": lambda: said("192.0.2.1", own),
        "no-route/host": no_route,
        "reset/connection-killed-midway": lambda: midway(box, box1, "drop-conns"),
        "reset/refused-midway": lambda: midway(box, box1, "refuse"),
        "reset/power-off-midway": lambda: midway(box, box1, "power-off"),
        "relay/sftp-only": port(2204, "ForceCommand internal-sftp"),
        "mux/path-too-long": lambda: said("box1", box1, path=f"/tmp/{'x' * 110}"),
    }


def main() -> None:
    """Record all."""
    with lab.locked(), tempfile.TemporaryDirectory(prefix="sj-") as scratch:
        lab.boxes("down")
        lab.boxes("up", "2")
        os.environ["HOME"] = scratch
        try:
            with lab.client_namespace():
                make_keys(Path(scratch))
                write_all(record(Box(1), lab.FOLDER / "boxes/key", Path(scratch)), scratch)
        finally:
            lab.boxes("down")


def make_keys(scratch: Path) -> None:
    """A key that no box knows, and a host key that is not the box's."""
    for name in ("stranger", "other"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", scratch / name], check=True)
    words = (scratch / "other.pub").read_text().split()
    (scratch / "changed").write_text(f"{Box(1).address} {words[0]} {words[1]}\n")


def write_all(texts: dict[str, Callable[[], str]], scratch: str) -> None:
    """One file a fault."""
    for slug, make in texts.items():
        began = time.monotonic()
        text = make().replace(str(lab.FOLDER / "boxes/key"), "/home/u/.ssh/id").replace(scratch, "/home/u/.ssh")
        path = TEXTS / f"{slug}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
        print(f"--- {slug}  {time.monotonic() - began:.1f} s\n{text}")


if __name__ == "__main__":
    main()
