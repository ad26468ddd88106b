"""Our own shared ssh connections: sockets in a short private folder. Being unable to share is never an error.

OpenSSH itself removes a dead master's socket and opens a separate connection when a master refuses another session;
that leaves us masters that hang, and the length of a socket's path.
"""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from pathlib import Path

from sojourn.backends.ssh import argv as ssh_argv
from sojourn.backends.ssh.argv import Line
from sojourn.core.values import Site

# sun_path holds 104 bytes on macOS (108 on Linux) including the final NUL; a socket being made has a suffix of 17
# bytes, and %C is 40. Source: OpenSSH 9.2 mux.c (muxserver_listen), ssh_config(5), 2026-11.
PATH_BYTES = 104
_NAME_BYTES = 1 + 8 + 1 + 40
_SUFFIX_BYTES = 17 + 1
ASK_S = 3.0


def folder() -> Path | None:
    """Our socket folder, 0700 and ours, created if needed; None if unavailable."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    places = [Path(runtime) / "sojourn"] if runtime.startswith("/") else []
    for place in [*places, Path("/tmp") / f"sojourn-{os.getuid()}"]:
        if len(os.fsencode(place)) + 1 + _NAME_BYTES + _SUFFIX_BYTES > PATH_BYTES:
            continue
        try:
            place.mkdir(mode=0o700, exist_ok=True)
            found = place.lstat()
        except OSError:
            continue
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not stat.S_IMODE(found.st_mode) & 0o077:
            return place
    return None


def control_path(site: Site, line: Line) -> str:
    """ControlPath for this site and line, or "" if we do not share connections.

    ssh's %C covers the resolved host, port and user, so a new port means a new socket; the address and the settings
    file are in the name as well, because before OpenSSH 9.4 two boxes with one address behind different jump hosts have
    the same %C.
    """
    if ssh_argv.sharing(site) != "own":
        return ""
    place = folder()
    return f"{place}/{_stem(site, line)}-%C" if place else ""


def is_shared(site: Site, line: Line) -> bool:
    """Whether a socket of ours for this site and line exists; its master may be dead or hang."""
    place = folder()
    return place is not None and any(place.glob(f"{_stem(site, line)}-*"))


def let_go(site: Site, line: Line) -> None:
    """No new sessions on the shared connection; current ones continue. For a master that does not answer. Idempotent,
    at most 3 s.
    """
    path = control_path(site, line)
    if path and not _tell_master("stop", path, ssh_argv.destination(site)):
        place = folder()
        for socket in place.glob(f"{_stem(site, line)}-*") if place else ():
            socket.unlink(missing_ok=True)


def hang_up(site: Site) -> None:
    """End the shared connections to this site now; otherwise they end by themselves when idle. Idempotent."""
    for line in (ssh_argv.POLL, ssh_argv.COPY):
        path = control_path(site, line)
        if path and is_shared(site, line):
            _tell_master("exit", path, ssh_argv.destination(site))


def hang_up_all() -> None:
    """End every shared connection of ours."""
    place = folder()
    for socket in sorted(place.iterdir()) if place else ():
        _tell_master("exit", str(socket).replace("%", "%%"), ["-F", "/dev/null", "any"])
        socket.unlink(missing_ok=True)


def _stem(site: Site, line: Line) -> str:
    text = f"{site.address}\0{os.path.abspath(ssh_argv.config(site))}\0{site.options.get('host_key_alias', '')}"
    return line.name + hashlib.sha256(os.fsencode(text)).hexdigest()[:8]


def _tell_master(word: str, path: str, destination: list[str]) -> bool:
    argv = [ssh_argv.SSH, "-O", word, "-o", f"ControlPath={path}", "-o", "LogLevel=QUIET", *destination]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=ASK_S)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
