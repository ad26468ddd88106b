"""The driver's library, called through ctypes: None for what a GPU or driver version does not know.

Source: NVML API reference, nvmlDeviceGet* and nvmlReturn_t (docs.nvidia.com/deploy/nvml-api, 2026-11).
"""

from __future__ import annotations

import ctypes as c

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

LIBRARY = "libnvidia-ml.so.1"
NO_LIBRARY, NOT_LOADED, LOST = 12, 9, 15  # of nvmlReturn_t; nvidia-smi exits with the same numbers
_SM_CLOCK, _UNCORRECTED, _VOLATILE = 1, 1, 0
_RECOVERY_ACTION_FIELD = 230
_ACTIONS = ("None", "Reset", "Reboot", "Drain P2P", "Drain and Reset")
_FABRIC = ("N/A", "Not Started", "In Progress", "Completed")
_REASONS = {
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
}
_PROCESSES = 256


class Silent(Exception):
    """NVML says no; args: its return code, its message."""


class _Memory(c.Structure):
    _fields_ = [("total", c.c_ulonglong), ("free", c.c_ulonglong), ("used", c.c_ulonglong)]


class _Rates(c.Structure):
    _fields_ = [("gpu", c.c_uint), ("memory", c.c_uint)]


class _Pci(c.Structure):
    _fields_ = [("legacy", c.c_char * 16), ("numbers", c.c_uint * 5), ("bus_id", c.c_char * 32)]


class _Process(c.Structure):
    _fields_ = [("pid", c.c_uint), ("used", c.c_ulonglong), ("gi", c.c_uint), ("ci", c.c_uint)]


class _Fabric(c.Structure):
    _fields_ = [("cluster", c.c_char * 16), ("status", c.c_int), ("clique", c.c_uint), ("state", c.c_ubyte)]


class _Field(c.Structure):
    _fields_ = [
        ("id", c.c_uint),
        ("scope", c.c_uint),
        ("at", c.c_longlong),
        ("latency", c.c_longlong),
        ("type", c.c_int),
        ("code", c.c_int),
        ("value", c.c_ulonglong),
    ]


