"""The GPUs of a machine, the processes that use them, and their problems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sojourn.cli.show import findings
from sojourn.cli.show.reap import LABELS
from sojourn.cli.show.text import clean, command, count, line
from sojourn.wire.units import say_bytes

if TYPE_CHECKING:
    from sojourn.verbs.explain.gpu import Gpu


def lines(answer: Gpu, columns: int) -> list[str]:
    """The machine; a line or two per GPU; its processes; the product; then the findings and the next command."""
    facts = answer.facts
    driver = f"  driver {clean(facts['driver'])}" if facts.get("driver") else ""
    cuda = f", CUDA {clean(facts['cuda'])}" if facts.get("cuda") else ""
    out = line("site", f"{clean(answer.site)}  {clean(facts.get('host'))}{driver}{cuda}", columns)
    for card in facts["cards"]:
        out += line(f"gpu {card['index']}", clean(_card(card)), columns)
        out += line("", clean(_clocks(card)), columns)
    if not facts["cards"]:
        out += line("gpus", f"none available: {clean(facts['words'])}", columns)
    elif facts["words"]:
        out += line("note", clean(facts["words"]), columns)
    for one in facts["holders"]:
        what = ", ".join(one["devices"] or []) or "no GPU"
        size = f", {say_bytes(one['gpu_bytes'])}" if one.get("gpu_bytes") else ""
        out += line(
            LABELS.get(one["kind"], one["kind"]),
            clean(f"{one['name']} {one['comm']}, {what}{size}: {one['why']}"),
            columns,
        )
    if facts["hidden"] and facts["cards"]:
        who = count(facts["hidden"], "process", "processes")
        out += line("hidden", f"{who} of other users (no permission to inspect)", columns)
    out += _matmul(facts.get("matmul"), columns)
    if facts.get("kernel_log") is False and facts["cards"]:
        out += line("unknown", "Xid errors: no permission to read the kernel log", columns)
    out += findings.lines(answer.findings, columns)
    if not answer.findings and facts["cards"]:
        out += line("ok", "no problems found", columns)
    return [*out, command("next", clean(answer.next))]


def _card(card: Mapping[str, Any]) -> str:
    used, total = card["used_bytes"], card["memory_bytes"]
    memory = f"{say_bytes(used)} of {say_bytes(total)} used" if used is not None and total else "memory unknown"
    parts = [str(card["name"] or "unnamed GPU"), memory]
    if card["util_pct"] is not None:
        parts.append(f"{card['util_pct']:g} % busy")
    if card["ecc_uncorrected"]:
        parts.append(f"{card['ecc_uncorrected']} uncorrected ECC errors")
    if card["remap_failed"]:
        parts.append("row remapping failed")
    elif card["remap_pending"]:
        parts.append("row remapping pending (needs a GPU reset)")
    return ", ".join(parts)


def _clocks(card: Mapping[str, Any]) -> str:
    parts = []
    if card["temperature_c"] is not None:
        parts.append(f"{card['temperature_c']:g} C")
    if card["power_w"] is not None:
        limit = f" of {card['power_limit_w']:g}" if card["power_limit_w"] else ""
        parts.append(f"{card['power_w']:g}{limit} W")
    if card["clock_share"] is not None:
        parts.append(f"clock {card['clock_mhz']:g} of {card['clock_max_mhz']:g} MHz")
    if card["throttle"]:
        parts.append("throttled: " + ", ".join(card["throttle"]))
    return ", ".join([*parts, f"judged {card['judged']}" if card["judged"] == "under load" else card["judged"]])


def _matmul(told: Mapping[str, Any] | None, columns: int) -> list[str]:
    if told is None:
        return []
    out: list[str] = []
    for one in told["cards"]:
        said = f"{one.get('tflops')} TFLOPS, same result each time" if one.get("ok") else str(one.get("said"))
        out += line("matmul", clean(f"GPU {one['card']}: {said}"), columns)
    if told["words"]:
        out += line("matmul", clean(told["words"]), columns)
    return out
