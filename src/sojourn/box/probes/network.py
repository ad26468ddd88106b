"""Interfaces with their MTU, what the host's own name resolves to, and the listener on each port."""

from __future__ import annotations

import os
import socket

from sojourn.box.run import orphans
from sojourn.box.run.attempt_context import AttemptContext
from sojourn.box.system import bounded, machine, process, raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List

_FOLDER = "/sys/class/net"
_LISTENS = "0A"
_ROWS = 200
_RESOLVE_S = 0.6


def collect(context: AttemptContext) -> Dict[str, raw.Entry]:
    """`interfaces`: "name mtu N state speed" (Mbit/s); `resolve`: own name and its addresses; `listening`: "port pid
    comm run", with "-" for a process we may not inspect, and for one outside runs."""
    return {"interfaces": _interfaces(), "resolve": _resolved(), "listening": _listening()}


def _interfaces() -> raw.Entry:
    try:
        names = sorted(os.listdir(_FOLDER))
    except OSError as error:
        return raw.refused(error)
    rows = []
    for name in names:
        mtu, state, speed = (_first("%s/%s/%s" % (_FOLDER, name, what)) for what in ("mtu", "operstate", "speed"))
        rows.append("%s mtu %s %s %s" % (name, mtu, state, speed))
    return raw.lines(rows, _ROWS)


def _first(path: str) -> str:
    return str(raw.read_entry(path, 256)["stdout"]).strip() or "-"  # a link that is down has no readable speed


def _resolved() -> raw.Entry:
    """In a child: it asks a name server if the name is not in /etc/hosts."""
    name = machine.host()
    answer = bounded.ask([bounded.Question("resolve", _own_addresses, _RESOLVE_S)], in_group=True)["resolve"]
    if answer.why == bounded.LATE:
        return raw.text("", raw.NO_ANSWER, answer.detail)
    if answer.why or not answer.value:
        return raw.text("%s\n" % name, 2, answer.detail)
    return raw.text("%s %s\n" % (name, " ".join(answer.value)))


def _own_addresses() -> List[str]:
    return sorted({str(row[4][0]) for row in socket.getaddrinfo(machine.host(), None)})


def _listening() -> raw.Entry:
    ports: Dict[str, int] = {}  # socket inode -> port
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in raw.read_entry(path, 1 << 20)["stdout"].splitlines()[1:]:
            words = line.split()
            if len(words) > 9 and words[3] == _LISTENS:
                ports[words[9]] = int(words[1].rpartition(":")[2], 16)
    held = {port: "%d - - -" % port for port in ports.values()}
    for pid in process.all_pids() if ports else ():
        for inode in _sockets(pid):
            if inode in ports:
                held[ports[inode]] = "%d %d %s %s" % (
                    ports[inode],
                    pid,
                    orphans.comm_of(pid),
                    orphans.run_of(pid) or "-",
                )
    return raw.lines([held[port] for port in sorted(held)], _ROWS)


def _sockets(pid: int) -> List[str]:
    folder = "/proc/%d/fd" % pid
    found = []
    try:
        for name in os.listdir(folder):
            link = os.readlink(folder + "/" + name)
            if link.startswith("socket:["):
                found.append(link[8:-1])
    except OSError:
        return found
    return found
