"""Observations that no single probe can give: what moved between two looks, and what one probe says of another's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sojourn.diagnose.facts import processes, root
from sojourn.diagnose.grammar import Known

# What a log says of a process that was killed: without it a memory kill of our control group hit somebody else.
_KILLED = re.compile(
    r"(?i)\bkilled\b|SIGKILL|exit ?code *:? *-9|signal:? 9\b|exited unexpectedly|terminated abruptly|\bdied\b|\bOOM\b"
    r"|out of memory|BrokenProcessPool|return code = -9|EOFError|Connection reset by peer"
)
MOVES = ("step_advancing", "ckpt_advancing", "log_growing")  # of run.*: what shows that it goes on
_CARD_TAKEN = re.compile(r"(?i)\bCUDA\b|out of memory|NCCL|CUBLAS|CUDNN|busy or unavailable|/dev/nvidia")
_MEMORY_KILL = re.compile(
    r"(?i)oom-kill:|out of memory: kill|killed process|killed as a result of limit|invoked oom-killer"
)


def since(
    known: dict[str, Known], before: Mapping[str, Known], probes: Mapping[str, Any], earlier: Mapping[str, Any]
) -> dict[str, Known]:
    """`known` with what moved since an earlier look at the same attempt."""
    found = dict(known)
    if not before:
        return found
    for name, told in (("run.step", "run.step_advancing"), ("run.log_bytes", "run.log_growing")):
        now, then = _number(known, name), _number(before, name)
        if now is not None and then is not None and now > then:
            found.setdefault(told, Known(True, f"{name} was {then:g}, is {now:g}"))
    newest, oldest = (_newest(some) for some in (probes, earlier))
    if newest is not None and oldest is not None:
        found.setdefault("run.ckpt_advancing", Known(newest > oldest, "two looks at the checkpoints"))
    now_cpu, then_cpu = (processes.cpu_s(_text(some, "process tree")) for some in (probes, earlier))
    same = now_cpu.keys() & then_cpu.keys()
    if same:
        moved = sum(now_cpu[key] - then_cpu[key] for key in same)
        found["run.cpu_delta_s"] = Known(round(max(0.0, moved), 3), "two looks at the process tree")
    return found


def besides(
    known: dict[str, Known], now: Mapping[str, Known], probes: Mapping[str, Any], live: Mapping[str, Any]
) -> dict[str, Known]:
    """`known`, which is of a run's end, with what the box says today where nothing was kept then."""
    found = dict(known)
    for name, one in now.items():
        if name not in found and not name.startswith("run."):
            found[name] = replace(one, source=f"{one.source}, now")
    return found


def joined(known: dict[str, Known], launch: Mapping[str, Any]) -> dict[str, Known]:
    """`known` with what several of them, and what was recorded at launch, say together."""
    found = dict(known)
    if _value(found, "run.stop_requested") is True:  # a limit of the job file would be on record as such
        found.setdefault("run.stop_why", replace(found["run.stop_requested"], value="stop"))
    if launch.get("shim"):  # ours gives the payload a session of its own, and stdin from null
        found.setdefault("run.detached", Known("yes", "launch record"))
    found.update({name: one for name, one in _of_command(launch.get("argv")).items() if name not in found})
    limits = launch.get("limits")
    group = limits.get("cgroup") if isinstance(limits, Mapping) else None
    if isinstance(group, Mapping) and "cpu_quota" in group:
        found.setdefault("cg.cpu_quota", Known(group["cpu_quota"], "launch record"))
    if _is_untold(found):
        del found["cg.oom_kill_delta"]
        found.pop("kmsg.oom_lines", None)
    if _is_elsewhere(found):
        found["cg.oom_kill_elsewhere"] = found.pop("cg.oom_kill_delta")
        found["cg.oom_kill_delta"] = Known(0, "none that the end and the log of this run know of")
    if _is_of_neighbours(found):
        lines = found["kmsg.oom_lines"]
        others = found.get("kmsg.oom_others")
        found["kmsg.oom_others"] = replace(lines, value=[*lines.value, *(others.value if others else ())])
        found["kmsg.oom_lines"] = replace(lines, value=[])
    if _is_no_matter(found):
        del found["gpu.holders_orphaned"]
    if _value(found, "disk.probe_write") == "ok" and "shm.pct" not in found and "disk.bytes_pct" not in found:
        found["disk.others_unseen"] = Known(True, "the run's disk takes files, and no table of disks could be read")
    is_over = _value(found, "run.exit_record") is True or _value(found, "run.alive") is False
    lives = _value(found, "run.alive") is True or any(_value(found, f"run.{what}") is True for what in MOVES)
    if lives and is_over:
        found.setdefault("run.alive_disputed", Known(True, "what shows it alive, and what shows its end"))
    if _value(found, "run.exit_record") is True and "run.alive" not in found:
        found["run.alive"] = replace(found["run.exit_record"], value=False)
    return found


