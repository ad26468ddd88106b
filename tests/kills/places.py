"""Where a project runs: this machine, or a box of the laboratory with a real sshd. The files and processes of both are
seen from here, so that a strike lands without a connection and at its moment.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.lab import lab as laboratory
from tests.spine.conftest import alive

SITE = "gpu7"  # the box's name in the settings of its user
# Room for PyTorch and a trainer; the keeper's spares want some of the disk free.
KNOBS = {"BOX_MEM_MB": "4096", "BOX_DISK_MB": "2048", "BOX_INODES": "60000", "BOX_SHM_MB": "256"}


@dataclass(frozen=True)
class Place:
    """`site`: for `--site`. `base`: the keeper's folder there. `pids`: the namespace of its processes, "" here."""

    site: str
    base: Path
    pids: str = ""

    def pid(self, there: int) -> int:
        """The number by which this machine knows a living process of the place; 0 where it is gone."""
        if not self.pids:
            return there if alive(there) else 0
        for pid in self._living():
            if pid[1] == there:
                return pid[0]
        return 0

    def members(self, group: int) -> list[int]:
        """The living processes of a process group, by this machine's numbers."""
        return [pid for pid in _numbers() if alive(pid) and _group_of(pid) == group]

    def _living(self) -> Iterator[tuple[int, int]]:
        for pid in _numbers():
            try:
                if os.readlink(f"/proc/{pid}/ns/pid") == self.pids and alive(pid):
                    status = Path(f"/proc/{pid}/status").read_text()
                    yield pid, int(status.split("\nNSpid:")[1].split("\n")[0].split()[-1])
            except (OSError, IndexError):
                continue  # it has ended meanwhile


def here(home: Path) -> Place:
    """This machine, for the user who lives in `home`."""
    return Place("local", home / ".local/share/sojourn")


def box(number: int, home: Path) -> Place:
    """Box `number` of the laboratory, which is up; its user's settings in `home` name it, and the Python to take."""
    first = int((laboratory.FOLDER / f"boxes/{number}/pid").read_text())
    settings = home / ".config/sojourn/settings.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(
        f'[sites.{SITE}]\ntransport = "ssh"\naddress = "box{number}"\n'
        f"init = 'export PATH=\"{Path(sys.executable).parent}:$PATH\"'\n"
    )
    return Place(SITE, Path(f"/proc/{first}/root/root/.local/share/sojourn"), os.readlink(f"/proc/{first}/ns/pid"))


def shown() -> str:
    """The folders of this Python and of its libraries, for BOX_SHOW: a box has the system's own alone."""
    folders = {sys.prefix, sys.base_prefix, *(path for path in sys.path if path.endswith("-packages"))}
    return " ".join(sorted(path for path in folders if not path.startswith("/usr")))


def _numbers() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _group_of(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return -1
