"""GPUs in the format of nvidia-smi, whether its library or the program itself was asked.

The library needs no process and answers even if the program is not installed; if it cannot be loaded, the program is
asked. Source: nvidia-smi(1), `--help-query-gpu` (2026-11).
"""

from __future__ import annotations

import os
import shutil

from sojourn.box.run.attempt_context import AttemptContext
from sojourn.box.system import raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List

_REASONS = (
    "hw_slowdown",
    "hw_thermal_slowdown",
    "sw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "sw_power_cap",
)
_MIB = 1 << 20
_FIELDS: Dict[str, Callable[[Dict[str, Any]], Any]] = {
    "index": lambda card: card["index"],
    "name": lambda card: card["name"],
    "uuid": lambda card: card["uuid"],
    "pci.bus_id": lambda card: card["bus_id"],
    "driver_version": lambda card: card["driver"],
    "compute_cap": lambda card: card["compute_cap"],
    "memory.total": lambda card: _with("%d MiB", card["memory_bytes"], _MIB),
    "memory.used": lambda card: _with("%d MiB", card["used_bytes"], _MIB),
    "utilization.gpu": lambda card: _with("%d %%", card["util_pct"]),
    "utilization.memory": lambda card: _with("%d %%", card["memory_util_pct"]),
    "temperature.gpu": lambda card: card["temperature_c"],
    "power.draw": lambda card: _with("%.2f W", card["power_mw"], 1000.0),
    "power.limit": lambda card: _with("%.2f W", card["power_limit_mw"], 1000.0),
    "clocks.sm": lambda card: _with("%d MHz", card["sm_mhz"]),
    "clocks.max.sm": lambda card: _with("%d MHz", card["sm_max_mhz"]),
    "ecc.errors.uncorrected.volatile.total": lambda card: card["ecc_uncorrected"],
    "remapped_rows.correctable": lambda card: _of(card["remapped"], 0),
    "remapped_rows.uncorrectable": lambda card: _of(card["remapped"], 1),
    "remapped_rows.pending": lambda card: _yes(_of(card["remapped"], 2), "Yes", "No"),
    "remapped_rows.failure": lambda card: _yes(_of(card["remapped"], 3), "Yes", "No"),
    "persistence_mode": lambda card: _yes(card["persistence"], "Enabled", "Disabled"),
    "mig.mode.current": lambda card: _yes(card["mig"], "Enabled", "Disabled"),
}
_PREFIX = "clocks_event_reasons."
QUERY = "nvidia-smi --query-gpu=%s --format=csv,noheader" % ",".join(
    list(_FIELDS) + [_PREFIX + reason for reason in _REASONS]
)
PAGE = "nvidia-smi -q"
APPS = "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv,noheader"
_PROGRAM_S = 1.4


def collect(context: AttemptContext, only_query: bool = False) -> Dict[str, raw.Entry]:
    """QUERY (a GPU per row), PAGE (versions, fabric, recovery), APPS (processes). QUERY's rc is the library's return
    code, which nvidia-smi also exits with: 0, 9 driver not loaded, 12 no library, 15 a GPU is lost."""
    try:
        from sojourn.box.system import nvml

        driver = nvml.Driver()
        versions, cards = driver.versions(), driver.cards()
    except (ImportError, OSError) as error:
        return _by_program(str(error), only_query)
    except nvml.Silent as silent:
        code, words = silent.args
        return {QUERY: raw.text("", code, "Failed to initialize NVML: %s" % words, source="nvml")}
    lost = [card for card in cards if "error" in card]
    there = [card for card in cards if "error" not in card]
    said = "".join(
        "Unable to determine the device handle for GPU %d: %s\n" % (card["index"], driver.words(card["error"]))
        for card in lost
    )
    rows = [_row(dict(card, driver=versions["driver"])) for card in there]
    text = "".join(row + "\n" for row in rows) if cards else "No devices were found\n"
    return {
        QUERY: raw.text(text, lost[0]["error"] if lost else 0, said, source="nvml"),
        PAGE: raw.text(_page(versions, there, len(cards)), source="nvml"),
        APPS: raw.text(_apps(there), source="nvml"),
    }