class Driver:
    """The library, initialised. Raises: OSError (it does not exist), Silent (it does not start)."""

    def __init__(self) -> None:
        self._library = c.CDLL(LIBRARY)
        code = self._library.nvmlInit_v2()
        if code:
            raise Silent(code, self.words(code))

    def words(self, code: int) -> str:
        """The library's text for a return code."""
        try:
            self._library.nvmlErrorString.restype = c.c_char_p
            return str((self._library.nvmlErrorString(c.c_int(code)) or b"").decode("utf-8", "replace"))
        except AttributeError:
            return "error %d" % code

    def versions(self) -> Dict[str, str | None]:
        """{"driver","cuda"}: the kernel driver's version, and the newest CUDA it supports."""
        text, number = c.create_string_buffer(96), c.c_int()
        has_driver = self._says("nvmlSystemGetDriverVersion", text, c.c_uint(96))
        has_cuda = self._says("nvmlSystemGetCudaDriverVersion_v2", c.byref(number))
        cuda = "%d.%d" % (number.value // 1000, number.value % 1000 // 10) if has_cuda else None
        return {"driver": _text(text) if has_driver else None, "cuda": cuda}

    def cards(self) -> List[Dict[str, Any]]:
        """Every GPU; a lost one has only "error" (a return code) and its index. Raises: Silent."""
        count = c.c_uint()
        code = self._code("nvmlDeviceGetCount_v2", c.byref(count))
        if code:
            raise Silent(code, self.words(code))
        return [self._card(index) for index in range(count.value)]

    def _card(self, index: int) -> Dict[str, Any]:
        card = c.c_void_p()
        code = self._code("nvmlDeviceGetHandleByIndex_v2", c.c_uint(index), c.byref(card))
        if code:
            return {"index": index, "error": code}
        memory, rates, pci, fabric = _Memory(), _Rates(), _Pci(), _Fabric()
        has_memory = self._says("nvmlDeviceGetMemoryInfo", card, c.byref(memory))
        has_rates = self._says("nvmlDeviceGetUtilizationRates", card, c.byref(rates))
        has_pci = self._says("nvmlDeviceGetPciInfo_v3", card, c.byref(pci))
        row: Dict[str, Any] = {
            "index": index,
            "name": self._string("nvmlDeviceGetName", card),
            "uuid": self._string("nvmlDeviceGetUUID", card),
            "bus_id": pci.bus_id.decode("ascii", "replace") if has_pci else None,
            "compute_cap": self._capability(card),
            "memory_bytes": memory.total if has_memory else None,
            "used_bytes": memory.used if has_memory else None,
            "util_pct": rates.gpu if has_rates else None,
            "memory_util_pct": rates.memory if has_rates else None,
            "temperature_c": self._number("nvmlDeviceGetTemperature", card, c.c_uint(0)),
            "power_mw": self._number("nvmlDeviceGetPowerUsage", card),
            "power_limit_mw": self._number("nvmlDeviceGetEnforcedPowerLimit", card),
            "sm_mhz": self._number("nvmlDeviceGetClockInfo", card, c.c_uint(_SM_CLOCK)),
            "sm_max_mhz": self._number("nvmlDeviceGetMaxClockInfo", card, c.c_uint(_SM_CLOCK)),
            "reasons": self._reasons(card),
            "ecc_uncorrected": self._ecc(card),
            "remapped": self._remapped(card),
            "compute_mode": self._number("nvmlDeviceGetComputeMode", card),
            "persistence": self._number("nvmlDeviceGetPersistenceMode", card),
            "mig": self._mig(card),
            "recovery": self._recovery(card),
            "processes": self._processes(card),
        }
        has_fabric = self._says("nvmlDeviceGetGpuFabricInfo", card, c.byref(fabric))
        row["fabric"] = _FABRIC[fabric.state] if has_fabric and fabric.state < len(_FABRIC) else None
        return row

    def _code(self, name: str, *args: Any) -> int:
        """The return code of a call; NOT_SUPPORTED (3) if this library lacks it."""
        try:
            return int(getattr(self._library, name)(*args))
        except AttributeError:
            return 3

    def _says(self, name: str, *args: Any) -> bool:
        return not self._code(name, *args)

    def _number(self, name: str, *args: Any) -> int | None:
        number = c.c_uint()
        return number.value if self._says(name, *args, c.byref(number)) else None

    def _string(self, name: str, card: c.c_void_p) -> str | None:
        text = c.create_string_buffer(96)
        return _text(text) if self._says(name, card, text, c.c_uint(96)) else None

    def _capability(self, card: c.c_void_p) -> str | None:
        major, minor = c.c_int(), c.c_int()
        if not self._says("nvmlDeviceGetCudaComputeCapability", card, c.byref(major), c.byref(minor)):
            return None
        return "%d.%d" % (major.value, minor.value)

    def _reasons(self, card: c.c_void_p) -> Dict[str, bool] | None:
        """Why clocks are throttled, by name; the call was renamed with driver 535."""
        mask = c.c_ulonglong()
        for name in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"):
            if self._says(name, card, c.byref(mask)):
                return {reason: bool(mask.value & bit) for reason, bit in _REASONS.items()}
        return None

    def _ecc(self, card: c.c_void_p) -> int | None:
        errors = c.c_ulonglong()
        kind, since = c.c_uint(_UNCORRECTED), c.c_uint(_VOLATILE)
        return errors.value if self._says("nvmlDeviceGetTotalEccErrors", card, kind, since, c.byref(errors)) else None

    def _remapped(self, card: c.c_void_p) -> Tuple[int, ...] | None:
        """Correctable, uncorrectable, pending, failure."""
        rows = [c.c_uint() for _ in range(4)]
        if not self._says("nvmlDeviceGetRemappedRows", card, *(c.byref(row) for row in rows)):
            return None
        return tuple(row.value for row in rows)

    def _mig(self, card: c.c_void_p) -> int | None:
        now, wanted = c.c_uint(), c.c_uint()
        return now.value if self._says("nvmlDeviceGetMigMode", card, c.byref(now), c.byref(wanted)) else None

    def _recovery(self, card: c.c_void_p) -> str | None:
        """The action the driver requests; known to drivers from 570 on."""
        field = _Field(id=_RECOVERY_ACTION_FIELD)
        if not self._says("nvmlDeviceGetFieldValues", card, c.c_int(1), c.byref(field)) or field.code:
            return None
        at = field.value & 0xFFFFFFFF
        return _ACTIONS[at] if at < len(_ACTIONS) else None

    def _processes(self, card: c.c_void_p) -> List[Tuple[int, int | None]] | None:
        """(pid, bytes) of each; a container may see none, or pids of its host."""
        rows, count = (_Process * _PROCESSES)(), c.c_uint(_PROCESSES)
        if not self._says("nvmlDeviceGetComputeRunningProcesses_v3", card, c.byref(count), rows):
            return None
        unknown = (1 << 64) - 1
        return [(row.pid, None if row.used == unknown else row.used) for row in rows[: count.value]]


def _text(buffer: Any) -> str:
    return str(buffer.value.decode("utf-8", "replace"))
