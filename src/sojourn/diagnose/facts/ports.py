"""Which port a run could not have, and who has it: its log says the one, the table of listeners the other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sojourn.diagnose.facts import processes
from sojourn.diagnose.grammar import Known

_TAKEN = re.compile(r"(?i)address already in use|EADDRINUSE|errno:? 98\b|\bport \d+ is (?:already )?in use")
# torch's TCPStore, Python's own, uvicorn and gRPC, ssh -L.
_NAMED = re.compile(
    r"(?i)\bport[:= ]+(\d{2,5})\b|\('[^']*', (\d{2,5})\)|(?:\d\.\d+\.\d+|\]|localhost|\*|::):(\d{2,5})\b"
)
_GIVEN = re.compile(r"(?:MASTER_PORT=|--master[-_]port[= ]|--rdzv[-_]endpoint[= ]\S*:|--port[= ])(\d{2,5})\b")


def taken(log: str, probes: Mapping[str, Any], launch: Mapping[str, Any]) -> dict[str, Known]:
    """`net.port_wanted` and `net.port_holder`, where a line of the log says that an address is in use."""
    lines = [line for line in log.splitlines() if _TAKEN.search(line)]
    if not lines:
        return {}
    wanted, source = _wanted(lines, probes, launch)
    found = {"net.port_wanted": Known(wanted, source)}
    listeners = probes.get("listening")
    if wanted is not None and isinstance(listeners, Mapping) and not listeners.get("rc"):
        found["net.port_holder"] = Known(
            _holder(wanted, listeners, probes), "probe listening", str(listeners.get("at"))
        )
        if listeners.get("cut") and found["net.port_holder"].value is None:
            del found["net.port_holder"]
    return found


def _wanted(lines: list[str], probes: Mapping[str, Any], launch: Mapping[str, Any]) -> tuple[int | None, str]:
    for line in lines:
        if named := _NAMED.search(line):
            return int(next(group for group in named.groups() if group)), "the log"
    environ = next((told for name, told in probes.items() if name.endswith("/environ")), None)
    argv = launch.get("argv")
    for text, source in (
        (str(environ.get("stdout") or "") if isinstance(environ, Mapping) else "", "probe environ"),
        (" ".join(map(str, argv)) if isinstance(argv, list) else "", "launch record"),
    ):
        if given := _GIVEN.search(text):
            return int(given.group(1)), source
    return None, "the log"


def _holder(port: int, listeners: Mapping[str, Any], probes: Mapping[str, Any]) -> str | None:
    tree = probes.get("process tree")
    own = processes.rows_of(str(tree.get("stdout") or "")) if isinstance(tree, Mapping) else None
    for line in str(listeners.get("stdout") or "").splitlines():
        number, pid, comm, run = [*line.split(), "-", "-", "-"][:4]
        if number == str(port):
            if pid == "-":
                return "a process of another user"
            if any(row["pid"] == pid for row in own or ()):
                return f"pid {pid} ({comm}), of this very run"
            return f"pid {pid} ({comm})" + (f", of the run {run}" if run != "-" else "")
    return None