def _of_command(argv: Any) -> dict[str, Known]:
    """What the command of the payload, as it was launched, says of its plan."""
    text = " ".join(map(str, argv)) if isinstance(argv, list) else ""
    found: dict[str, Known] = {}
    if re.search(r"(?<!\S)(?:--)?(?:num[-_](?:train[-_])?|max[-_])?epochs?[= ]\d", text):
        found["cfg.epochs_source"] = Known("cli", "launch record")
    if fewest := re.search(r"--min[-_](?:np|num[-_]proc)[= ](\d{1,5})\b|--nnodes[= ](\d{1,5}):\d", text):
        found["mn.min_np"] = Known(int(fewest.group(1) or fewest.group(2)), "launch record")
    return found


def _is_of_neighbours(known: Mapping[str, Known]) -> bool:
    """Whether memory kills in the kernel's log are another group's: our own counter did not move."""
    is_counted = known.get("cg.oom_kill_delta", Known(None)).value == 0 and _value(known, "box.pid1_changed") is False
    return is_counted and any("CONSTRAINT_MEMCG" in str(line) for line in _value(known, "kmsg.oom_lines") or ())


def of_kernel(text: str, known: Mapping[str, Known]) -> str:
    """A kernel log without memory kills where all of them are another's."""
    if _value(known, "kmsg.oom_lines"):
        return text
    return "\n".join(line for line in text.splitlines() if not _MEMORY_KILL.search(line))


def _is_elsewhere(known: Mapping[str, Known]) -> bool:
    """The run ended by its own exit status and its log knows of no kill, yet the counter of its group moved."""
    kills, code, text = (_value(known, n) for n in ("cg.oom_kill_delta", "run.exit_code", "run.log_text"))
    ended_itself = isinstance(code, int) and code not in (0, 137) and not _value(known, "run.exit_signal")
    has_error = _value(known, "run.log_traceback") is True
    return bool(kills) and ended_itself and has_error and not _KILLED.search(str(text or ""))


def _is_no_matter(known: Mapping[str, Known]) -> bool:
    """An orphan holds a card, and the run's own words are of something else: then it did not end this run."""
    one = known.get("gpu.holders_orphaned", Known(None))
    if not one.value or not one.source.startswith("probe ") or _value(known, "box.alone") is True:
        return False
    return not _CARD_TAKEN.search(str(_value(known, "run.log_text") or ""))


def _is_untold(known: Mapping[str, Known]) -> bool:
    """The counter moved, the run ended by its own exit status, and the log that would tell whether it was hit lacks."""
    code = known.get("run.exit_code", Known(None))
    is_own = isinstance(code.value, int) and code.value not in (0, 137) and not _value(known, "run.exit_signal")
    is_read = code.source.startswith("probe ")  # a bare fact was given by who knew what it means
    return is_own and is_read and bool(_value(known, "cg.oom_kill_delta")) and not _value(known, "run.log_text")


def _newest(probes: Mapping[str, Any]) -> float | None:
    _, rows = root.checkpoints(_text(probes, "checkpoints"))
    return max((at for at, _, _ in rows), default=None)


def _text(probes: Mapping[str, Any], name: str) -> str:
    told = probes.get(name)
    return str(told.get("stdout") or "") if isinstance(told, Mapping) else ""


def _number(known: Mapping[str, Known], name: str) -> float | None:
    value = _value(known, name)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _value(known: Mapping[str, Known], name: str) -> Any:
    one = known.get(name)
    return one.value if one else None
