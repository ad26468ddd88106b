"""What a job needs from a box (`resources` in the job file), and what a given box lacks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

GIB = 1 << 30


@dataclass(frozen=True)
class Need:
    """Constraints, never a platform's SKU. () or 0 = no constraint. `accelerators`: (name, count), any one of them."""

    accelerators: tuple[tuple[str, int], ...] = ()
    cpus: float = 0.0
    cpus_or_more: bool = False
    memory_gib: float = 0.0
    memory_or_more: bool = False
    disk_gib: float = 0.0
    # Of a machine that is rented for it: how long at most (0: not known), and whether it may be taken back before that.
    run_s: float = 0.0
    is_interruptible: bool = False

    def as_plain(self) -> dict[str, Any]:
        """As it enters the run's identity: only the constraints, in the job file's words."""
        out: dict[str, Any] = {}
        if self.accelerators:
            out["accelerators"] = [f"{name}:{count}" for name, count in self.accelerators]
        if self.cpus:
            out["cpus"] = f"{self.cpus:g}{'+' if self.cpus_or_more else ''}"
        if self.memory_gib:
            out["memory"] = f"{self.memory_gib:g}{'+' if self.memory_or_more else ''}"
        if self.disk_gib:
            out["disk_size"] = f"{self.disk_gib:g}"
        return out


def lacks(need: Need, *, cpus: float, memory_bytes: int, disk_free_bytes: int, gpus: Sequence[str]) -> tuple[str, ...]:
    """What a box lacks, a sentence each; () if nothing. `gpus`: the driver's names, one per device.

    A box with more than an exact number is fine: the number limits what is rented, not what exists.
    """
    out = []
    if need.accelerators and not any(_has(name, count, gpus) for name, count in need.accelerators):
        wanted = " or ".join(f"{name}:{count}" for name, count in need.accelerators)
        out.append(f"needs {wanted}; it has {', '.join(gpus) or 'no GPU'}")
    if cpus < need.cpus:
        out.append(f"needs {need.cpus:g} CPUs; it has {cpus:g}")
    if memory_bytes < need.memory_gib * GIB:
        out.append(f"needs {need.memory_gib:g} GiB of memory; it has {memory_bytes / GIB:.1f} GiB")
    if disk_free_bytes < need.disk_gib * GIB:
        out.append(f"needs {need.disk_gib:g} GiB of disk; {disk_free_bytes / GIB:.1f} GiB are free")
    return tuple(out)


def _has(name: str, count: int, gpus: Sequence[str]) -> bool:
    """Whether enough of `gpus` have this name: every part of it must be a word of the driver's name.

    "A100-80GB" fits "NVIDIA A100-SXM4-80GB"; "A10" does not fit "NVIDIA A100".
    """
    return sum(fits(name, gpu) for gpu in gpus) >= count


def fits(name: str, gpu: str) -> bool:
    """Whether the driver's name of a GPU contains every part of the wanted one as a word."""
    return set(_words(name)) <= set(_words(gpu))


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word]