def _by_program(why: str, only_query: bool) -> Dict[str, raw.Entry]:
    """If the library cannot be loaded: the program, if there is one; else that both are missing."""
    if not shutil.which("nvidia-smi"):
        return {"nvidia-smi": raw.text("", raw.NO_PROGRAM, _nothing(why), pci=_on_the_bus())}
    found = {}
    for name in (QUERY, QUERY.replace(_PREFIX, "clocks_throttle_reasons.")):
        found = {name: dict(raw.run(name.split(), _PROGRAM_S), source="nvidia-smi")}
        if "not a valid field" not in found[name]["stdout"] + found[name]["stderr"]:
            break
    if only_query:
        return found
    found[PAGE] = dict(raw.run(PAGE.split(), _PROGRAM_S), source="nvidia-smi")
    found[APPS] = dict(raw.run(APPS.split(), _PROGRAM_S), source="nvidia-smi")
    return found


def _nothing(why: str) -> str:
    """Why GPUs cannot be queried."""
    if os.path.exists("/dev/nvidiactl"):
        return "the card's device is there, the driver's library is not: %s" % why
    if os.path.exists("/dev/kfd"):
        return "no NVIDIA driver; an AMD one is there, and its cards are not judged"
    on_the_bus = _on_the_bus()
    if on_the_bus:
        return "no NVIDIA driver, though %d of its cards are on the bus: %s" % (len(on_the_bus), " ".join(on_the_bus))
    return "no NVIDIA driver, and no card of theirs on the bus"


def _on_the_bus() -> List[str]:
    """Addresses of NVIDIA's display and compute devices (PCI vendor 10de, class 03), driver or not."""
    folder, found = "/sys/bus/pci/devices", []
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    for name in names:
        vendor, kind = (raw.read_entry("%s/%s/%s" % (folder, name, what), 64)["stdout"] for what in ("vendor", "class"))
        if vendor.strip() == "0x10de" and kind.startswith("0x03"):
            found.append(name)
    return found


def _row(card: Dict[str, Any]) -> str:
    cells = [field(card) for field in _FIELDS.values()]
    active = card["reasons"]
    cells += [None if active is None else "Active" if active[reason] else "Not Active" for reason in _REASONS]
    return ", ".join("[N/A]" if cell is None else str(cell) for cell in cells)


def _page(versions: Dict[str, Any], cards: List[Dict[str, Any]], count: int) -> str:
    lines = ["", "==============NVSMI LOG==============", ""]
    lines.append("Driver Version                            : %s" % (versions["driver"] or "N/A"))
    lines.append("CUDA Version                              : %s" % (versions["cuda"] or "N/A"))
    lines.append("")
    lines.append("Attached GPUs                             : %d" % count)
    for card in cards:
        lines.append("GPU %s" % card["bus_id"])
        lines.append("    Product Name                          : %s" % card["name"])
        if card["recovery"] is not None:
            lines.append("    GPU Recovery Action                   : %s" % card["recovery"])
        if card["fabric"] is not None:
            lines += ["    Fabric", "        State                             : %s" % card["fabric"]]
    return "\n".join(lines) + "\n"


def _apps(cards: List[Dict[str, Any]]) -> str:
    rows = []
    for card in cards:
        for pid, used in card["processes"] or ():
            rows.append("%s, %d, %s\n" % (card["uuid"], pid, _with("%d MiB", used, _MIB) or "[N/A]"))
    return "".join(rows)


def _with(form: str, value: int | None, unit: float = 1) -> str | None:
    if value is None:
        return None
    return form % (value // unit if isinstance(unit, int) else value / unit)


def _of(values: Any, at: int) -> Any:
    return None if values is None else values[at]


def _yes(value: int | None, yes: str, no: str) -> str | None:
    return None if value is None else yes if value else no
