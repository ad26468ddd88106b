"""What our own keeper writes: the exit record and the events of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sojourn.diagnose.facts.table import Probe, Reader
from sojourn.wire import events, units

ASKED = ("stop", "budget", "max_duration", "shutdown")
RESTARTED = ("the machine was restarted", "the container was restarted")  # words of box/supervise/attempt.py


def _exit(probe: Probe) -> Mapping[str, Any]:
    """exits/N.json, or the word of whoever waited for the process."""
    if probe.is_silent and "ENOENT" not in probe.stderr:
        return {}
    if not probe.text.strip():
        return {"run.exit_record": False}
    try:
        told = json.loads(probe.text)
    except ValueError:
        return {"run.exit_record": False}
    if not isinstance(told, dict):
        return {"run.exit_record": False}
    return {"run.exit_record": True, **status(told.get("rc"), told.get("signal"))}


def status(rc: Any, signal: Any) -> dict[str, Any]:
    """Observations of an exit status; a shell's 128+N is its child's signal N, a negative one a signal too."""
    found: dict[str, Any] = {"run.exit_code": rc, "run.exit_signal": signal}
    if isinstance(rc, int):
        if rc < 0:
            found = {"run.exit_code": None, "run.exit_signal": -rc}
        elif 128 < rc <= 128 + 64 and signal is None:
            found["run.exit_signal"] = rc - 128
    return found


def _events(probe: Probe) -> Mapping[str, Any]:
    """events.jsonl: the newest attempt, its beats, how it ended and whether we asked."""
    rows, _ = events.parse(probe.text.encode() + b"\n")
    found: dict[str, Any] = {}
    beats: list[Mapping[str, Any]] = []
    oom: Any = None
    seat = ""
    counter = "cg.oom_kill_delta"
    for row in rows:
        kind = row.get("kind")
        if kind == "attempt":
            found = {"run.restarts": max(0, int(row.get("attempt", 0)) - 1), "run.stop_requested": False}
            oom, beats, seat = row.get("oom_kill"), [], str(row.get("seat") or "")
            counter = "box.oom_kill_delta" if row.get("oom_kill_file") == "/proc/vmstat" else "cg.oom_kill_delta"
        elif kind == "beat":
            beats.append(row)
            found["run.stalled"] = found.get("run.stalled", False)
            now = row.get("oom_kill")
            if isinstance(now, int) and isinstance(oom, int):
                found[counter] = now - oom
            for key, name in (
                ("threads", "run.threads"),
                ("log_age_s", "run.log_age_s"),
                ("log_bytes", "run.log_bytes"),
            ):
                value = row.get(key)
                if isinstance(value, (int, float)):
                    found[name] = value
            for key, name in (("rss_bytes", "run.rss_peak"), ("cgroup_bytes", "cg.mem_beat_peak")):
                value = row.get(key)
                if isinstance(value, int) and not isinstance(value, bool):
                    found[name] = max(value, found.get(name, 0))
            found.update(_progress_of(row.get("progress")))
        elif kind == "restarted":
            found["run.began_anew"] = True
            if isinstance(row.get("step"), int):
                found["run.start_step"] = row["step"]
        elif kind in ("stalled", "moving"):
            found["run.stalled"] = kind == "stalled"
        elif kind == "signal" and row.get("why") == "walltime":  # a scheduler's seat ends: nobody asked for that
            found["run.stop_why"] = "walltime"
        elif kind == "signal" and seat and row.get("why") == "shutdown":
            found["run.stop_why"] = "seat"
        elif kind == "signal" and row.get("why") in ASKED:
            found.update({"run.stop_requested": True, "run.stop_why": str(row["why"])})
        elif kind == "ruled" and isinstance(row.get("number"), int):
            found.update({"run.rule": row["number"], "run.rule_line": str(row.get("line") or "") or None})
        elif kind == "ended":
            ended = of_end({**row, "seat": seat})
            if "cg.oom_kill_delta" in ended:
                ended[counter] = ended.pop("cg.oom_kill_delta")
            found.pop("run.stalled", None)
            found.update(ended)
    if "run.exit_record" not in found:
        found.update(_movement(beats))
        if found.get("run.stalled"):
            found["run.step_advancing"] = False
    return found


def _movement(beats: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Whether steps and log lines still come, from when they came so far: three of the usual pauses may pass; ten of
    them, and half a minute, are too long for steps."""
    found: dict[str, Any] = {}
    if not beats:
        return found
    steps = [
        (_at(row), step) for row in beats if (step := _progress_of(row.get("progress")).get("run.step")) is not None
    ]
    quiet_s, usual_s = _pauses(steps, _at(beats[-1]))
    if quiet_s is not None:
        if quiet_s <= max(10.0, 3 * usual_s):
            found["run.step_advancing"] = True
        elif quiet_s > max(30.0, 10 * usual_s):
            found["run.step_advancing"] = False
    sizes = [(_at(row), int(row["log_bytes"])) for row in beats if isinstance(row.get("log_bytes"), int)]
    quiet_s, usual_s = _pauses(sizes, _at(beats[-1]))
    if quiet_s is not None:
        found["run.log_growing"] = quiet_s <= max(10.0, 3 * usual_s)
    timed = [(_at(row), row["cpu_s"]) for row in beats if isinstance(row.get("cpu_s"), (int, float))]
    early = [cpu_s for at, cpu_s in timed if timed[-1][0] - at >= 10.0]
    if early:
        found["run.cpu_delta_s"] = round(max(0.0, timed[-1][1] - early[-1]), 3)
    return found


