"""A machine's facts, and what would break a run there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sojourn.cli.show import findings
from sojourn.cli.show.text import clean, command, count, line
from sojourn.wire.units import say_bytes

if TYPE_CHECKING:
    from sojourn.verbs.explain.doctor import Doctor
    from sojourn.verbs.project.doctor_code import DoctorCode


def lines(answer: Doctor, columns: int) -> list[str]:
    """The facts, one line each; then the findings; then the next command."""
    facts = answer.facts
    if "transport" not in facts:
        return _account(answer, columns)
    how = f"{clean(facts['transport'])}, launcher {clean(facts['launcher'])}"
    out = line("site", f"{clean(answer.site)}  ({how})", columns)
    for label, text in _facts(facts):
        if text:
            out += line(label, clean(text), columns)
    out += findings.lines(answer.findings, columns)
    if not answer.findings:
        out += line("ok", "no problems found", columns)
    return [*out, command("next", clean(answer.next))]


def _account(answer: Doctor, columns: int) -> list[str]:
    """What a provider answered to the key."""
    facts = answer.facts
    out = line("provider", f"{clean(facts['provider'])}  key from {clean(facts.get('key', ''))}", columns)
    out += line("rented", count(facts.get("machines") or 0, "machine"), columns)
    if facts.get("balance"):
        out += line("balance", clean(facts["balance"]), columns)
    return [*out, *line("ok", "the key works", columns), command("next", clean(answer.next))]


def code_lines(answer: DoctorCode, columns: int) -> list[str]:
    """What was read; then the traps, each with its locations; then the next command."""
    facts = answer.facts
    out = line("code", f"{clean(answer.path)}  {count(facts['files'], 'Python file')}", columns)
    if facts["unread"]:
        out += line("skipped", ", ".join(clean(name) for name in facts["unread"]), columns)
    out += findings.lines(answer.findings, columns)
    if not answer.findings:
        out += line("ok", "no known training bugs found", columns)
    return [*out, command("next", clean(answer.next))]


def _facts(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    if "python" not in facts:
        return [("base", str(facts.get("base", "")))]
    system, cgroup, has = facts.get("os") or {}, facts.get("cgroup") or {}, facts.get("has") or {}
    quota, limit, memory = cgroup.get("cpu_quota"), cgroup.get("memory_limit_bytes"), facts.get("memory_bytes")
    box = f"{facts.get('host')}  user {facts.get('user')}  {system.get('system')} {system.get('release')}"
    cpus = count(facts.get("cpus") or 0, "core") + (f", {quota:g} available to you" if quota else "")
    ram = say_bytes(memory) if memory else ""
    if limit:
        ram += f", {say_bytes(limit)} available to you" if not memory or limit < memory else ""
    absent = ", ".join(name for name, is_there in sorted(has.items()) if not is_there)
    present = ", ".join(name for name, is_there in sorted(has.items()) if is_there)
    return [
        ("box", f"{box} {system.get('machine')}"),
        ("python", f"{facts.get('python_version')}  {facts.get('python')}"),
        ("cpu", cpus),
        ("memory", ram),
        *(("disk", _disk(path, room)) for path, room in _disks(facts.get("disks") or {})),
        ("gpu", _gpus(facts.get("gpus") or [])),
        ("tools", present + (f"; missing: {absent}" if absent else "")),
        ("clock", _clock(facts)),
    ]


def _disks(disks: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """One per file system: folders on disks of equal size count as being on the same one."""
    out: dict[tuple[int, int], tuple[str, Mapping[str, Any]]] = {}
    for path, room in disks.items():
        if room:
            out.setdefault((room["total_bytes"], room["total_inodes"]), (path, room))
    return list(out.values())


def _disk(path: str, room: Mapping[str, Any]) -> str:
    text = f"{path}  {say_bytes(room['free_bytes'])} of {say_bytes(room['total_bytes'])} free"
    return text + (f", {count(room['free_inodes'], 'inode')}" if room.get("total_inodes") else "")


def _gpus(gpus: list[Mapping[str, Any]]) -> str:
    kinds: dict[str, int] = {}
    for gpu in gpus:
        memory = f" {say_bytes(gpu['memory_bytes'])}" if gpu.get("memory_bytes") else ""
        name = f"{gpu.get('name') or 'lost'}{memory}"
        kinds[name] = kinds.get(name, 0) + 1
    return ", ".join(f"{number} x {name}" for name, number in kinds.items()) or "none"


def _clock(facts: Mapping[str, Any]) -> str:
    offset_s = facts.get("clock_offset_s")
    if offset_s is None:
        return ""
    return f"{offset_s:+.1f} s relative to this machine (+- {facts.get('clock_unsure_s', 0.0):.1f} s)"
