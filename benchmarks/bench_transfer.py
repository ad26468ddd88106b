"""What moving bytes costs: pushing and pulling through sojourn, rsync and tar, over the same ssh and the same line.

A box of the laboratory (`tests/lab`) lies on this very machine: both ends take its processor time. Everything goes
over ssh, sojourn through its own calls in one process (`benchmarks/transfer_desk.py`), the peers through a shared
connection that stands already. Peers do not hash what they bring; `tar+proof` is tar, then sync, then `sha256sum -c`.
`TRANSFER_LINE` names a line of `LINES`. Where the laboratory cannot be had, the table says why instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.protocol import Row, lab_lacks

TITLE = "moving bytes over ssh"
ROUNDS = 3
# Of `tests/lab/wire`: ms one way, Mbit/s, % lost. The relay itself carries about 35 MB/s; "fast" goes without it.
LINES: dict[str, dict[str, float | str]] = {
    "fast": {},
    "far": {"delay": 25, "rate": 200},
    "lossy": {"delay": 25, "rate": 200, "loss": 0.5},
    "worst": {"delay": 100, "rate": 200, "loss": 2},
}
_why_not = ""


@contextmanager
def prepare(folder: Path) -> Iterator[dict[str, Callable[[], float]]]:
    """A box, the trees that go there and come from there, and a shared connection for the peers."""
    global _why_not
    _why_not = lab_lacks()
    if _why_not:
        yield {}
        return
    from benchmarks.transfer_desk import Desk
    from tests.lab import lab

    with lab.locked():
        lab.boxes("down")
        lab.boxes("up", "1", BOX_DISK_MB="6000", BOX_INODES="600000", BOX_MEM_MB="4096")
        try:
            with lab.client_namespace():
                desk = Desk(folder, lab.FOLDER / "boxes/ssh_config")
                if limits := LINES[os.environ.get("TRANSFER_LINE", "fast")]:
                    lab.Box(1).wire(**limits)
                with desk:
                    yield desk.measures()
        finally:
            lab.Box(1).heal()
            lab.boxes("down")


def rows(medians: dict[str, float]) -> list[Row]:
    """Seconds, and beside each way of ours its ratio to the best peer that proves as much."""
    if not medians:
        return [Row(f"not measured: {_why_not}", 0.0, "s")]
    out = []
    for name, value in medians.items():
        what, way = name.split(": ")
        peers = [medians[f"{what}: {peer}"] for peer in ("rsync", "tar+proof") if f"{what}: {peer}" in medians]
        out.append(Row(name, value, "s"))
        if way == "sojourn" and peers:
            out.append(Row(f"{what}: in times of the best of rsync and tar+proof", value / min(peers), "x"))
    return out
