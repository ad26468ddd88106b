"""Processes on a box that hold a card, or are left over of our runs: each with whose it is, and the proof of that."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sojourn.diagnose.facts import cards, processes
from sojourn.diagnose.facts.table import number
from sojourn.verbs.answers import document

PROBE = "device holders"


@dataclass(frozen=True)
class Holder:
    """One process. `kind`: run (part of a live run), orphan, system, unproven; `why`: the proof, or what is missing.

    `name`: PID@START, what a person types to end it: a number alone may be another process by then. `gpu_bytes`: what
    the driver says it holds, None where it does not list it (in containers it lists nobody).
    """

    name: str
    pid: int
    start: int
    uid: int
    comm: str
    state: str
    cpu_s: float
    age_s: float | None
    devices: tuple[str, ...]
    kind: str
    why: str
    run: str = ""
    gpu_bytes: int | None = None

    def as_json(self) -> dict[str, Any]:
        """One element of `holders`."""
        return document(self)

    @property
    def words(self) -> str:
        """What it is, in half a line."""
        what = ", ".join(self.devices) or "no card"
        return f"{self.name} {self.comm}, {what}"


def read_holders(probes: Mapping[str, Any]) -> tuple[tuple[Holder, ...], int]:
    """(what the probes of a box tell of holders, orphans first; how many processes could not be looked into)."""
    told = probes.get(PROBE) or {}
    used = _used(probes)
    rows = processes.rows_of(str(told.get("stdout") or "")) or ()
    found = [_holder(row, used) for row in rows if _is_told(row)]
    listed = {one.pid for one in found}
    found += [_stranger(pid, size) for pid, size in used.items() if pid not in listed]
    said = told.get("hidden")
    hidden = (said if isinstance(said, int) else 0) + len(rows) - sum(map(_is_told, rows))
    return tuple(sorted(found, key=lambda one: (_KINDS.index(one.kind), one.pid))), hidden


_WHOLE, _SECONDS = re.compile(r"-?[0-9]{1,18}"), re.compile(r"-?[0-9]{1,12}(\.[0-9]{1,9})?")
_KINDS = ("orphan", "unproven", "run", "system")


def _is_told(row: Mapping[str, str]) -> bool:
    """Whether the row names one process. One that does not counts as one that could not be looked into."""
    if not {"pid", "start", "uid", "comm", "state", "cpu_s", "devices"} <= row.keys():
        return False
    age_s = row.get("age_s", "-")
    return (
        all(_WHOLE.fullmatch(row[name]) for name in ("pid", "start", "uid"))
        and bool(_SECONDS.fullmatch(row["cpu_s"]))
        and (age_s == "-" or bool(_SECONDS.fullmatch(age_s)))
        and row.get("kind", "-") in (*_KINDS, "-")
    )


def _holder(row: Mapping[str, str], used: Mapping[int, int]) -> Holder:
    cell = {name: "" if value == "-" else value for name, value in row.items()}
    pid, start = int(cell["pid"]), int(cell["start"])
    return Holder(
        f"{pid}@{start}",
        pid,
        start,
        int(cell["uid"]),
        cell["comm"],
        cell["state"],
        float(cell["cpu_s"]),
        float(cell["age_s"]) if cell.get("age_s") else None,
        tuple(cell["devices"].split(",")) if cell["devices"] else (),
        cell.get("kind") or "unproven",
        cell.get("why") or "",
        cell.get("run") or "",
        used.get(pid),
    )


def _stranger(pid: int, size: int) -> Holder:
    """The driver names it, and here there is no such process with a card open."""
    why = "the driver lists this process, but no process here has that GPU open: it belongs to another container"
    return Holder(f"{pid}@0", pid, 0, -1, "?", "?", 0.0, None, (), "unproven", why, "", size)


def _used(probes: Mapping[str, Any]) -> dict[int, int]:
    """Bytes by pid, as the driver lists them."""
    found: dict[int, int] = {}
    for name, told in probes.items():
        if "--query-compute-apps" in name:
            for row in cards.rows_of(name, str(told.get("stdout") or "")):
                if _WHOLE.fullmatch(row.get("pid", "")):
                    pid, mib = int(row["pid"]), number(row.get("used_memory", ""))
                    found[pid] = found.get(pid, 0) + int((mib or 0) * (1 << 20))
    return found


def orphans(holders: Sequence[Holder]) -> tuple[Holder, ...]:
    """Those that are proven to be nobody's."""
    return tuple(one for one in holders if one.kind == "orphan")
