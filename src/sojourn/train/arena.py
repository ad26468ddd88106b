"""Memory that the training and its writer process share, in which the file of a checkpoint takes shape.

One copy of the state, made once and used for every save. Linux only (memfd). On CUDA the memory is registered with the
driver, so that copies from a GPU go at full speed.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import threading
from typing import Any

from sojourn.wire.torch_write import Plan

PAGE = 4096
# PyTorch's copy uses its threads, of which two are no faster than one memmove; for small tensors it is slower.
_TORCH_COPY_BYTES, _TORCH_THREADS = 4 << 20, 4
_MIB = 1 << 20
_POPULATE_WRITE = 23  # MADV_POPULATE_WRITE, Linux 5.14, asm-generic/mman-common.h


def is_possible() -> bool:
    """Whether this system has memory that two processes can share without a name."""
    return hasattr(os, "memfd_create") and sys.platform == "linux"


class Arena:
    """The shared memory `fd`, mapped here. It has no pages until the writer process has reserved them.

    Raises: OSError.
    """

    def __init__(self) -> None:
        self.fd = os.memfd_create("sojourn-checkpoint", os.MFD_CLOEXEC)
        self.bytes = 0
        self._map: mmap.mmap | None = None
        self._at = 0
        self._is_pinned = False
        self._touching: threading.Thread | None = None

    def adopt(self, size_bytes: int) -> None:
        """Map the first `size_bytes`, which are reserved by now; a thread touches them meanwhile.   Raises: OSError."""
        self._settle()
        self._unpin()
        self._map = mmap.mmap(self.fd, size_bytes)
        self._at = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        if hasattr(self._map, "madvise") and hasattr(mmap, "MADV_DONTFORK"):
            self._map.madvise(mmap.MADV_DONTFORK)  # a forked worker needs no page tables of it
        self.bytes = size_bytes
        self._touching = threading.Thread(target=_touch, args=(self._at, size_bytes), daemon=True)
        self._touching.start()

    def _settle(self) -> None:
        if self._touching is not None:
            self._touching.join()
            self._touching = None

    def fill(self, plan: Plan) -> tuple[int, int]:
        """Copy all pieces of the plan to their places, and its outline behind them: (offset, bytes) of the outline.

        The state may change when this returns.   Raises: ValueError (a piece changed its size).
        """
        assert self._map is not None
        self._settle()
        torch = sys.modules.get("torch")
        by_threads = (
            _TORCH_COPY_BYTES if torch is not None and torch.get_num_threads() >= _TORCH_THREADS else sys.maxsize
        )
        gpus: dict[str, Any] = {}
        for at, size, view in plan.places():
            raw = getattr(view, "raw", None)
            if raw is None:
                data = view()
                if len(data) != size:
                    raise ValueError(f"a piece of {size} bytes has {len(data)} while it is saved")
                self._map[at : at + size] = data
            elif raw.device.type == "cpu" and size < by_threads:
                ctypes.memmove(self._at + at, raw.data_ptr(), size)
            elif size and torch is not None:
                if raw.device.type == "cuda":
                    gpus.setdefault(str(raw.device), raw.device)
                    self._pin(torch)
                source = torch.empty(0, dtype=torch.uint8, device=raw.device).set_(raw, 0, (size,), (1,))
                into = torch.frombuffer(self._map, dtype=torch.uint8, count=size, offset=at)
                into.copy_(source, non_blocking=raw.device.type == "cuda")
        for device in gpus.values():
            assert torch is not None
            torch.cuda.current_stream(device).synchronize()
        outline, behind = plan.outline(), -(-plan.bytes // PAGE) * PAGE
        self._map[behind : behind + len(outline)] = outline
        return behind, len(outline)

    def close(self) -> None:
        """Give the memory back. Idempotent."""
        self._settle()
        self._unpin()
        self._map = None
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _pin(self, torch: Any) -> None:
        """Register with the driver. Where it refuses, copies are slower and just as right."""
        if not self._is_pinned:
            self._is_pinned = True
            torch.cuda.cudart().cudaHostRegister(self._at, self.bytes, 0)

    def _unpin(self) -> None:
        if self._is_pinned and "torch" in sys.modules:
            sys.modules["torch"].cuda.cudart().cudaHostUnregister(self._at)
        self._is_pinned = False


def _touch(at: int, size_bytes: int) -> None:
    """Let this process's page tables know the pages, so that the first copy need not. Without the GIL.

    Where the kernel is too old for it, the first copy takes longer.
    """
    ctypes.CDLL(None).madvise(ctypes.c_void_p(at), ctypes.c_size_t(size_bytes), _POPULATE_WRITE)


def least_bytes(plan: Plan) -> int:
    """How much an arena for this plan takes."""
    return -(-plan.bytes // PAGE) * PAGE + len(plan.outline())


def wanted_bytes(plan: Plan) -> int:
    """The same with some room to grow, in whole pages."""
    least = least_bytes(plan)
    return -(-(least + least // 64 + _MIB) // PAGE) * PAGE


def room_bytes() -> int:
    """Memory that can still be taken before this machine, or this process's cgroup, is out of it. Linux."""
    found = []
    text = _read("/proc/meminfo")
    for line in text.splitlines():
        if line.startswith("MemAvailable:"):
            found.append(int(line.split()[1]) * 1024)
    for line in _read("/proc/self/cgroup").splitlines():
        _, kinds, path = (line.split(":", 2) + ["", ""])[:3]
        if kinds == "":
            found += _left("/sys/fs/cgroup" + path, "memory.max", "memory.current", "inactive_file")
            found += _left("/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file")
        elif "memory" in kinds.split(","):
            for folder in ("/sys/fs/cgroup/memory" + path, "/sys/fs/cgroup/memory"):
                found += _left(folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    return min(found, default=0)


def _left(folder: str, limit: str, usage: str, cache: str) -> list[int]:
    """[limit - usage + cache that would be dropped], or [] where there is no limit."""
    most, used = _read(os.path.join(folder, limit)).strip(), _read(os.path.join(folder, usage)).strip()
    if not most.isdigit() or not used.isdigit():
        return []
    rows = [line.split() for line in _read(os.path.join(folder, "memory.stat")).splitlines()]
    droppable = sum(int(row[1]) for row in rows if len(row) == 2 and row[0] == cache)
    return [int(most) - int(used) + droppable]


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as f:
            return f.read()
    except OSError:
        return ""
