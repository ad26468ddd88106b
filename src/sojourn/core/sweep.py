"""A sweep: either its runs all write to separate places, or it does not exist."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sojourn.wire.errors import Misuse


class Collision(Misuse):
    """{first} and {second} would write to the same place: {why}. Nothing was started."""

    code = "collision"
    next_step = "give each cell a name of its own"


@dataclass(frozen=True)
class Cell:
    """Where one cell writes. `box`: the machine, whatever its sites are called; `root`: absolute there."""

    run: str
    box: str
    root: str


@dataclass(frozen=True)
class Sweep:
    """Cells whose names differ and whose roots are disjoint: no two equal, none inside another, on one box.

    Raises: Collision, for the first two that overlap.
    """

    name: str
    cells: tuple[Cell, ...]

    def __post_init__(self) -> None:
        known: dict[str, Cell] = {}
        for cell in self.cells:
            if cell.run in known:
                raise Collision(first=cell.run, second=cell.run, why="they have one name")
            known[cell.run] = cell
        self._refuse_shared_roots(self.cells)

    def _refuse_shared_roots(self, cells: Iterable[Cell]) -> None:
        # Sorted by their parts, a root stands directly before the first one inside it.
        by_root = sorted(cells, key=lambda cell: (cell.box, _parts(cell.root)))
        for one, other in zip(by_root, by_root[1:], strict=False):
            parts = _parts(one.root)
            if one.box == other.box and _parts(other.root)[: len(parts)] == parts:
                why = f"{one.root} is {'also' if one.root == other.root else 'around'} {other.root}"
                raise Collision(first=one.run, second=other.run, why=why)


def _parts(root: str) -> tuple[str, ...]:
    return tuple(part for part in root.split("/") if part not in ("", "."))
