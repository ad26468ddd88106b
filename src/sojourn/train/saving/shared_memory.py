"""Memory shared by the training and its writer process, in which a checkpoint file takes shape.

One copy of the state, allocated once and used for every save. Linux only (memfd). With CUDA the memory is registered
with the driver, so that copies from a GPU run at full speed.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import threading
from typing import Any, Callable, Iterator

from sojourn.formats.torch.write import Plan

PAGE = 4096
# PyTorch's copy uses its threads: two of them are no faster than one memmove, and small tensors are slower.
_TORCH_COPY_BYTES, _TORCH_THREADS = 4 << 20, 4
_MIB = 1 << 20
_ALONE = 0.375  # this part of the copy is made before the writer starts
_GRAIN, _GRAINS = 64 * _MIB, 64  # copied between two messages to the writer; at most so many of them, whatever the size
_PORTABLE = 1  # cudaHostRegisterPortable, driver_types.h of CUDA
_POPULATE_WRITE = 23  # MADV_POPULATE_WRITE, Linux 5.14, asm-generic/mman-common.h


def is_possible() -> bool:
    """Whether this system has nameless memory that two processes can share."""
    return hasattr(os, "memfd_create") and sys.platform == "linux"


class Arena:
    """The shared memory `fd`, mapped here. It has no pages until the writer process reserves them.

    Raises: OSError.
    """

    def __init__(self) -> None:
        self.fd = os.memfd_create("sojourn-checkpoint", os.MFD_CLOEXEC)
        self.bytes = 0
        self._map: mmap.mmap | None = None
        self._at = 0
        self._is_pinned: bool | None = None  # not yet requested
        self._touching: threading.Thread | None = None

    def adopt(self, size_bytes: int) -> None:
        """Map the first `size_bytes`, now reserved; a thread touches them meanwhile.   Raises: OSError."""
        self._settle()
        self._unpin()
        self._map = mmap.mmap(self.fd, size_bytes)
        self._at = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        if hasattr(self._map, "madvise") and hasattr(mmap, "MADV_DONTFORK"):
            self._map.madvise(mmap.MADV_DONTFORK)  # a forked worker needs no page tables of it
        self.bytes = size_bytes
        touching = threading.Thread(target=_touch, args=(self._at, size_bytes), daemon=True)
        try:
            touching.start()
        except RuntimeError:
            return  # no thread available: the first copy touches them
        self._touching = touching

    def _settle(self) -> None:
        if self._touching is not None:
            self._touching.join()
            self._touching = None

    def outline(self, plan: Plan) -> tuple[int, int]:
        """Put the plan's outline after the place of its pieces: (offset, bytes)."""
        assert self._map is not None
        self._settle()
        outline, behind = plan.outline(), -(-plan.bytes // PAGE) * PAGE
        self._map[behind : behind + len(outline)] = outline
        return behind, len(outline)

    def fill(self, plan: Plan, copied: Callable[[int], None]) -> None:
        """Copy all pieces of the plan to their places. `copied(n)` is called, with growing n, once the first `n` bytes
        are complete, finally with the plan's bytes. Not before over a third is: reading memory meanwhile slows the
        copy, during which the training stands still.

        The state may change once this returns.   Raises: ValueError (a piece changed size).
        """
        told, grain, gpus = int(plan.bytes * _ALONE), max(_GRAIN, plan.bytes // _GRAINS), set()
        for at, size, view in plan.places():
            for stop, device in self._copy(at, size, view, grain):
                gpus |= {device} - {None}
                if stop - told >= grain:
                    _arrive(gpus)
                    told = stop
                    copied(told)
        _arrive(gpus)
        copied(plan.bytes)

    def _copy(self, at: int, size: int, view: Callable[[], memoryview], grain: int) -> Iterator[tuple[int, Any]]:
        """Copy one piece, a grain at a time: (how far it got, the GPU that the bytes are coming from)."""
        assert self._map is not None
        raw, torch = getattr(view, "raw", None), sys.modules.get("torch")
        if raw is None or torch is None:
            data = view()
            if len(data) != size:
                raise ValueError(f"a piece of {size} bytes has {len(data)} while it is saved")
            self._map[at : at + size] = data
            yield at + size, None
            return
        is_cuda = raw.device.type == "cuda"
        by_threads = is_cuda or (size >= _TORCH_COPY_BYTES and torch.get_num_threads() >= _TORCH_THREADS)
        if is_cuda:
            self._pin(torch, raw.device)
        for start in range(0, size, grain):
            count = min(grain, size - start)
            if raw.device.type == "cpu" and not by_threads:
                ctypes.memmove(self._at + at + start, raw.data_ptr() + start, count)
            else:
                source = torch.empty(0, dtype=torch.uint8, device=raw.device).set_(raw, start, (count,), (1,))
                into = torch.frombuffer(self._map, dtype=torch.uint8, count=count, offset=at + start)
                into.copy_(source, non_blocking=is_cuda)
            yield at + start + count, raw.device if is_cuda else None

    def close(self) -> None:
        """Free the memory. Idempotent."""
        self._settle()
        self._unpin()
        self._map = None
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _pin(self, torch: Any, device: Any) -> None:
        """Register with the driver, for all GPUs. If it refuses, copies are slower but just as correct."""
        if self._is_pinned is not None:
            return
        self._is_pinned = not int(torch.cuda.cudart().cudaHostRegister(self._at, self.bytes, _PORTABLE))
        if not self._is_pinned:
            try:
                torch.zeros(1, device=device)  # the refusal stays as the latest error, and would fail the next kernel
            except RuntimeError:
                pass

    def _unpin(self) -> None:
        if self._is_pinned and "torch" in sys.modules:
            sys.modules["torch"].cuda.cudart().cudaHostUnregister(self._at)
        self._is_pinned = None


def _arrive(gpus: set[Any]) -> None:
    """Wait for the copies under way from these GPUs: they are queued on the stream that is current here."""
    for device in gpus:
        sys.modules["torch"].cuda.current_stream(device).synchronize()
    gpus.clear()


def _touch(at: int, size_bytes: int) -> None:
    """Put the pages into this process's page tables, so the first copy need not. Without the GIL.

    If the kernel is too old for it, the first copy takes longer.
    """
    ctypes.CDLL(None).madvise(ctypes.c_void_p(at), ctypes.c_size_t(size_bytes), _POPULATE_WRITE)


def least_bytes(plan: Plan) -> int:
    """The least that an arena for this plan takes."""
    return -(-plan.bytes // PAGE) * PAGE + len(plan.outline())


def wanted_bytes(plan: Plan) -> int:
    """The same with some room to grow, in whole pages."""
    return with_room(least_bytes(plan))


def with_room(least: int) -> int:
    """So many bytes with some room to grow, in whole pages; 0 for 0."""
    return -(-(least + least // 64 + _MIB) // PAGE) * PAGE if least else 0


def room_bytes() -> int:
    """Memory still available to this machine and this process's cgroup. Linux."""
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
    """[limit - usage + reclaimable cache], or [] without a limit."""
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
