"""GPUs through NVML. Loading the driver's library costs tens of MiB and can hang on a sick GPU, so it is done in a
separate process that lives for a second: `keeper gpu` prints one JSON line.

Source: NVML API reference, nvmlDeviceGet* (docs.nvidia.com/deploy/nvml-api, 2026-11).
"""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

DEVICE = "/dev/nvidiactl"


def exists() -> bool:
    """Whether this machine shows an NVIDIA driver. Costs nothing."""
    return os.path.exists(DEVICE)


def main() -> int:
    """Print {"gpus": [...]} or {"error": "..."}; 0 in both cases."""
    try:
        answer: Dict[str, Any] = {"gpus": read_gpus()}
    except (ImportError, OSError, AttributeError, RuntimeError) as error:
        answer = {"error": str(error)[:200]}
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0


def read_gpus() -> List[Dict[str, Any]]:
    """[{"index","name","uuid","memory_bytes","used_bytes","util_pct","temperature_c","power_w"}]; null for what a GPU
    does not report. Raises: ImportError, OSError (no library), RuntimeError (NVML says no)."""
    import ctypes as c

    class Memory(c.Structure):
        _fields_ = [("total", c.c_ulonglong), ("free", c.c_ulonglong), ("used", c.c_ulonglong)]

    class Rates(c.Structure):
        _fields_ = [("gpu", c.c_uint), ("memory", c.c_uint)]

    nvml = c.CDLL("libnvidia-ml.so.1")
    code = nvml.nvmlInit_v2()
    if code:
        raise RuntimeError("nvmlInit: %d" % code)
    count = c.c_uint()
    if nvml.nvmlDeviceGetCount_v2(c.byref(count)):
        raise RuntimeError("nvmlDeviceGetCount")
    out = []
    for index in range(count.value):
        card = c.c_void_p()
        row: Dict[str, Any] = {"index": index}
        code = nvml.nvmlDeviceGetHandleByIndex_v2(c.c_uint(index), c.byref(card))
        if code:  # 15 = the GPU is lost: show it, do not drop it
            row["error"] = code
            out.append(row)
            continue
        name, uuid = c.create_string_buffer(96), c.create_string_buffer(96)
        memory, rates, number = Memory(), Rates(), c.c_uint()
        ok = not nvml.nvmlDeviceGetName(card, name, c.c_uint(96))
        row["name"] = name.value.decode("utf-8", "replace") if ok else None
        ok = not nvml.nvmlDeviceGetUUID(card, uuid, c.c_uint(96))
        row["uuid"] = uuid.value.decode("utf-8", "replace") if ok else None
        ok = not nvml.nvmlDeviceGetMemoryInfo(card, c.byref(memory))
        row["memory_bytes"] = memory.total if ok else None
        row["used_bytes"] = memory.used if ok else None
        ok = not nvml.nvmlDeviceGetUtilizationRates(card, c.byref(rates))
        row["util_pct"] = rates.gpu if ok else None
        ok = not nvml.nvmlDeviceGetTemperature(card, c.c_uint(0), c.byref(number))
        row["temperature_c"] = number.value if ok else None
        ok = not nvml.nvmlDeviceGetPowerUsage(card, c.byref(number))
        row["power_w"] = round(number.value / 1000.0, 1) if ok else None
        out.append(row)
    nvml.nvmlShutdown()
    return out


def parse(data: bytes) -> List[Dict[str, Any]] | None:
    """The child's output: the GPUs, or None if it reported nothing."""
    try:
        gpus = json.loads(data.decode("utf-8")).get("gpus")
    except (ValueError, AttributeError):
        return None
    return gpus if isinstance(gpus, list) else None
