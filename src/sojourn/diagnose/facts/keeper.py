"""What our own keeper writes: the exit record and the events of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sojourn.diagnose.facts.table import Probe, Reader
from sojourn.wire import events

RESTARTED = ("the machine was restarted", "the container was restarted")  # words of box/attempt.py


def _exit(probe: Probe) -> Mapping[str, Any]:
    """exits/N.json, or the word of whoever waited for the process."""
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
    attempt = 0
    for row in rows:
        kind = row.get("kind")
        if kind == "attempt":
            attempt = int(row.get("attempt", 0))
            found = {"run.restarts": max(0, attempt - 1), "run.stop_requested": False}
            found["_oom"] = row.get("oom_kill")
        elif kind == "beat":
            if isinstance(row.get("oom_kill"), int) and isinstance(found.get("_oom"), int):
                found["cg.oom_kill_delta"] = row["oom_kill"] - found["_oom"]
            for key, name in (
                ("threads", "run.threads"),
                ("log_age_s", "run.log_age_s"),
                ("log_bytes", "run.log_bytes"),
            ):
                if isinstance(row.get(key), (int, float)):
                    found[name] = row[key]
            progress = row.get("progress")
            if isinstance(progress, dict) and isinstance(progress.get("step"), int):
                found["run.step"] = progress["step"]
                if isinstance(progress.get("total"), int):
                    found["run.step_total"] = progress["total"]
        elif kind == "ended":
            found.update(of_end(row))
    found.pop("_oom", None)
    return found


def of_end(row: Mapping[str, Any]) -> dict[str, Any]:
    """Observations of an `ended` event. Its `detail` tells where the machine or container was restarted meanwhile."""
    is_seen = row.get("by") != "unknown"
    found: dict[str, Any] = {"run.alive": False, "run.exit_record": is_seen}
    if is_seen:
        found.update(status(row.get("rc"), row.get("signal")))
    if isinstance(row.get("oom_kill_delta"), int):
        found["cg.oom_kill_delta"] = row["oom_kill_delta"]
    why = str(row.get("why") or "")
    found["run.stop_requested"] = why in ("stop", "budget", "max_duration", "shutdown")
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
    Reader(r"exits?(?:/\d+\.json|\.json)?$|exit.?record", _exit),
    Reader(r"events(?:\.jsonl)?$", _events, r'^\{"v":1,"seq":'),
)