def _pauses(told: list[tuple[float, int]], now_s: float) -> tuple[float | None, float]:
    """(seconds since the number grew last, the usual pause between growths); None where it never grew."""
    grew = [at for (at, number), (_, before) in zip(told[1:], told, strict=False) if number > before]
    if not grew:
        return None, 0.0
    pauses = sorted(b - a for a, b in zip(grew, grew[1:], strict=False))
    return now_s - grew[-1], pauses[len(pauses) // 2] if pauses else 0.0


def _progress_of(told: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if isinstance(told, Mapping):
        for key, name in (("step", "run.step"), ("total", "run.step_total")):
            if isinstance(told.get(key), int) and not isinstance(told[key], bool):
                found[name] = told[key]
    return found


def _progress(probe: Probe) -> Mapping[str, Any]:
    """progress/N.json, what the training process says of itself."""
    try:
        return _progress_of(json.loads(probe.text))
    except ValueError:
        return {}


def _stop(probe: Probe) -> Mapping[str, Any]:
    """stop.json: somebody asked for an end."""
    try:
        told = json.loads(probe.text)
    except ValueError:
        return {}
    number = probe.kept("attempt")
    if not isinstance(told, dict) or (isinstance(number, int) and told.get("attempt") != number):
        return {}
    return {"run.stop_requested": True, "run.stop_why": str(told.get("why") or "stop")}


def _keeper(probe: Probe) -> Mapping[str, Any]:
    alive = probe.more.get("alive")
    return {"box.session_present": alive} if isinstance(alive, bool) else {}


def _at(row: Mapping[str, Any]) -> float:
    try:
        return units.unstamp(str(row.get("at")))
    except ValueError:
        return 0.0


def of_end(row: Mapping[str, Any]) -> dict[str, Any]:
    """Observations of an `ended` event. Its `detail` tells where the machine or container was restarted meanwhile.

    In a scheduler's `seat` a shutdown is the scheduler's doing: nobody asked for it.
    """
    is_seen = row.get("by") != "unknown"
    found: dict[str, Any] = {"run.alive": False, "run.exit_record": is_seen}
    if is_seen:
        found.update(status(row.get("rc"), row.get("signal")))
    if isinstance(row.get("oom_kill_delta"), int):
        found["cg.oom_kill_delta"] = row["oom_kill_delta"]
    why = str(row.get("why") or "")
    if row.get("seat") and why == "shutdown":
        why = "seat"
    found["run.stop_requested"] = why in ASKED
    if why:
        found["run.stop_why"] = why
    found["run.done_record"] = row.get("state") == "succeeded"
    detail = str(row.get("detail") or row.get("reason") or "")
    if not detail.startswith("ran on "):  # another machine's boot says nothing
        found["box.pid1_changed"] = detail in RESTARTED
        if detail == RESTARTED[0]:
            found["box.boot_id_changed"] = True
    return found


READS = (
    Reader(r"exits?(?:/\d+\.json|\.json)?$|exit.?record", _exit, hears_silence=True),
    Reader(r"^progress/\d+\.json$", _progress),
    Reader(r"^stop\.json$", _stop),
    Reader(r"^keeper\.json$", _keeper),
    Reader(r"events(?:\.jsonl)?$", _events, r'^\{"v":1,"seq":'),
)
