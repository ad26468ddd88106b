"""What a user asks of `sweep`, made once by the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class SweepRequest:
    """The job file, and where and how its cells run.

    `file`: "" = ./sojourn.yaml; `sites`: () = the job's candidates, else its site. `slots`: cells at once on each box;
    0 = as this sweep has on it, else one per GPU, or one. `oversubscribe`: allow more of them than GPUs or CPUs.
    `env`: variables over those of the job file. `balance`: cells that wait on a box where they would be done much
    later than elsewhere are moved there. `new_code`: cells that ended without success run again with the code, `run`
    and `setup` as they are now. `scheduling`: options of its scheduler over those of the job file.
    """

    file: str = ""
    sites: Sequence[str] = ()
    slots: int = 0
    oversubscribe: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    balance: bool = False
    new_code: bool = False
    scheduling: Mapping[str, str | bool] = field(default_factory=dict)

    @property
    def flags(self) -> tuple[str, ...]:
        """The command's options for placing the cells; `PreparedSweep.given` has FILE and the job's own options."""
        return (
            *(("--sites", ",".join(self.sites)) if self.sites else ()),
            *(("--slots", str(self.slots)) if self.slots else ()),
            *(("--oversubscribe",) if self.oversubscribe else ()),
            *(("--balance",) if self.balance else ()),
            *(("--with-code", "new") if self.new_code else ()),
        )
