"""What a job needs of a box (`resources` of the job file), and whether a box has it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Need:
    """Constraints, never a platform's SKU. 0 or "" = no constraint."""

    accelerator: str = ""
    accelerators: int = 0
    cpus: float = 0.0
    cpus_or_more: bool = False
    memory_gib: float = 0.0
    memory_or_more: bool = False
    disk_gib: float = 0.0
